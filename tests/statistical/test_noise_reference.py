"""OpenDP's exact samplers through the same chi-square as ours: the reference, where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.noise import LatticeDiracLaplace, LatticeGaussian, SeededBits
from tests.statistics import ALPHA, Pmf, chi_square_p_value

dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed")

N = 20_000


dp.enable_features("contrib")


def opendp_samples(kind: str, scale: float) -> NDArray[np.int64]:
    space = (
        dp.vector_domain(dp.atom_domain(T="i64"), size=N),
        dp.l1_distance(T="i64") if kind == "laplace" else dp.l2_distance(T="i64"),
    )
    make = dp.m.make_laplace if kind == "laplace" else dp.m.make_gaussian
    return np.array(make(*space, scale=scale)([0] * N), dtype=np.int64)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1), (0.5, 20)])
def test_two_sided_geometric_law(epsilon: float, sensitivity: int) -> None:
    law = LatticeDiracLaplace(epsilon, 0.0, sensitivity)
    window = (-60 * sensitivity, 60 * sensitivity)
    theirs, ours = opendp_samples("laplace", sensitivity / epsilon), law.sample(N, bits=SeededBits(1))
    for samples in (theirs, ours):
        assert chi_square_p_value(samples, law.pmf, window) > ALPHA
        assert chi_square_p_value(samples, LatticeDiracLaplace(1.25 * epsilon, 0.0, sensitivity).pmf, window) < ALPHA


def test_gaussian_law() -> None:
    """Rounded and discrete Gaussian laws differ by one part in 24 sigma^2, which so few samples cannot see at 30."""
    law = LatticeGaussian(30.0)

    def discrete(k: NDArray[np.int64]) -> NDArray[np.float64]:
        all_k = np.arange(-600, 601)
        return np.exp(-(k**2) / 1800.0) / np.exp(-(all_k**2) / 1800.0).sum()

    pmfs: list[Pmf] = [law.pmf, discrete]
    for samples in (opendp_samples("gaussian", 30.0), law.sample(N, bits=SeededBits(2))):
        for pmf in pmfs:
            assert chi_square_p_value(samples, pmf, (-300, 300)) > ALPHA
        assert chi_square_p_value(samples, LatticeGaussian(24.0).pmf, (-300, 300)) < ALPHA
