# ruff: noqa: E402
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "property"), str(TESTS / "faults")]

from campaign.runner import main

if __name__ == "__main__":
    sys.exit(main())
