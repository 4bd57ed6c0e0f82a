"""Random whole specs on finite sets, and their answers without ``tmlang``.

``world`` says what a spec is about in plain numbers, ``draw`` makes one from a seed, ``write`` writes it as spec, data
and model, ``truth`` works out every set, decision and verdict by listing, ``judge`` runs the spec and compares.
"""
