"""``tmc export``: the threats and properties of a spec in another format, with their networks."""

from __future__ import annotations

import argparse
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmlang.cli.front import add_settings, exit_code, read_spec, show

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc export vnnlib spec.tm --out properties/          one property per example, and the network
  tmc export vnnlib spec.tm --out p/ --language 2      in VNN-LIB 2.0
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "export",
        help="write the properties of a spec, and its networks, for other verifiers",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("format", choices=("vnnlib",))
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True, help="a folder that is new or empty")
    parser.add_argument("--language", type=int, choices=(1, 2), default=1, help="the version of VNN-LIB")
    parser.add_argument("--trust-code", action="store_true", help="run the Python that the spec names")
    add_settings(parser)


def run(args: argparse.Namespace) -> int:
    front = read_spec(args.file, dict(args.settings))
    show(front.diagnostics, front.sources, to_stderr=True)
    if front.plan is None:
        return exit_code(front.diagnostics)
    from tmlang.diagnostics.stop import stop
    from tmlang.execute.vnnlib import files
    from tmlang.execute.world import World

    if args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
        raise stop("TM824", f"`{args.out}` is not empty", help="name another folder with --out")
    world = World(front.plan, trust_code=args.trust_code)
    world.verify()
    spec = f"{Path(args.file).name}, sha256 {sha256(Path(args.file).read_bytes()).hexdigest()}"
    subjects = {e.subject: e for e in front.plan.evaluations}
    made = [one for e in subjects.values() for one in files(e, world, args.language, spec)]
    args.out.mkdir(parents=True, exist_ok=True)
    for name, content in made:
        (args.out / name).write_bytes(content)
    print(f"{sum(n.endswith('.vnnlib') for n, _ in made)} properties in {args.out}")
    return 0
