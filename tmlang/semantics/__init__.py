"""Names, units, spaces, models, threats, evidence: what a tree means, and whether that is one thing."""

from tmlang.semantics.check import Checked, check

__all__ = ["Checked", "check"]
