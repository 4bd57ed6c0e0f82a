"""The codes, one module per family; each holds a tuple ``RULES`` and nothing else."""
