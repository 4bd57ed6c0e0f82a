"""Models and decisions."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM301", "a clause of the model is missing"),
    Rule("TM302", "a vote can tie and nothing says what then"),
    Rule("TM303", "the number of entries does not fit the input"),
    Rule("TM304", "the input is normalized twice"),
    Rule("TM305", "the network sees another range than it was normalized for"),
    Rule("TM306", "the order of the colour channels does not fit"),
    Rule("TM307", "there is no such step"),
    Rule("TM308", "an argument of a step"),
    Rule("TM309", "probabilities go into a loss that needs logits"),
    Rule("TM310", "the number of classes does not fit"),
    Rule("TM311", "the declared randomness does not fit the model"),
    Rule("TM312", "a fixed seed without a reason"),
    Rule("TM313", "a rejection rule looks at something that the model does not have"),
    Rule("TM314", "a step stands in the wrong place"),
    Rule("TM315", "a threshold needs one score and two classes"),
    Rule("TM316", "the layout of the picture does not fit"),
    Rule("TM317", "the network is not fully given"),
    Rule("TM318", "what scores that are not finite count as is no such word"),
    Rule("TM320", "a step gives a picture the size that it has", "warning"),
    Rule("TM321", "the order of three channels is not said", "warning"),
)
