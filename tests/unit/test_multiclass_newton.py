"""Newton steps and accelerated steps of weight perturbation: where quasi-Newton steps alone do not arrive."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.classifiers import weight_perturbation
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.multiclass_losses import AllPairsHinge, CrammerSingerHinge, CrossEntropy, MulticlassLoss
from tasks.classifiers.multiclass_newton import loss_hessian, newton_solve
from tasks.classifiers.solver import Minimum, NotCertifiedError
from tasks.classifiers.weight_perturbation import (
    MulticlassRisk,
    certified_minimiser,
    fit_by_weights,
    refuse_uncertifiable_weights,
    weight_sensitivity,
)
from tasks.noise import SeededBits

FloatArray = NDArray[np.float64]
LOSSES: list[MulticlassLoss] = [AllPairsHinge(0.5), CrammerSingerHinge(0.5), CrossEntropy()]


def _risk(loss: MulticlassLoss, C: float, n: int = 60, c: int = 5, seed: int = 0) -> MulticlassRisk:
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n, 6)) + 5.0 * random.standard_normal(6)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1.0 + 1e-15)
    return MulticlassRisk(rows, random.integers(0, c, n), c, loss, C)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_hessian_is_that_of_differences(loss: MulticlassLoss) -> None:
    random = np.random.default_rng(0)
    rows, labels, weights = random.standard_normal((20, 3)), random.integers(0, 4, 20), random.standard_normal((4, 3))

    def gradient(theta: FloatArray) -> FloatArray:
        return np.asarray((loss.slopes(rows @ theta.reshape(4, 3).T, labels).T @ rows).ravel())

    steps = 1e-6 * np.eye(12)
    along = np.array([gradient(weights.ravel() + own) - gradient(weights.ravel() - own) for own in steps]) / 2e-6
    hessian = loss_hessian(rows, labels, loss, weights)
    assert np.max(np.abs(hessian)) > 0.5 and np.allclose(hessian, along, atol=1e-7)
    solved = newton_solve(rows, labels, loss, weights, 3.0, np.arange(12.0))
    assert np.allclose(solved + 3.0 * along @ solved, np.arange(12.0), atol=1e-5)


def test_a_hessian_that_rounding_made_indefinite_is_solved_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.classifiers.multiclass_newton.loss_hessian", lambda *_: np.diag([3.0, -2.0]))
    assert np.allclose(
        newton_solve(np.eye(1), np.zeros(1, dtype=np.int64), LOSSES[0], np.zeros((2, 1)), 1.0, np.ones(2)), [0.25, -1.0]
    )


@pytest.mark.parametrize("loss", [AllPairsHinge(3e-6), CrammerSingerHinge(1e-5)])
def test_newton_steps_arrive_where_quasi_newton_steps_do_not(
    loss: MulticlassLoss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Condition numbers of 10^10 and more: accelerated steps would take millions, and are not reached."""
    risk = _risk(loss, 2e5)
    tolerance = 1e-3 * weight_sensitivity(loss.lipschitz(5), risk.C, 60, 2)

    def idle(_: MulticlassRisk, theta: FloatArray, __: float) -> tuple[FloatArray, float]:
        return theta, math.inf

    monkeypatch.setattr(weight_perturbation, "_accelerated", idle)
    weights = certified_minimiser(risk, tolerance)
    assert float(np.linalg.norm(risk.value_and_gradient(weights.ravel())[1])) <= tolerance
    monkeypatch.setattr(weight_perturbation, "_MOST_SOLVED", 0)
    with pytest.raises(NotCertifiedError):
        certified_minimiser(risk, tolerance)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_accelerated_steps_arrive_by_themselves_in_their_proven_number(
    loss: MulticlassLoss, C: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    risk = _risk(loss, C)
    tolerance = 1e-3 * weight_sensitivity(loss.lipschitz(5), C, 60, 2)
    monkeypatch.setattr(
        weight_perturbation, "minimise", lambda _, start, *__, **___: Minimum(start, math.inf, math.inf)
    )
    calls = []
    real = MulticlassRisk.value_and_gradient

    def counted(self: MulticlassRisk, theta: FloatArray) -> tuple[float, FloatArray]:
        calls.append(True)
        return real(self, theta)

    first = float(np.linalg.norm(risk.value_and_gradient(np.zeros(30))[1]))
    monkeypatch.setattr(MulticlassRisk, "value_and_gradient", counted)
    certified_minimiser(risk, tolerance)
    proven = math.sqrt(risk.smoothness) * math.log(2.0 * risk.smoothness * (2.0 * first / tolerance) ** 2)
    assert len(calls) <= 1 + 2 * math.ceil(proven)


def test_weights_of_too_many_rows_are_refused_by_numbers_in_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, loss = PrivacyBudget(4.0, 1e-5), CrammerSingerHinge(0.5)
    refuse_uncertifiable_weights(100_000, 6, 5, loss, None, budget, "replace_one")
    with pytest.raises(ValueError, match="more than doubles can certify"):
        refuse_uncertifiable_weights(2**40, 6, 5, loss, None, budget, "replace_one")
    monkeypatch.setattr(weight_perturbation, "_ROUNDING_PART", 1e-14)
    risk = _risk(loss, 7.0)
    with pytest.raises(ValueError, match="more than doubles") as by_rows:
        certified_minimiser(risk, 1e-3 * weight_sensitivity(loss.lipschitz(5), 7.0, 60, 2))
    with pytest.raises(ValueError, match="more than doubles") as by_numbers:
        refuse_uncertifiable_weights(60, 6, 5, loss, 7.0, budget, "replace_one")
    assert str(by_rows.value) == str(by_numbers.value)


@pytest.mark.parametrize("C", [None, 7.0])
def test_weights_by_numbers_and_by_rows_are_asked_the_same(C: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = weight_perturbation._refuse_uncertifiable

    def recorded(risk: MulticlassRisk, tolerance: float) -> None:
        asked.append((risk.rows.shape, len(risk.labels), risk.n_classes, risk.loss, risk.C, tolerance))
        real(risk, tolerance)

    monkeypatch.setattr(weight_perturbation, "_refuse_uncertifiable", recorded)
    budget, loss, risk = PrivacyBudget(4.0, 1e-5), CrammerSingerHinge(0.5), _risk(CrammerSingerHinge(0.5), 1.0)
    refuse_uncertifiable_weights(60, 6, 5, loss, C, budget, "replace_one")
    fit_by_weights(risk.rows, risk.labels, 5, loss, C, budget, "replace_one", SeededBits(0))
    assert len(asked) == 2 and asked[0] == asked[1]
