"""The runner of campaigns, on checks whose violations are known: the multiples of 37."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from campaign import runner
from campaign.runner import Campaign, Kept, counted, each, run

ROOT = Path(__file__).resolve().parents[2]


def odd_one_out(seed: int) -> list[str]:
    counted(seen=1)
    if seed == 74:
        raise ValueError("seventy-four")
    return ["a multiple"] if seed % 37 == 0 else []


CAMPAIGN = Campaign("of this test", 100, each(odd_one_out), block=10)


def test_violations_and_what_raises_are_reported_with_their_seeds(tmp_path):
    result = run("x", CAMPAIGN, range(100), Kept(tmp_path))
    assert result.violations == [(0, "a multiple"), (37, "a multiple"), (74, "raised ValueError: seventy-four")]
    told = json.loads((tmp_path / "result.json").read_text())
    assert (told["asked"], told["counts"], told["seeds"]) == (100, {"seen": 100}, [0, 100])
    assert result.line().startswith("| x | 0:100 | 3 | 100 seen | ")


@pytest.mark.parametrize(("of", "size"), [(1, 7), (3, 10), (4, 1), (7, 50)])
def test_shards_part_the_seeds(tmp_path, of, size):
    parts = [seed for i in range(of) for block in Kept(tmp_path).open(range(13, 113), size, i, of) for seed in block]
    assert sorted(parts) == list(range(13, 113))


def test_what_was_asked_is_not_asked_again(tmp_path):
    """The second run asks about what the first left, across other shards and other ranges."""
    run("x", CAMPAIGN, range(5, 42), Kept(tmp_path), shard=(2, 2))
    first = {s for b in Kept(tmp_path).blocks for s in range(b.first, b.stop)}
    assert first == {*range(10, 20), *range(30, 40)}
    left = [s for block in Kept(tmp_path).open(range(100), 25) for s in block]
    assert left == [s for s in range(100) if s not in first]
    result = run("x", CAMPAIGN, range(100), Kept(tmp_path))
    assert (result.asked, result.json()["counts"]) == (100, {"seen": 100})
    assert len(result.violations) == 3


def test_a_line_that_was_cut_off_is_asked_again(tmp_path):
    run("x", CAMPAIGN, range(30), Kept(tmp_path))
    path = tmp_path / "1-of-1.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert Kept(tmp_path).open(range(30), 10) == [range(20, 30)]
    run("x", CAMPAIGN, range(30), Kept(tmp_path))
    assert Kept(tmp_path).open(range(30), 10) == []
    assert len(Kept(tmp_path).blocks) == 3


def test_a_block_that_raises_is_a_violation(tmp_path):
    def broken(seeds: range):
        yield seeds.start, "first"
        raise OSError("no more")

    result = run("x", Campaign("", 4, broken, block=4), range(4), Kept(tmp_path))
    assert [text for _, text in result.violations] == ["first", "one of 0:4: raised OSError: no more"]


SLOW = """
import time
from campaign.runner import Campaign, each
def slow(seed):
    time.sleep(0.02)
    return ["bad"] if seed == 33 else []
CAMPAIGN = Campaign("slow", 40, each(slow), block=2)
"""


def test_a_killed_run_goes_on(tmp_path):
    """Killed where it stands: what was finished stays, the rest is asked, and the exit code says what was found."""
    (tmp_path / "of_slow.py").write_text(SLOW)
    script = (
        f"import sys; sys.path[:0] = [{str(ROOT / 'tests')!r}]\n"
        "import campaign; from pathlib import Path\n"
        f"campaign.__path__.append({str(tmp_path)!r})\n"
        f"from campaign import runner; runner.HERE = Path({str(tmp_path)!r})\n"
        f"sys.exit(runner.main(['slow', '--into', {str(tmp_path / 'runs')!r}, *sys.argv[1:]]))"
    )
    command = [sys.executable, "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    file = tmp_path / "runs" / "slow" / "1-of-1.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (file.exists() and file.stat().st_size):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = file.read_bytes()
    done = len(Kept(file.parent).blocks)
    assert 1 <= done < 20
    again = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert again.returncode == 1, again.stderr
    assert "33" in again.stdout
    assert file.read_bytes().startswith(kept[: kept.rfind(b"\n") + 1])
    assert sorted(b.first for b in Kept(file.parent).blocks) == list(range(0, 40, 2))


def test_exit_codes(tmp_path, monkeypatch, capsys):
    made = {"good": Campaign("", 20, each(lambda _: []), nightly=5, block=5), "bad": CAMPAIGN}
    monkeypatch.setattr(runner, "campaigns", lambda: sorted(made))
    monkeypatch.setattr(runner, "load", made.__getitem__)
    into = ["--into", str(tmp_path)]
    assert runner.main(["good", "--minutes", "0", *into]) == 3
    assert runner.main(["good", *into]) == 0
    assert runner.main(["--all", "--nightly", *into]) == 0
    assert runner.main(["--all", *into]) == 1
    monkeypatch.setattr(runner, "_through", [])
    assert runner.main(["bad", "--only", "37"]) == 1
    assert runner.main(["bad", "--only", "38"]) == 0
    with pytest.raises(ValueError, match="seventy-four"):
        runner.main(["bad", "--only", "74"])
    assert "again: python tests/campaign bad --only 0" in capsys.readouterr().out
    for wrong in (["none"], [], ["good", "--shard", "5/4"], ["good", "--seeds", "9:3"]):
        with pytest.raises(SystemExit):
            runner.main(wrong)


def test_every_campaign_loads():
    for name in runner.campaigns():
        found = runner.load(name)
        assert found.about
        assert found.count >= found.nightly >= 0
