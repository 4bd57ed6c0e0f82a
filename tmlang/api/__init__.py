"""tmlang from Python: what ``import tmlang as tm`` offers, and what the commands of ``tmc`` share (docs/api.md)."""
