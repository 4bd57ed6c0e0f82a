"""Evidence and claims."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM601", "a finite search is no lower bound"),
    Rule("TM602", "nothing here can certify"),
    Rule("TM603", "a certificate of another object"),
    Rule("TM604", "an average over attacks"),
    Rule("TM605", "numbers from different sets are compared"),
    Rule("TM606", "a claim binds an evaluation"),
    Rule("TM607", "this quantity does not exist for this subject"),
    Rule("TM608", "the claim does not say at which value of the curve"),
    Rule("TM609", "there is no such quantity"),
    Rule("TM610", "an estimate needs its interval"),
    Rule("TM611", "this rate is not called robust accuracy"),
    Rule("TM612", "a claim about the population needs a sampling statement"),
    Rule("TM613", "a share of one attack needs full attribution"),
    Rule("TM614", "a certificate alone proves no upper bound"),
    Rule("TM615", "the claim is true or false whatever is measured"),
    Rule("TM616", "the claim is in another unit"),
    Rule("TM617", "a quantity needs a baseline"),
    Rule("TM618", "the evaluation has no stage"),
    Rule("TM619", "nothing here searches"),
    Rule("TM620", "this stage does not suit this subject"),
    Rule("TM621", "the seed is not written", "warning"),
    Rule("TM622", "an estimate says nothing about the robust rate"),
    Rule("TM623", "this has no interval for the population"),
    Rule("TM624", "so few draws can certify nothing"),
    Rule("TM625", "so few draws cannot reach every radius", "warning"),
    Rule("TM626", "a proof in real arithmetic says nothing of the object"),
)
