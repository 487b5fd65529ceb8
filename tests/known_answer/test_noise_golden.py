"""Dirac-Laplace noise against reference values that no code of this project computed.

The copy in golden/ is always tested.  The original is tested where its folder is found: at the path in
the environment variable FABRICA_GOLDEN, else at shared/golden beside the project.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.noise import DiracLaplace

COPY = Path(__file__).resolve().parent / "golden" / "noise_icdf.csv"
SHARED = Path(os.environ.get("FABRICA_GOLDEN") or Path(__file__).resolve().parents[2].parent / "shared" / "golden")
RELATIVE = 1e-12  # the file's stated tolerance: RELATIVE |v| + OF_SCALE d/eps
OF_SCALE = 4e-15
EDGE_ULP = 2


@pytest.fixture(params=["copy", "original"])
def golden(request: pytest.FixtureRequest) -> NDArray[np.float64]:
    path = COPY if request.param == "copy" else SHARED / COPY.name
    if not path.is_file():
        pytest.skip("the original golden values are absent (set FABRICA_GOLDEN to their folder); the copy is tested")
    return np.loadtxt(path, delimiter=",", skiprows=1)


def test_inverse_cdf_matches_50_digit_values(golden: NDArray[np.float64]) -> None:
    assert golden.shape == (142, 6)
    for epsilon, delta, sensitivity in np.unique(golden[:, :3], axis=0):
        law = DiracLaplace(epsilon, delta, sensitivity)
        rows = golden[np.all(golden[:, :3] == (epsilon, delta, sensitivity), axis=1)]
        t, v, in_atom = rows[:, 3], rows[:, 4], rows[:, 5]
        got = law.ppf(t)
        assert np.all(np.abs(got - v) <= RELATIVE * np.abs(v) + OF_SCALE * sensitivity / epsilon)
        edge = np.minimum(np.abs(t - (1 - delta) / 2), np.abs(t - (1 + delta) / 2))
        inside = (in_atom == 1) & (edge > EDGE_ULP * np.spacing(t))
        assert np.all(got[inside] == 0.0)


def test_copy_is_the_original() -> None:
    original = SHARED / COPY.name
    if not original.is_file():
        pytest.skip("the original golden values are absent (set FABRICA_GOLDEN to their folder)")
    assert original.read_bytes() == COPY.read_bytes()


def test_moments_stated_beside_the_golden_values() -> None:
    """Mean magnitude (1 - delta) d/eps, variance 2 (1 - delta) (d/eps)^2, by the midpoint rule over t."""
    law = DiracLaplace(0.5, 0.5, 0.25)
    n = 2_000_000
    v = law.ppf((np.arange(n) + 0.5) / n)
    assert np.mean(np.abs(v)) == pytest.approx(0.5 * 0.25 / 0.5, rel=1e-5)
    assert law.expected_magnitude() == 0.5 * 0.25 / 0.5
    assert np.mean(v**2) == pytest.approx(2 * 0.5 * (0.25 / 0.5) ** 2, rel=1e-4)
