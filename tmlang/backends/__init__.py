"""Adapters to attack, verification and corruption libraries, our own search, and the exact meaning of a threat set."""
