"""The waist: what a spec asks for, who carries it, how faithfully, at what cost."""

from tmlang.plan.capability import Capabilities
from tmlang.plan.lowering import lower, match

__all__ = ["Capabilities", "lower", "match"]
