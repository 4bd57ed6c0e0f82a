"""``tmc``: the command line. One lazy module per command; this one imports none but the one that is asked for.

A command module offers ``add_parser(subparsers)`` (cheap) and ``run(args) -> int``. Exit codes that all commands share:
0 clean, 1 diagnostics, 2 usage, 70 a fault in tmlang itself, 130 interrupted, 141 the reader of the output went away.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from tmlang import __version__

COMMANDS = {
    "check": "say whether a spec means one thing, and if not, where and why",
    "explain": "explain a diagnostic code, with a failing and a mended spec",
    "plan": "show what would run, on which library, how faithfully, at what cost",
    "run": "run a spec and write its bundle of evidence",
    "audit": "recheck a bundle: hashes, witnesses, every headline number",
    "replay": "give the saved inputs of one example to the model again",
    "incident": "keep a failing example as a spec of its own, and ask what became of it",
    "diff": "compare two bundles example by example",
    "review": "let a person judge whether failing inputs still show what their labels say",
    "report": "write the report of a bundle, or several side by side",
    "sign": "say with a key who made a bundle",
    "pack": "put a bundle into one zip, the same bytes every time",
    "fmt": "lay a spec out in the one standard way",
    "new": "write a commented spec that checks, to start from",
    "words": "say the threat model in a paragraph, in English or LaTeX",
    "attach": "put a spec, its lock and its evidence into a paper's PDF",
    "extract": "get them out of a PDF again, and audit them",
    "cite": "write the BibTeX entry of a claim",
    "freeze": "write every hash, version and resolved default into a lock",
    "import": "turn a property of another format (VNN-LIB), with its network, into a spec",
    "export": "write the properties of a spec, and its networks, for other verifiers (VNN-LIB)",
    "backends": "list the libraries and methods, and what each can carry",
}
"""Command -> what it does, in the order in which one needs them."""

_EPILOG = """\
a first session:
  tmc new first.tm             a commented spec to start from
  tmc check first.tm           does it mean one thing?
  tmc plan first.tm            what would run, and at what cost?
  tmc run first.tm             run it; the evidence goes to runs/
  tmc explain TM201            what a diagnostic means, with a mended spec

exit codes: 0 clean, 1 diagnostics, 2 wrong usage. `tmc COMMAND --help` shows the options of a command.
"""

_USAGE, _INTERNAL, _INTERRUPTED, _PIPE = 2, 70, 130, 141
_FAULT = """\
error[TM890]: tmc failed in a way that no spec should be able to cause: {kind}: {text}
  = note: nothing that was printed before this line should be relied on
  = help: run it again with TMC_DEBUG=1 to see where, and report that together with the spec
"""


def parser(command: str | None) -> tuple[argparse.ArgumentParser, ModuleType | None]:
    """The argument parser with the options of ``command`` only, and that command's module."""
    top = argparse.ArgumentParser(
        prog="tmc",
        description="Check, plan, run, audit and report adversarial-robustness claims written as .tm specs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"tmc {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", title="commands", required=True)
    module = None
    for name, summary in COMMANDS.items():
        if name == command:
            module = module_of(name)
            module.add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    return top, module


def module_of(command: str) -> ModuleType:
    """The module of a command; one whose name is a word of Python has an underscore behind it."""
    return importlib.import_module(f"tmlang.cli.{command}{'_' if keyword.iskeyword(command) else ''}")


def main(argv: Sequence[str]) -> int:
    """Run one command. Wrong usage leaves by ``SystemExit(2)`` as argparse has it.

    Raises :class:`~tmlang.diagnostics.stop.Stop` where a command ends otherwise than by returning: only code that a
    spec names does that, and its exit code is no result.
    """
    command = next((word for word in argv if not word.startswith("-")), None)
    top, module = parser(command)
    args = top.parse_args(argv)
    assert module is not None  # argparse has refused every other command
    try:
        code: int = module.run(args)
    except SystemExit as left:
        if left.code == _USAGE:
            raise
        raise _ended(left) from left
    sys.stdout.flush()
    return code


def _ended(left: SystemExit) -> Exception:
    from tmlang.diagnostics.stop import stop

    text = f"the code that the spec names ended the process: sys.exit({left.code!r})"
    return stop("TM719", text, help="a model returns its outputs, and a file of models is imported: neither may exit")


def entry(argv: Sequence[str] | None = None) -> None:
    """The console script: turns every way to end into an exit code, and a fault of ours into a diagnostic."""
    try:
        code = main(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        sys.stderr.write("tmc: interrupted\n")
        code = _INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout once more at exit; nobody reads it any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _PIPE
    except Exception as fault:
        if os.environ.get("TMC_DEBUG") == "1":
            raise
        code = _told(fault)
    sys.exit(code)


def _told(fault: Exception) -> int:
    """Say what ended the command: what the user can mend as diagnostics, anything else as a fault of ours."""
    from tmlang.cli.front import read_sources, show
    from tmlang.diagnostics.stop import Stop

    if isinstance(fault, Stop):
        show(fault.diagnostics, read_sources(fault.diagnostics), to_stderr=True)
        return 1
    sys.stderr.write(_FAULT.format(kind=type(fault).__name__, text=fault))
    return _INTERNAL
