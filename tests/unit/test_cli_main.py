"""The door of ``tmc``: lazy commands, exit codes, and no way to end in a traceback."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tmlang import __version__
from tmlang.cli import main
from tmlang.diagnostics.stop import stop


def ended(argv: list[str]) -> int:
    with pytest.raises(SystemExit) as left:
        main.entry(argv)
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[argparse.Namespace], int]], None]:
    """Puts a command of one's own behind ``check``."""

    def install(run: Callable[[argparse.Namespace], int]) -> None:
        module = ModuleType("tmlang.cli.check")
        module.__dict__.update(add_parser=lambda subparsers: subparsers.add_parser("check"), run=run)
        monkeypatch.setitem(sys.modules, "tmlang.cli.check", module)

    return install


def raising(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def run(_: argparse.Namespace) -> int:
        raise error

    return run


@pytest.mark.parametrize("code", [0, 1, 3, 4, 5])
def test_the_code_of_the_command_is_the_code_of_tmc(command: Any, code: int) -> None:
    command(lambda _: code)
    assert ended(["check"]) == code


def test_a_fault_of_ours_is_told_as_a_diagnostic(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(raising(ZeroDivisionError("division by zero")))
    assert ended(["check"]) == 70
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error[TM890]: ")
    assert "ZeroDivisionError: division by zero" in err
    assert "TMC_DEBUG=1" in err
    assert "Traceback" not in err


def test_what_the_user_can_mend_is_told_as_its_diagnostics(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(raising(stop("TM860", "there is no lock", help="tmc freeze")))
    assert ended(["check"]) == 1
    assert capsys.readouterr().err.startswith("error[TM860]: there is no lock")


def test_a_fault_of_ours_is_raised_when_asked_for(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMC_DEBUG", "1")
    command(raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main.entry(["check"])


@pytest.mark.parametrize("code", [0, 1, None, "done"])
def test_code_of_a_spec_that_exits_is_no_result(code: Any, command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(raising(SystemExit(code)))
    assert ended(["check"]) == 1
    assert f"sys.exit({code!r})" in capsys.readouterr().err


def test_an_interrupt_ends_quietly(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(raising(KeyboardInterrupt()))
    assert ended(["check"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["--nonsense"], ["check"], ["explain", "a", "b"]])
def test_wrong_usage_is_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(argv) == 2
    assert "usage: tmc" in capsys.readouterr().err


def test_version_and_help_teach(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"tmc {__version__}"
    assert ended(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in main.COMMANDS)
    assert "tmc check first.tm" in shown


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_offers_the_two_functions_and_help_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = main.module_of(name)
    assert callable(module.add_parser)
    assert callable(module.run)
    assert ended([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"tmc {name}" in shown.split("usage:", 1)[1].replace(f"tmc {name} [-h]", "", 1), "the help has no example"


def test_a_closed_pipe_is_no_error_of_ours() -> None:
    done = subprocess.run(
        f"{sys.executable} -m tmlang --help | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.returncode in (0, 141)


def test_help_loads_no_command() -> None:
    code = "import sys; from tmlang.cli import main\ntry: main.entry(['--help'])\nexcept SystemExit: pass\n"
    code += "print(sorted(m for m in sys.modules if m.startswith('tmlang.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['tmlang.cli', 'tmlang.cli.main']"
