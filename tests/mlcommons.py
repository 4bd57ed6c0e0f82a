"""MLCommons' own reader of Croissant.

It brings absl, whose log handler keeps the stream of the moment and closes it when another library sets logging up:
under pytest that is the stream of the capture, and every test behind it would fail.
"""

import sys
from contextlib import redirect_stderr

with redirect_stderr(sys.__stderr__):
    import mlcroissant

__all__ = ["mlcroissant"]
