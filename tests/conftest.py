"""Puts this folder on the path, so that test modules of every sub-folder find the shared helpers."""
