"""Artifacts and data."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM701", "this is not a SHA-256"),
    Rule("TM702", "a clause of the data is missing"),
    Rule("TM703", "a path leaves the folder of the spec"),
    Rule("TM704", "the selection cannot be taken"),
    Rule("TM705", "a remote model is observed, not fixed"),
)
