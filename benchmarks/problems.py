"""Regression problems for the examples: a kernel, its points, targets, and held-out points."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np


class Problem(NamedTuple):
    """The system (kernel(points, points) + ridge I) X = targets; with labels, column j of the
    targets is 1 where the label is j.
    """

    name: str
    kernel: Callable
    points: np.ndarray
    targets: np.ndarray
    ridge: float
    labels: np.ndarray | None = None


def _square_distances(x, y):
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)


def digits(samples: int) -> Problem:
    """Handwritten digits (scikit-learn ships 1797 images of 8 x 8), one target column per class."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))[:samples]
    images, labels = images[order] / 16, labels[order]
    kernel = lambda x, y: jnp.exp(-_square_distances(x, y) / 5)  # noqa: E731
    return Problem("handwritten digits", kernel, images, np.eye(10)[labels], 1e-3, labels)


def matern(n: int) -> Problem:
    """Matern 3/2 kernel on random points of the unit square; a smooth function with noise."""
    rng = np.random.default_rng(0)
    points = rng.random((n, 2))
    values = np.sin(9 * points[:, :1]) * np.cos(7 * points[:, 1:]) + 0.1 * rng.normal(size=(n, 1))

    def kernel(x, y):
        r = jnp.sqrt(3 * _square_distances(x, y)) / 0.1
        return (1 + r) * jnp.exp(-r)

    return Problem("synthetic Matern 3/2 kernel", kernel, points, values, 1e-2)
