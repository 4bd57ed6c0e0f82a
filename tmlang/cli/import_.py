"""``tmc import``: a property of another format, with its network, as a spec."""

from __future__ import annotations

import argparse
import gzip
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmlang.base.source import Source

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EPILOG = """\
examples:
  tmc import vnnlib prop_1.vnnlib net.onnx             the spec on standard output
  tmc import vnnlib prop_1.vnnlib net.onnx -o phi.tm   and into a file beside the network
  tmc import vnnlib prop_1.vnnlib.gz net.onnx -o phi.tm
  tmc import vnnlib prop_1.vnnlib net.onnx --constants exact    0.1 is the number, and no float32

constants: the standard types a decimal by the variables beside it, and tools read it as the nearest number of that type
(nearest, the default; Real is read as float32). Read as exact, a box may hold no input: its property is then vacuous.
"""
LIMIT = 64 << 20
"""Bytes that a property may have, unpacked."""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "import",
        help="turn a property of another format into a spec",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("format", choices=("vnnlib",))
    parser.add_argument("property", metavar="PROPERTY", help="a VNN-LIB file, version 1 or 2, .gz too")
    parser.add_argument("network", metavar="NETWORK", help="the ONNX file that it is about")
    parser.add_argument(
        "--constants",
        choices=("nearest", "exact"),
        default="nearest",
        help="what a decimal stands for: the nearest number of the stored type (default), or itself",
    )
    parser.add_argument("-o", "--out", metavar="SPEC", type=Path, help="write here (default: standard output)")


def run(args: argparse.Namespace) -> int:
    from tmlang.cli.front import exit_code, show
    from tmlang.diagnostics.stop import Stop
    from tmlang.interchange.as_spec import spec_text
    from tmlang.interchange.vnnlib import read
    from tmlang.semantics import check

    source, digest = _property(Path(args.property))
    network = Path(args.network)
    try:
        found = read(source, args.constants)
        text = spec_text(
            found,
            name=Path(args.property).name,
            sha256=digest,
            network=_beside(network, args.out),
            network_sha256=sha256(_bytes(network, "TM710")).hexdigest(),
        )
    except Stop as stopped:
        show(stopped.diagnostics, {source.name: source}, to_stderr=True)
        return 1
    checked = check(Source(str(args.out or "imported.tm"), text), settings={})
    show(checked.diagnostics, checked.sources, to_stderr=True)
    if code := exit_code(checked.diagnostics):
        return code
    if args.out is None:
        sys.stdout.write(text)
    else:
        args.out.write_text(text, encoding="utf-8")
    return 0


def _bytes(path: Path, code: str) -> bytes:
    from tmlang.diagnostics.stop import stop

    try:
        if path.stat().st_size > LIMIT:
            raise stop("TM725", f'"{path}" has more than {LIMIT >> 20} MB')
        return path.read_bytes()
    except OSError as fault:
        raise stop(code, f'"{path}" cannot be read: {fault.strerror or fault}') from fault


def _property(path: Path) -> tuple[Source, str]:
    """The text of a property, unpacked within the limit, and the hash of the file."""
    from tmlang.diagnostics.stop import stop

    data = raw = _bytes(path, "TM710")
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                data = packed.read(LIMIT + 1)
            if len(data) > LIMIT:
                raise stop("TM725", f'"{path}" has more than {LIMIT >> 20} MB unpacked')
        return Source(str(path), data.decode("utf-8")), sha256(raw).hexdigest()
    except (OSError, EOFError, UnicodeDecodeError) as fault:
        raise stop("TM740", f'"{path}" is no text: {fault}') from fault


def _beside(network: Path, out: Path | None) -> str:
    """The path of the network from the folder of the spec, which it must not leave."""
    from tmlang.diagnostics.stop import stop

    folder = (out.parent if out else Path()).resolve()
    if not network.resolve().is_relative_to(folder):
        help = "copy the network beside the spec, or write the spec with --out beside the network"
        raise stop("TM703", f'"{network}" lies outside the folder of the spec', help=help)
    return network.resolve().relative_to(folder).as_posix()
