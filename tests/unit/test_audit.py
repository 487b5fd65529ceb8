"""The density-difference score where it has an answer of its own; its values are held against the golden files."""

import numpy as np
import pytest

from tasks.audit import (
    estimate_density_difference,
    membership_inference_score,
)

# --- density difference -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "controls", "options", "message"),
    [
        ([], [1.0], {}, "r_members must hold at least one value"),
        ([1.0], [], {}, "r_controls must hold at least one value"),
        ([1.0, np.nan], [1.0], {}, "r_members must be finite, got 1 values"),
        ([1.0], [np.inf], {}, "r_controls must be finite"),
        ([[1.0]], [1.0], {}, "r_members must be one-dimensional"),
        ([1.0], 2.0, {}, "r_controls must be one-dimensional"),
        ([1.0], [2.0], {"sigma": 0}, "sigma must be positive"),
        ([1.0], [2.0], {"sigma": np.nan}, "sigma must be positive"),
        ([1.0], [2.0], {"regularization": -1}, "regularization must be positive"),
        ([1.0], [2.0], {"centres": []}, "centres must hold at least one value"),
    ],
)
def test_score_refuses_what_it_cannot_answer(
    members: list[float], controls: list[float], options: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        membership_inference_score(members, controls, **options)


def test_equal_distances_have_score_zero_and_no_width() -> None:
    result = estimate_density_difference([0.5] * 7, [0.5] * 4)
    assert (result.score, result.sigma, result.regularization, result.cross_validated) == (0.0, 0.0, 0.0, False)
    assert membership_inference_score([0.5] * 7, [0.5], sigma=0.1) == 0.0


def test_one_row_on_a_side_gets_the_answer_that_claims_least() -> None:
    result = estimate_density_difference([0.1], [0.2, 0.3, 0.4])
    assert not result.cross_validated
    assert 0 <= result.score < 0.01


def test_a_given_parameter_is_kept() -> None:
    generator = np.random.default_rng(0)
    members, controls = generator.gamma(2, 1, 60), generator.gamma(2, 2, 40)
    assert estimate_density_difference(members, controls, sigma=0.7).sigma == 0.7
    assert estimate_density_difference(members, controls, regularization=0.2).regularization == 0.2
    assert not estimate_density_difference(members, controls, sigma=0.7, regularization=0.2).cross_validated


def test_memorised_rows_score_far_above_equally_distributed_ones() -> None:
    generator = np.random.default_rng(1)
    controls = generator.gamma(3, 1, 150)
    memorised = membership_inference_score(np.zeros(350), controls)
    independent = membership_inference_score(generator.gamma(3, 1, 350), controls)
    assert memorised > 100 * independent
