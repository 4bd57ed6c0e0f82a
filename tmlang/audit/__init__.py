"""What happened, what it counts for: records, tallies, bundles. Only ``tally`` makes a headline number."""
