"""Nothing but diagnostics: mutated specs, real and random ones, through parser, layout, checker and matcher.

    python tests/fuzz/fuzz_front.py --inputs 200000            # as in CI
    python tests/fuzz/fuzz_front.py --inputs 5000000 --jobs 2  # once by hand
    python tests/fuzz/fuzz_front.py --first 400000             # go on after 400,000 inputs
    python tests/fuzz/fuzz_front.py --only 12345               # one input again

Input number ``n`` depends on ``--seed`` and ``n`` alone. A failing one is written beside where the script was started.
Exit code 1 when any input raised, gave a tree together with errors or neither, pointed outside of its text, took more
than a second of CPU, or when the process grew beyond 512 MiB.
"""

# ruff: noqa: E402
from __future__ import annotations

import argparse
import gc
import multiprocessing
import random
import re
import resource
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "property")]

from generate import random_spec

from tmlang.base.source import Source
from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.render import text as rendered
from tmlang.plan import Capabilities, match
from tmlang.semantics import check
from tmlang.syntax import parse
from tmlang.syntax.printer import format_tree

SECONDS = 1.0
MEBIBYTES = 512
CAPABILITIES = Capabilities()
FORBIDDEN = re.compile(r"illegal|invalid syntax", re.IGNORECASE)
_TOKEN = re.compile(r'#[^\n]*|"[^"\n]*"|\'[^\'\n]*\'|[A-Za-z_]\w*:?|[0-9][0-9.eE]*|[<>=]=|->|\.\.|\s+|.')
_ODD = (
    *"{}()[]<>=:,.;\"'#%+-*/\\\x00\r\t\ufeff\u202eé≤",
    *(
        "1e999999999",
        "9" * 200,
        "0",
        "-",
        "1/0",
        "in",
        "or",
        "and",
        "not",
        "is",
        "\n",
        "\r\n",
        " ",
        "tm 1",
        "((((((((",
        "{" * 60,
    ),
    *("linf", "targeted", "goal:", "step:", "ball:", "x:", "'levels'", "%", '"', "'", "#", "##", "- " * 120),
)


@cache
def corpus() -> tuple[str, ...]:
    """All specs at hand, whole, and one declaration each."""
    folders = [ROOT / "specs", ROOT / "stdlib", ROOT.parent / "shared" / "specs", ROOT / "tmlang" / "diagnostics"]
    whole = [p.read_text(encoding="utf-8") for folder in folders for p in sorted(folder.rglob("*.tm"))]
    pages = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "tmlang/diagnostics/pages").glob("*.md"))]
    shown = [body for page in pages for body in re.findall(r"```tm \w+\n(.*?)```", page, re.S)]
    parts = [part for text in whole + shown for part in re.split(r"\n\s*\n", text) if part.strip()]
    return (*whole, *parts * 4)


@cache
def vocabulary() -> tuple[str, ...]:
    return tuple({token for text in corpus() for token in _TOKEN.findall(text)})


def make_input(seed: int, number: int) -> str:
    """Input ``number`` of a run."""
    rng = random.Random(seed * 10**9 + number)
    text = random_spec(rng.randrange(1 << 30), 1) if rng.random() < 0.05 else rng.choice(corpus())
    if not text.lstrip("# \n").startswith("tm") and rng.random() < 0.95:
        text = "tm 1\n" + text
    if rng.random() < 0.15:
        return _by_characters(text, rng)
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4, 16))):
        _mutate(tokens, rng)
    return "".join(tokens)


def _mutate(tokens: list[str], rng: random.Random) -> None:
    place = rng.randrange(len(tokens) + 1)
    other = rng.randrange(len(tokens) + 1)
    match rng.randrange(6):
        case 0:
            del tokens[place : place + rng.choice((1, 1, 2, 8))]
        case 1:
            tokens[place:place] = tokens[other : other + rng.choice((1, 2, 8))]
        case 2:
            tokens[place : place + 1] = [rng.choice(vocabulary())]
        case 3:
            tokens.insert(place, rng.choice(vocabulary()))
        case 4:
            tokens.insert(place, rng.choice(_ODD))
        case _:
            tokens[place : place + 1], tokens[other : other + 1] = tokens[other : other + 1], tokens[place : place + 1]


