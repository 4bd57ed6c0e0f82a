"""Checks that are asked about thousands of seeds: ``python tests/campaign --list``. See ``runner``."""

from campaign.runner import Campaign, counted, each

__all__ = ["Campaign", "counted", "each"]
