"""Copy the network and cut the first 1,000 test images out of a folder of real data.

    python specs/mnist_wong_kolter/copy_data.py ../shared/data/real

The folder holds ``models/mnist/wong_kolter_linf0.1.onnx`` and ``images/mnist_test_10k.npz`` (``x`` (10000, 1, 28, 28)
uint8, ``y`` (10000,) int64, in the order of the published test set). Sources and licences: ``NOTICE`` beside this file.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
COUNT = 1000


def main(folder: Path) -> None:
    network = HERE / "wong_kolter_linf0.1.onnx"
    images = HERE / "mnist_test_first1000.npz"
    shutil.copyfile(folder / "models" / "mnist" / network.name, network)
    with np.load(folder / "images" / "mnist_test_10k.npz") as whole:
        np.savez_compressed(images, x=whole["x"][:COUNT], y=whole["y"][:COUNT])
    for path in (network, images):
        print(hashlib.sha256(path.read_bytes()).hexdigest(), path.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
