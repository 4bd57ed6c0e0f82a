"""Which arithmetic a verdict is about, and what a proved bound of its rounding supposes (EVIDENCE.md section 6)."""

from __future__ import annotations

SUPPOSED = (
    "matrices and convolutions multiply and add, in any order, fused or not, and by no fast transform (Winograd, FFT)",
    "every operation rounds to nearest in float32; numbers below the normal ones are kept or flushed to zero",
    "tanh and sigmoid are within 3 units in the last place",
)
"""What `rounding: proved` takes for granted of the library that computes, as it was found on :data:`EXAMINED`."""

ARITHMETIC = "what the object computes in float32 on the CPU, one input at a time"
"""What a verdict is about."""

EXAMINED = (("2.13.0", "AVX512"), ("2.13.0", "AVX2"), ("2.13.0", "DEFAULT"))
"""Builds of torch for the CPU, by version and vector instructions, whose kernels were read or tried on all numbers
(``tests/property/test_library_functions.py``)."""


def supposing() -> str:
    """A sentence of all that is supposed."""
    return f"A proved gap supposes that {'; that '.join(SUPPOSED)}."


def unexamined(version: str, capability: str, precision: str) -> str | None:
    """Why what a bound supposes was not examined where it computes, if so. ``precision``: of matrix products, in
    torch's words."""
    if precision != "highest":
        return f"matrix products are computed with {precision} precision"
    if (version.partition("+")[0], capability) not in EXAMINED:
        return f"the kernels of torch {version} with {capability} were not examined"
    return None
