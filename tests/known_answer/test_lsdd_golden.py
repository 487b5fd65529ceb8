"""The density-difference estimator against values computed elsewhere straight from the paper's equations."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.audit import estimate_density_difference, membership_inference_score

GOLDEN = Path(os.environ.get("FABRICA_GOLDEN") or Path(__file__).resolve().parents[2].parent / "shared" / "golden")
CASES = ["lsdd.npz", "lsdd_same.npz"]


def golden(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if not (GOLDEN / name).is_file():
        pytest.skip(f"golden file {name} is not on this machine; set FABRICA_GOLDEN to the folder that holds it")
    return dict(np.load(GOLDEN / name)), json.loads((GOLDEN / "manifest.json").read_text())[name]


def gaussian_l2(mean_1: float, std_1: float, mean_2: float, std_2: float) -> float:
    """Closed form: the integral of the product of two normal densities is a normal density of their difference."""

    def overlap(distance: float, variance: float) -> float:
        return float(np.exp(-(distance**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance))

    same = overlap(0, 2 * std_1**2) + overlap(0, 2 * std_2**2)
    return same - 2 * overlap(mean_1 - mean_2, std_1**2 + std_2**2)


@pytest.mark.parametrize("name", CASES)
def test_every_row_of_the_table(name: str) -> None:
    case, about = golden(name)
    tolerance = about["tol"] * max(np.abs(case["table"]).max(), about["yscale"])
    for sigma, ridge, theta_h, theta_h_theta, estimate in case["table"]:
        result = estimate_density_difference(
            case["x"], case["x2"], centres=case["centres"], sigma=float(sigma), regularization=float(ridge)
        )
        gram = (
            np.sqrt(np.pi) * sigma * np.exp(-(np.subtract.outer(result.centres, result.centres) ** 2) / (4 * sigma**2))
        )
        assert result.score == pytest.approx(estimate, abs=tolerance)
        assert result.coefficients @ gram @ result.coefficients == pytest.approx(theta_h_theta, abs=tolerance)
        assert (result.score + result.coefficients @ gram @ result.coefficients) / 2 == pytest.approx(
            theta_h, abs=tolerance
        )


@pytest.mark.parametrize("name", CASES)
def test_coefficients_of_the_first_row(name: str) -> None:
    case, about = golden(name)
    sigma, ridge = map(float, case["table"][0, :2])
    order = np.argsort(case["centres"])
    result = estimate_density_difference(
        case["x"], case["x2"], centres=case["centres"], sigma=sigma, regularization=ridge
    )
    expected = case["theta_first"][order]
    assert np.abs(result.coefficients - expected).max() <= about["tol"] * max(np.abs(expected).max(), about["yscale"])


@pytest.mark.parametrize("name", CASES)
def test_cross_validated_score_is_near_the_closed_form(name: str) -> None:
    case, about = golden(name)
    assert gaussian_l2(*case["params"]) == pytest.approx(float(case["exact_l2"]), abs=1e-12)
    score = membership_inference_score(case["x"], case["x2"])
    assert score == pytest.approx(float(case["exact_l2"]), abs=about["exact_atol"])


@pytest.mark.parametrize(
    ("second", "n_members", "n_controls", "tolerance"),
    [
        ((0.0, 1.0), 2000, 1000, 0.01),
        ((1.0, 0.5), 2000, 1000, 0.07),
        ((5.0, 1.0), 2000, 1000, 0.03),
        ((0.0, 0.1), 2000, 1000, 0.25),
    ],
)
def test_two_normal_samples_against_the_closed_form(
    second: tuple[float, float], n_members: int, n_controls: int, tolerance: float
) -> None:
    """Needs no file. Tolerances are three standard deviations of the estimate over repeated samples, rounded up."""
    generator = np.random.default_rng(11)
    members, controls = generator.normal(0, 1, n_members), generator.normal(*second, n_controls)
    assert membership_inference_score(members, controls) == pytest.approx(gaussian_l2(0, 1, *second), abs=tolerance)


def test_two_points_by_hand() -> None:
    """One centre at 0, sigma 1, ridge 1: h = 1 - exp(-1/2), H = sqrt(pi), theta = h / (sqrt(pi) + 1)."""
    h = 1 - np.exp(-0.5)
    theta = h / (np.sqrt(np.pi) + 1)
    expected = 2 * theta * h - theta**2 * np.sqrt(np.pi)
    assert membership_inference_score([0.0], [1.0], centres=[0.0], sigma=1, regularization=1) == pytest.approx(expected)
