"""Campaigns: one check, asked about many seeds, in blocks that are recorded as they end, so that a killed run goes on.

    python tests/campaign --list
    python tests/campaign NAME --jobs 2              # to its full count; goes on where it was stopped
    python tests/campaign NAME --seeds 5000:20000 --shard 2/4 --minutes 30
    python tests/campaign NAME --only 12345          # one seed again, here, with its traceback
    python tests/campaign --all                      # what `make campaign` does

A campaign is a module ``tests/campaign/of_NAME.py`` with ``CAMPAIGN = Campaign(about, count, check)``. ``check`` is
given a range of seeds and yields ``(seed, what is wrong)``; ``each`` makes one of a function of a single seed that
returns what is wrong. What it raises is a violation too. ``counted(units=4)`` adds to counts that the result sums up.

Finished blocks are lines of ``runs/campaign/NAME/*.jsonl``; a line that was cut off is not read. ``result.json`` and
the printed line (for ``benchmarks/README.md``) name every commit whose code answered. Exit code 0: all asked, nothing
wrong; 1: violations, with the seeds; 3: stopped before the end.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
KEPT = 20
"""Violations that are printed."""

Check = Callable[[range], Iterable[tuple[int, str]]]
_counts: Counter[str] = Counter()
_through: list[bool] = []
"""Holds something where exceptions are to be seen, not counted."""


@dataclass(frozen=True)
class Campaign:
    """``count`` seeds from 0 on, asked about in blocks of ``block``; ``nightly`` of them in ``make nightly``, which has
    four hours of CPU for everything."""

    about: str
    count: int
    check: Check
    nightly: int = 0
    block: int = 50


def each(check: Callable[[int], Sequence[str]]) -> Check:
    """A check of blocks from one of single seeds: one that raises does not end its block."""

    def block(seeds: range) -> Iterator[tuple[int, str]]:
        for seed in seeds:
            try:
                wrong = check(seed)
            except Exception as error:
                if _through:
                    raise
                wrong = [_raised(error)]
            for text in wrong:
                yield seed, text

    return block


def counted(**counts: int) -> None:
    """Adds to the counts of the block that is being asked about."""
    _counts.update(counts)


def campaigns() -> list[str]:
    return sorted(path.stem[3:] for path in HERE.glob("of_*.py"))


def load(name: str) -> Campaign:
    found: Campaign = importlib.import_module(f"campaign.of_{name}").CAMPAIGN
    return found


@dataclass
class Block:
    """A finished block: what was asked, what was wrong, and whose code answered."""

    first: int
    stop: int
    violations: list[tuple[int, str]]
    counts: dict[str, int]
    cpu: float
    commit: str
    torch: str

    def line(self) -> bytes:
        return json.dumps(vars(self), ensure_ascii=True).encode() + b"\n"


def ask(check: Check, seeds: range, commit: str, torch: str) -> Block:
    """The answers about a block; an exception is a violation of the seed after the last one that was answered."""
    _counts.clear()
    start, wrong = time.process_time(), []
    try:
        for seed, text in check(seeds):
            wrong.append((seed, text))
    except Exception as error:
        wrong.append((seeds.start, f"one of {seeds.start}:{seeds.stop}: {_raised(error)}"))
    spent = time.process_time() - start
    return Block(seeds.start, seeds.stop, wrong, dict(_counts), round(spent, 3), commit, torch)


def _raised(error: Exception) -> str:
    return f"raised {type(error).__name__}: {error}"


class Kept:
    """The finished blocks of a campaign in a folder; only whole lines count."""

    def __init__(self, folder: Path, fresh: bool = False) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            for path in (*folder.glob("*.jsonl"), *folder.glob("result.json")):
                path.unlink()
        self.blocks = [block for path in sorted(folder.glob("*.jsonl")) for block in _whole(path)]

    def add(self, block: Block, shard: str) -> None:
        """On the disk when this returns; a line cut off by a kill before is ended first."""
        path = self.folder / f"{shard}.jsonl"
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(descriptor).st_size
            cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" * cut + block.line())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.blocks.append(block)

    def within(self, seeds: range) -> list[Block]:
        return [b for b in self.blocks if b.first < seeds.stop and b.stop > seeds.start]

    def open(self, seeds: range, size: int, index: int = 0, of: int = 1) -> list[range]:
        """What is left of the shard ``index``, in blocks that lie at multiples of ``size``."""
        done = {seed for block in self.within(seeds) for seed in range(block.first, block.stop)}
        left = []
        for number in range(seeds.start // size, -(-seeds.stop // size)):
            if number % of == index:
                part = range(max(number * size, seeds.start), min((number + 1) * size, seeds.stop))
                left += _runs([seed for seed in part if seed not in done])
        return left


def _whole(path: Path) -> Iterator[Block]:
    for line in path.read_bytes().split(b"\n"):
        try:
            raw = json.loads(line)
            raw["violations"] = [(seed, text) for seed, text in raw["violations"]]
            yield Block(**raw)
        except (ValueError, TypeError, KeyError):
            continue


def _runs(seeds: Sequence[int]) -> list[range]:
    """Neighbours together."""
    made: list[range] = []
    for seed in seeds:
        if made and made[-1].stop == seed:
            made[-1] = range(made[-1].start, seed + 1)
        else:
            made.append(range(seed, seed + 1))
    return made


@dataclass(frozen=True)
class Result:
    """What is known of a campaign's seeds."""

    name: str
    seeds: range
    blocks: list[Block] = field(repr=False)

    @property
    def asked(self) -> int:
        return len({s for b in self.blocks for s in range(b.first, b.stop) if s in self.seeds})

    @property
    def violations(self) -> list[tuple[int, str]]:
        return sorted({v for b in self.blocks for v in b.violations if v[0] in self.seeds})

    def json(self) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        for block in self.blocks:
            counts.update(block.counts)
        return {
            "campaign": self.name,
            "seeds": [self.seeds.start, self.seeds.stop],
            "asked": self.asked,
            "violations": self.violations,
            "counts": dict(counts),
            "commits": sorted({b.commit for b in self.blocks}),
            "torch": sorted({b.torch for b in self.blocks}),
            "cpu_seconds": round(sum(b.cpu for b in self.blocks)),
            "date": datetime.now(UTC).date().isoformat(),
        }

    def line(self) -> str:
        """A row for the table of ``benchmarks/README.md``."""
        told = self.json()
        counts = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in sorted(told["counts"].items()))  # type: ignore[attr-defined]
        seeds = f"{self.seeds.start}:{self.seeds.stop}" + (
            "" if self.asked == len(self.seeds) else f" ({self.asked:,})"
        )
        cells = [
            self.name, seeds, str(len(self.violations)), counts, ", ".join(told["commits"]),  # type: ignore[arg-type]
            ", ".join(told["torch"]), f"{told['cpu_seconds']:,}", str(told["date"]),  # type: ignore[arg-type]
        ]  # fmt: skip
        return "| " + " | ".join(cells) + " |"

    def write(self, folder: Path) -> None:
        half = folder / f"result.json.{os.getpid()}"
        half.write_text(json.dumps(self.json(), indent=1) + "\n", encoding="utf-8")
        half.replace(folder / "result.json")