def _by_characters(text: str, rng: random.Random) -> str:
    raw = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(raw) + 1)
        if rng.random() < 0.5:
            raw[place : place + rng.choice((1, 3))] = bytes([rng.randrange(256)])
        else:
            raw[place:place] = bytes([rng.randrange(256) for _ in range(rng.randint(1, 3))])
    return raw.decode("utf-8", rng.choice(("replace", "ignore", "surrogateescape")))


def fault(text: str, how: str) -> str | None:
    """What is wrong with the answer of checker and matcher (``check``), or of the parser, the layout and the display of
    diagnostics (``layout``), if anything; exceptions come through."""
    source = Source("fuzz.tm", text)
    if how == "check":
        checked = check(source)
        if (checked.program is None) != any(d.is_error for d in checked.diagnostics):
            return "a program and errors, or neither"
        matched = match(checked.sound, CAPABILITIES) if checked.sound else ()
        return next((wrong for d in (*checked.diagnostics, *matched) if (wrong := _wrong(d, text))), None)
    tree, diagnostics = parse(source)
    if (tree is None) != bool(diagnostics):
        return "a tree and diagnostics, or neither"
    if tree is not None and parse(Source("fuzz.tm", format_tree(tree))).tree != tree:
        return "the layout has another tree"
    rendered(diagnostics, {source.name: source})
    return next((wrong for d in diagnostics if (wrong := _wrong(d, text))), None)


def _wrong(d: Diagnostic, text: str) -> str | None:
    span = d.span
    if span.file == "fuzz.tm" and not 0 <= span.start <= span.end <= len(text):
        return f"{d.code} points outside of the text"
    if FORBIDDEN.search(d.message) or "\n" in d.message:
        return f"{d.code} is badly worded: {d.message}"
    return None


def _how(number: int, parse_only: bool) -> str:
    return "layout" if parse_only or number % 4 == 0 else "check"


def run(seed: int, numbers: range, parse_only: bool) -> list[tuple[int, str]]:
    """The failing inputs among ``numbers``, with what went wrong."""
    failures = []
    for number in numbers:
        text = make_input(seed, number)
        start = time.process_time()
        try:
            wrong = fault(text, _how(number, parse_only))
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong is None and time.process_time() - start > SECONDS:
            wrong = f"took {time.process_time() - start:.1f} s"
        if wrong is not None:
            failures.append((number, wrong))
    return failures


def _chunks(first: int, count: int, size: int) -> Iterator[range]:
    return (range(start, min(start + size, count)) for start in range(first, count, size))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="leave out the inputs before this one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int, help="show and run one input, with its traceback")
    parser.add_argument("--parse-only", action="store_true", help="leave the checker out")
    args = parser.parse_args()
    if args.only is not None:
        text = make_input(args.seed, args.only)
        print(text)
        print("---", fault(text, _how(args.only, args.parse_only)))
        return 0
    corpus(), vocabulary()
    gc.freeze()
    start = time.monotonic()
    done, failed = 0, 0
    with multiprocessing.get_context("fork").Pool(args.jobs) as pool:
        work = [(args.seed, chunk, args.parse_only) for chunk in _chunks(args.first, args.inputs, 2_000)]
        for (_, chunk, _), failures in zip(work, pool.imap(_work, work), strict=True):
            done += len(chunk)
            for number, wrong in failures:
                failed += 1
                print(f"input {number}: {wrong}", flush=True)
                text = make_input(args.seed, number)
                Path(f"fuzz-{args.seed}-{number}.tm").write_text(text, encoding="utf-8", errors="surrogatepass")
            if chunk.stop % 100_000 == 0:
                print(f"{chunk.stop:,} of {args.inputs:,}, {failed} failures", file=sys.stderr, flush=True)
    seconds = time.monotonic() - start
    print(f"{done:,} inputs, {failed} failures, {done / seconds:,.0f} a second")
    return int(failed > 0)


def _work(job: tuple[int, range, bool]) -> list[tuple[int, str]]:
    """A share of the inputs in a process of its own, whose memory is watched."""
    failures = run(*job)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if peak > MEBIBYTES:
        failures.append((job[1].start, f"the process grew to {peak} MiB"))
    return failures


if __name__ == "__main__":
    sys.exit(main())
