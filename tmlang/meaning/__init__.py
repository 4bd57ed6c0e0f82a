"""What a checked spec means: frozen values, no behaviour, no positions in comparisons.

The checker (``semantics``) makes these values, the plan carries them, and everything behind the waist
(``execute``, ``backends``, ``audit``, ``report``) reads them. They are the one vocabulary of both sides, so that
a space or a threat is described once. Two specs with equal meanings have equal values here (``origin`` is left
out of comparison and of every hash).
"""