def run(
    name: str, campaign: Campaign, seeds: range, kept: Kept, *, shard: tuple[int, int] = (1, 1), jobs: int = 1,
    minutes: float | None = None,
) -> Result:  # fmt: skip
    """Asks what was not asked yet, block by block; ends early after ``minutes``."""
    index, of = shard
    left = kept.open(seeds, campaign.block, index - 1, of)
    commit, torch = _commit(), version("torch")
    progress = Progress(name, sum(map(len, left)), sum(len(b.violations) for b in kept.within(seeds)))
    work = [(name, part, commit, torch) for part in left]
    end = None if minutes is None else time.monotonic() + 60 * minutes
    for block in _answers(campaign, work, jobs):
        kept.add(block, f"{index}-of-{of}")
        progress.show(block)
        if end is not None and time.monotonic() > end:
            break
    result = Result(name, seeds, kept.within(seeds))
    result.write(kept.folder)
    return result


def _answers(campaign: Campaign, work: list[tuple[str, range, str, str]], jobs: int) -> Iterator[Block]:
    if jobs == 1:
        yield from (ask(campaign.check, *rest) for _, *rest in work)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_work, work)


def _work(given: tuple[str, range, str, str]) -> Block:
    name, *rest = given
    return ask(load(name).check, *rest)


