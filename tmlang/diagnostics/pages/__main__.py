"""``python -m tmlang.diagnostics.pages [FOLDER]``: write the pages to ``docs/diagnostics``."""

import sys
from pathlib import Path

from tmlang.diagnostics.pages import write

write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/diagnostics"))
