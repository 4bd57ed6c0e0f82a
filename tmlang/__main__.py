"""``python -m tmlang`` is ``tmc``."""

from tmlang.cli.main import entry

entry()
