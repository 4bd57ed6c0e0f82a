"""Threats and goals."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM401", "a clause of the threat is missing"),
    Rule("TM402", "the model may reject and the threat does not say what that counts as"),
    Rule("TM403", "a rejection policy for a model that never rejects"),
    Rule("TM404", "a success rule for a model that never draws"),
    Rule("TM405", "a random model needs a success rule"),
    Rule("TM406", "the target is not a class of the model"),
    Rule("TM407", "a rejection is never the target"),
    Rule("TM408", "this cannot be changed by an attacker"),
    Rule("TM409", "the mutable part does not fit the space"),
    Rule("TM410", "allow and minimize exclude each other"),
    Rule("TM411", "too few fresh draws for this confidence"),
    Rule("TM412", "the perturbation is fitted on the data that judge it"),
    Rule("TM413", "the access does not say what the attacker sees"),
    Rule("TM414", "a surrogate does not fit"),
    Rule("TM415", "the property cannot be stated of this network"),
    Rule("TM416", "data and model do not fit the same space"),
    Rule("TM418", "with two classes every target is the untargeted one", "warning"),
    Rule("TM419", "the figure cannot show this evaluation"),
    Rule("TM420", "a transform and what stands beside it can be read in two ways"),
    Rule("TM421", "the perturbation is fitted on examples that the masks are not for"),
    Rule("TM422", "nature draws, and success is judged on another number of draws"),
)
