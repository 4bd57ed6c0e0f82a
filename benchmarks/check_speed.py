"""CPU time of ``tmc check`` on a page-long spec, the start of Python included.

    python benchmarks/check_speed.py

Ends with exit code 1 above the bound. The least of the runs is what the work costs; the rest is the machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SPEC = Path(__file__).resolve().parents[1] / "specs" / "digits" / "digits.tm"
RUNS = 15
BOUND = 0.150


def cpu_seconds(compiled: str) -> float:
    """User and system time of one ``tmc check`` in a process of its own, its byte code in the folder ``compiled``."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = compiled
    command = [sys.executable, "-m", "tmlang", "check", str(SPEC)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    with tempfile.TemporaryDirectory() as compiled:
        cpu_seconds(compiled)  # as an installation does once
        times = [cpu_seconds(compiled) for _ in range(RUNS)]
    print(f"tmc check {SPEC.name}, {len(SPEC.read_text().splitlines())} lines, {RUNS} runs, CPU milliseconds")
    print(f"  least {1000 * min(times):.0f}, median {1000 * statistics.median(times):.0f} (bound {1000 * BOUND:.0f})")
    return int(min(times) > BOUND)


if __name__ == "__main__":
    sys.exit(main())
