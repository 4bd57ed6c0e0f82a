"""``tmc run --sandbox``: the whole command again, under bubblewrap.

Inside there is no network, no home, a ``/tmp`` and process table of its own, and nothing that can be written but the
folder of the bundle. The files of the spec, of Python and of the system are there to be read.
Source: https://github.com/containers/bubblewrap (bwrap(1)).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import tmlang
from tmlang.base.resources import resource
from tmlang.diagnostics.stop import stop

_FLAG = "--sandbox"


def contained(argv: Sequence[str], spec: Path, out: Path | None) -> int:
    """Run ``tmc`` with ``argv`` without its flag in a sandbox; gives its exit code. Raises TM829 where that is not to
    be had."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise stop("TM829", "--sandbox needs bubblewrap, and there is no `bwrap`", help="apt-get install bubblewrap")
    walls = [bwrap, *_walls(spec.resolve(), (out or Path("runs")).resolve())]
    tried = subprocess.run([*walls, sys.executable, "-c", ""], capture_output=True, text=True, check=False)
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        help = "user namespaces must be allowed; within a container, that is up to whoever starts it"
        raise stop("TM829", "bubblewrap cannot make a sandbox here", notes=(said,), help=help)
    inner = [a for a in argv if a != _FLAG]
    return subprocess.run([*walls, sys.executable, "-m", "tmlang", *inner], check=False).returncode


def _walls(spec: Path, out: Path) -> list[str]:
    """The arguments of ``bwrap``. Later ones cover earlier ones."""
    out.mkdir(parents=True, exist_ok=True)
    home = Path.home().resolve()
    own = [Path(tmlang.__file__).parent, resource("grammar"), resource("stdlib")]
    readable = [Path(sys.prefix), Path(sys.base_prefix), *own, spec.parent]
    made = ["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/"]
    made += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    if home != Path("/"):
        made += ["--tmpfs", str(home)]
    for path in dict.fromkeys(readable):
        made += ["--ro-bind", str(path), str(path)]
    here = os.getcwd()
    return [*made, "--bind", str(out), str(out), "--dir", here, "--chdir", here]
