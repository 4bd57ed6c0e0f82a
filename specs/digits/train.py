"""Make everything that ``digits.tm`` reads: the data, the split, the trained weights.

    python specs/digits/train.py

Data: the 1,797 images of scikit-learn's ``load_digits``, in its order (the test part of "Optical Recognition of
Handwritten Digits", E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0), kept as whole grey
levels 0 to 16.
Training: adversarial training with projected gradient steps (Madry et al. 2018, section 2) in the ball of radius
1/20. Seeded and on one thread: the same machine makes the same bytes, another one nearly the same weights.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from digits import small_cnn
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

HERE = Path(__file__).resolve().parent
SEED = 0
TEST_SIZE = 450
LEVELS = 16
RADIUS = 1 / 20
INNER_STEPS = 3
EPOCHS = 40
BATCH = 64


def read_digits() -> tuple[np.ndarray, np.ndarray]:
    """Images (1797, 1, 8, 8) of grey levels 0 to 16, uint8, and labels (1797,), int64."""
    bunch = load_digits()
    return bunch.images.astype(np.uint8)[:, None], bunch.target.astype(np.int64)


def split(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids (positions in the data set) to train on and to test on, each ascending."""
    order = np.random.default_rng(SEED).permutation(count)
    return np.sort(order[TEST_SIZE:]), np.sort(order[:TEST_SIZE])


def perturb(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Images in the linf ball of ``RADIUS`` and in [0, 1] on which the loss is high."""
    z = (x + (2 * torch.rand_like(x) - 1) * RADIUS).clamp(0, 1)
    for _ in range(INNER_STEPS):
        z.requires_grad_()
        (gradient,) = torch.autograd.grad(cross_entropy(model(z), y), z)
        z = z.detach() + RADIUS / 2 * gradient.sign()
        z = (x + (z - x).clamp(-RADIUS, RADIUS)).clamp(0, 1)
    return z


def train(x: torch.Tensor, y: torch.Tensor) -> torch.nn.Module:
    """A trained ``small_cnn`` in evaluation mode."""
    torch.manual_seed(SEED)
    model = small_cnn()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(BATCH):
            loss = cross_entropy(model(perturb(model, x[batch], y[batch])), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    images, labels = read_digits()
    train_ids, test_ids = split(len(images))
    np.savez(HERE / "digits.npz", images=images, labels=labels, ids=np.arange(len(images)))
    for name, ids in (("train_ids.txt", train_ids), ("test_ids.txt", test_ids)):
        (HERE / name).write_text("".join(f"{i}\n" for i in ids))

    x, y = torch.tensor(images / LEVELS, dtype=torch.float32), torch.tensor(labels)
    model = train(x[train_ids], y[train_ids])
    save_file(model.state_dict(), HERE / "digits.safetensors")
    correct = int((model(x[test_ids]).argmax(1) == y[test_ids]).sum())
    print(f"{correct} of {TEST_SIZE} test images are decided correctly")
    for name in ("digits.npz", "digits.safetensors", "test_ids.txt", "train_ids.txt"):
        print(hashlib.sha256((HERE / name).read_bytes()).hexdigest(), name)


if __name__ == "__main__":
    main()
