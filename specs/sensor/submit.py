"""Write ``submitted.safetensors``, what somebody claims to break the sensor with: one input per observation.

    python specs/sensor/submit.py

Each of the first four makes the model change its mind, and none is the opponent's to hand in.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

SUBMITTED = {
    "near": (0.375, 0.625),  # moves the second coordinate, which is frozen
    "far": (0.5, 0.5),  # a quarter away, and an eighth is allowed
    "tie": (0.5, 0.4990234375),  # moves the second coordinate
    "edge": (-0.125, 1.0),  # below the least reading
    "clear": (0.625, 0.5),  # the original: nothing was found
    "just": (0.6240234375, 0.5),  # the original
}

if __name__ == "__main__":
    place = Path(__file__).resolve().parent / "submitted.safetensors"
    save_file({name: np.array(values, dtype=np.float32) for name, values in SUBMITTED.items()}, place)
