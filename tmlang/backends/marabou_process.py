"""Marabou behind a pipe: a process that is started, asked, timed and killed; its other end is ``marabou_worker.py``."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

WORKER = Path(__file__).with_name("marabou_worker.py")
OVERSHOOT = 10.0
"""Seconds beyond its own time limit after which a solver that has not answered is killed (7 were measured)."""
START = 120.0
"""Seconds in which the library must be imported and the network read."""


class Dead(Exception):
    """The process gave no answer: ``killed`` after its time, or it went down by itself."""

    def __init__(self, message: str, *, killed: bool) -> None:
        super().__init__(message)
        self.killed = killed


class Marabou:
    """One solver process for one network file at a time, started when it is first asked and again after it has died.

    Leave it by ``with``: the process and whatever it started are gone then, whatever happened.
    """

    def __init__(self, model: Path, megabytes: int) -> None:
        self.model, self.megabytes = model, megabytes
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""

    def __enter__(self) -> Marabou:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def read(self, model: Path) -> None:
        """Ask about another network from here on. Raises :class:`Dead`."""
        self.model = model
        if self._process is not None:
            self._read()

    def ask(self, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """The answer to ``request`` within ``seconds`` and :data:`OVERSHOOT`. Raises :class:`Dead`."""
        if self._process is None:
            self._start()
            self._read()
        return self._answer(request, seconds + OVERSHOOT)

    def kill(self) -> None:
        """End the process group, if there is one, and wait for it."""
        process, self._process, self._pending = self._process, None, b""
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        process.wait()

    def _start(self) -> None:
        command = [sys.executable, "-I", str(WORKER), str(self.megabytes)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=self.model.parent, env=environment, start_new_session=True,
        )  # fmt: skip

    def _read(self) -> None:
        ready = self._answer({"network": str(self.model)}, START)
        if "failed" in ready:
            self.kill()
            raise Dead(f"Marabou does not read this network: {ready['failed']}", killed=False)

    def _answer(self, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """The line with which the process answers within ``seconds``."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        end = time.monotonic() + seconds
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError as broken:
            raise self._down() from broken
        while b"\n" not in self._pending:
            left = end - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                self.kill()
                raise Dead(f"no answer within {seconds:.0f} s: the process was killed", killed=True)
            more = os.read(process.stdout.fileno(), 1 << 16)
            if not more:
                raise self._down()
            self._pending += more
        line, self._pending = self._pending.split(b"\n", 1)
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    def _down(self) -> Dead:
        process = self._process
        assert process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        code = process.returncode
        self.kill()
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return Dead(
            f"the process of Marabou went down ({how}; its memory is limited to {self.megabytes} MB)", killed=False
        )
