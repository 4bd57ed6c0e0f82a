"""Names and modules."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM101", "a name is not known"),
    Rule("TM102", "a name is declared twice"),
    Rule("TM103", "a name stands for another kind of thing"),
    Rule("TM104", "a module is not found"),
    Rule("TM105", "a module does not declare this name"),
    Rule("TM106", "modules import each other in a circle"),
    Rule("TM107", "a module lies outside the folder of the spec"),
    Rule("TM108", "there is no such parameter"),
    Rule("TM109", "a parameter gets no value"),
    Rule("TM110", "the space has no such feature"),
    Rule("TM111", "the allowed set has no such branch"),
    Rule("TM112", "a curve runs over no parameter"),
    Rule("TM113", "the model has no such class"),
    Rule("TM114", "an argument is given twice"),
    Rule("TM115", "a definition refers to itself"),
    Rule("TM116", "there is no such option"),
)
