"""Naive implementations straight from the equations: slow, obvious, and independent of the real code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NaiveMachine:
    """A KAHM of N rows: plain eigenvectors, a double loop over pairs, an inverse per iteration."""

    Y: Array
    P: Array
    theta: Array
    lam: float

    def kernel(self, a: Array, b: Array) -> float:
        """Equation (35)."""
        difference = self.P @ (a - b)
        return float(np.exp(-0.5 / len(self.P) * difference @ np.linalg.inv(self.theta) @ difference))

    def kernel_matrix(self) -> Array:
        return np.array([[self.kernel(a, b) for b in self.Y] for a in self.Y])

    def images(self, queries: Array) -> Array:
        """Equation (33)."""
        inverse = np.linalg.inv(self.kernel_matrix() + self.lam * np.eye(len(self.Y)))
        images = []
        for query in queries:
            h = inverse @ np.array([self.kernel(query, row) for row in self.Y])
            images.append(h @ self.Y / h.sum())
        return np.array(images)


def naive_machine(Y: Array, n_components: int) -> NaiveMachine:
    """Fit by the definition; full rank is taken for granted."""
    n = min(n_components, Y.shape[1], len(Y) - 1)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(Y.T)))
    P = vectors[:, np.argsort(values)[::-1][:n]].T
    theta = np.atleast_2d(np.cov((Y @ P.T).T))
    unregularized = NaiveMachine(Y, P, theta, np.nan)
    lam = naive_regularization(unregularized.kernel_matrix(), Y)
    return NaiveMachine(Y, P, theta, lam)


def naive_regularization(K: Array, Y: Array) -> float:
    """Fixed point of equations (40-44) by plain iteration, one inverse each."""
    N, p = Y.shape
    tau = 2.0 / (p * N) * float(np.sum(Y**2))
    e = 0.0
    for _ in range(100):
        previous, e = e, residual_error(K, Y, e + tau)
        if abs(e - previous) <= 1e-16 * tau:
            break
    return e + tau


def residual_error(K: Array, Y: Array, lam: float) -> float:
    """R at e = lam - tau, equation (42)."""
    residual = Y - K @ np.linalg.inv(K + lam * np.eye(len(K))) @ Y
    return float(np.sum(residual**2) / Y.size)


def naive_step(Y: Array, n_components: int) -> Array:
    """One smoothing step, definition 13."""
    return naive_machine(Y, n_components).images(Y)
