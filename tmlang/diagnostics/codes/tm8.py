"""Execution and records."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM801", "at least one run is needed"),
    Rule("TM802", "a time limit must be positive"),
    # Found while a spec runs.
    Rule("TM820", "an original is not in its own allowed set"),
    Rule("TM821", "the allowed set holds nothing but the original"),
    Rule("TM822", "a stage changed the model"),
    Rule("TM823", "a certificate is contradicted by a witness"),
    Rule("TM824", "the output folder cannot be used"),
    Rule("TM825", "a stage failed on some units", "warning"),
    Rule("TM826", "the runner cannot carry this yet"),
    # A fault of ours, told by the command line.
    Rule("TM890", "tmc failed in a way that no spec should be able to cause"),
)
