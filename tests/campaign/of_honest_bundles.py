"""Honest bundles: the audit with a rerun blames none, whatever threads and workers made it and make it again."""

from forgeries import alarm

from campaign import Campaign, each

CAMPAIGN = Campaign(
    "honest bundles of every kind, on one thread, two, or in workers: no alarm, and every row the same to the bit",
    500,
    each(alarm),
    nightly=150,
    block=10,
)
