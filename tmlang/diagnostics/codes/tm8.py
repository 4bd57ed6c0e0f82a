"""Execution and records."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM801", "at least one run is needed"),
    Rule("TM802", "a time limit must be positive"),
)