class Progress:
    """A line on stderr about every ten seconds."""

    def __init__(self, name: str, seeds: int, wrong: int) -> None:
        self.name, self.seeds, self.wrong = name, seeds, wrong
        self.done, self.start, self.shown = 0, time.monotonic(), time.monotonic()

    def show(self, block: Block) -> None:
        self.done += block.stop - block.first
        self.wrong += len(block.violations)
        for seed, text in block.violations[:KEPT]:
            print(f"{self.name}: seed {seed}: {text}", flush=True)
        now = time.monotonic()
        if now - self.shown > 10 or self.done == self.seeds:
            self.shown, rate = now, self.done / (now - self.start)
            left = (self.seeds - self.done) / rate
            told = f"{self.done:,} of {self.seeds:,}, {self.wrong} violations"
            print(f"{self.name}: {told}, {rate:.1f} a second, {left / 60:.0f} min left", file=sys.stderr, flush=True)


def _commit() -> str:
    def git(*args: str) -> str:
        try:
            return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        except OSError:
            return ""

    changed = "+" if git("status", "--porcelain", "--untracked-files=no") else ""
    return (git("rev-parse", "--short=9", "HEAD") or "unknown") + changed


def _seeds(text: str) -> range:
    if not (found := re.fullmatch(r"(\d+):(\d+)", text)) or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no range of seeds such as 0:20000")
    return range(int(found[1]), int(found[2]))


def _shard(text: str) -> tuple[int, int]:
    if not (found := re.fullmatch(r"(\d+)/(\d+)", text)) or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no shard such as 1/4")
    return int(found[1]), int(found[2])


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="the campaigns and their counts")
    parser.add_argument("--all", action="store_true", help="every campaign, one after the other")
    parser.add_argument("--nightly", action="store_true", help="only as many seeds as make nightly asks about")
    parser.add_argument("--seeds", type=_seeds, metavar="A:B", help="these, in place of the campaign's count")
    parser.add_argument("--shard", type=_shard, default=(1, 1), metavar="I/N", help="one of N shares of the blocks")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="stop after so long, to be gone on with later")
    parser.add_argument("--fresh", action="store_true", help="forget what was asked before")
    parser.add_argument("--only", type=int, metavar="SEED", help="one seed, not recorded, with its traceback")
    parser.add_argument("--into", type=Path, default=ROOT / "runs" / "campaign", metavar="FOLDER")
    args = parser.parse_args(given)
    args.names = campaigns() if args.all or args.list else args.names
    if unknown := set(args.names) - set(campaigns()):
        parser.error(f"no campaign {', '.join(sorted(unknown))}; there are {', '.join(campaigns())}")
    if not (args.names or args.all or args.list):
        parser.error("name a campaign, or --all, or --list")
    return args


def main(given: Sequence[str] | None = None) -> int:
    args = _arguments(given)
    if args.list:
        for name in args.names:
            found = load(name)
            print(f"{name}: {found.count:,} seeds, {found.nightly:,} at night: {found.about}")
        return 0
    if args.only is not None:
        _through.append(True)
        found = [v for name in args.names for v in load(name).check(range(args.only, args.only + 1))]
        print(*(f"seed {seed}: {text}" for seed, text in found), sep="\n")
        return int(bool(found))
    codes = {_asked(name, load(name), args) for name in args.names}
    return 1 if 1 in codes else max(codes, default=0)


def _asked(name: str, campaign: Campaign, args: argparse.Namespace) -> int:
    seeds = args.seeds or range(campaign.nightly if args.nightly else campaign.count)
    if not seeds:
        return 0
    kept = Kept(args.into / name, args.fresh)
    result = run(name, campaign, seeds, kept, shard=args.shard, jobs=args.jobs, minutes=args.minutes)
    print(result.line(), flush=True)
    if result.violations:
        wrong = sorted({seed for seed, _ in result.violations})
        print(f"{len(wrong)} seeds with violations: {', '.join(map(str, wrong[:KEPT]))}", flush=True)
        print(f"again: python tests/campaign {name} --only {wrong[0]}", flush=True)
        return 1
    left = kept.open(seeds, campaign.block, args.shard[0] - 1, args.shard[1])
    if len({b.commit for b in result.blocks}) > 1 or {b.commit for b in result.blocks} != {_commit()}:
        print(f"{name}: code of other commits answered in part; --fresh asks everything again", file=sys.stderr)
    return 3 if left else 0
