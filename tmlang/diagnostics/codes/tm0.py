"""Syntax: raised by the parser."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM001", "this is not expected here"),
    Rule("TM002", "a clause has no value"),
    Rule("TM003", "there is no such clause here"),
    Rule("TM004", "a spec begins with its language edition"),
    Rule("TM005", "something that was opened is not closed"),
    Rule("TM006", "a character that the language does not use"),
    Rule("TM007", "a number cannot be read"),
    Rule("TM008", "the spec is too large or too deeply nested"),
    Rule("TM009", "a clause stands twice"),
    Rule("TM010", "this language edition is not known"),
    Rule("TM011", "the file is not UTF-8 text"),
    Rule("TM012", "the language cannot say this yet"),
    Rule("TM013", "an escape in a string means nothing"),
    Rule("TM014", "there is no such declaration"),
)
