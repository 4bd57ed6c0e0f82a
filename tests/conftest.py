"""Puts this folder on the path, so that test modules of every sub-folder find the shared helpers.

Property tests try the same examples in every run, so that a change is judged by what it changes; ``TM_EXPLORE=1`` (as
in ``make nightly``) tries others each time. What that finds becomes an explicit example of its test.
"""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("explore")
settings.load_profile("explore" if os.environ.get("TM_EXPLORE") == "1" else "same")
