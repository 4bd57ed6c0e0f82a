"""Forged bundles: every one is found by the audit, by the model, or by a rerun."""

from forgeries import missed

from campaign import Campaign, counted, each

CAMPAIGN = Campaign(
    "cells, rows and files of bundles of every kind, changed, dropped, swapped and copied from another run: all found",
    5000,
    each(lambda seed: missed(seed, counted)),
    nightly=1000,
    block=20,
)
