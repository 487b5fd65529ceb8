"""Output and objective perturbation as they run: a distinguishing game, and the law of what is drawn (alpha 1e-6)."""

import importlib
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tasks.classifiers import output_perturbation
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.certified import certified_minimum
from tasks.classifiers.lattice import norm_noise
from tasks.classifiers.losses import HingeLoss, LogisticLoss
from tasks.classifiers.objective_perturbation import ObjectivePlan, objective_perturbation, plan_objective
from tasks.classifiers.output_perturbation import perturbed_minimum
from tasks.classifiers.risks import MarginRisk
from tasks.classifiers.solver import Minimum
from tasks.noise import BitSource, SeededBits
from tests.statistics import ALPHA, hockey_stick_violation

GAUSSIAN = PrivacyBudget(0.5, 0.05)


def _released(sign: float, budget: PrivacyBudget, n: int, seed: int) -> np.ndarray:
    """Released minimisers of a hinge with one record of this sign, in 1e-4: neighbours' are a sensitivity apart."""
    risk, bits = MarginRisk(np.array([[1.0]]), np.array([[sign]]), HingeLoss(), 4.0), SeededBits(seed)
    drawn = [perturbed_minimum(risk, None, budget, adjacency="replace_one", bits=bits).theta[0] for _ in range(n)]
    return np.rint(np.array(drawn) * 1e4).astype(np.int64)


def test_no_game_is_won_beyond_the_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    """(0.5, 0.05) on 2 x 900 releases; noise made for half the sensitivity is convicted."""
    minima: dict[float, Minimum] = {}

    def once(risk: MarginRisk, tolerance: float) -> Minimum:
        sign = float(risk.signs[0, 0])
        return minima.setdefault(sign, minima.get(sign) or certified_minimum(risk, tolerance))

    monkeypatch.setattr(output_perturbation, "certified_minimum", once)
    first, second = (_released(sign, GAUSSIAN, 900, seed) for sign, seed in ((1.0, 0), (-1.0, 1)))
    assert hockey_stick_violation(first, second, GAUSSIAN.epsilon, GAUSSIAN.delta) is None
    monkeypatch.setattr(output_perturbation, "parts_of", lambda adjacency: 1)
    first, second = (_released(sign, GAUSSIAN, 900, seed) for sign, seed in ((1.0, 0), (-1.0, 1)))
    assert hockey_stick_violation(first, second, GAUSSIAN.epsilon, GAUSSIAN.delta) is not None


def _risk_and_plan(delta: float) -> tuple[MarginRisk, ObjectivePlan]:
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, size=(20, 1))
    risk = MarginRisk(rows, np.ones((20, 1)), LogisticLoss(), 1.0)
    plan = plan_objective(risk, PrivacyBudget(1.0, delta), adjacency="replace_one", regularization=2.0, tolerance=1e-5)
    return risk, plan


def test_the_linear_term_is_normal() -> None:
    """b = -(gradient at the released point), the last noise far below: Kolmogorov-Smirnov on 600 values.

    A law 40 % too narrow is convicted.
    """
    risk, plan = _risk_and_plan(1e-5)
    whole, bits = MarginRisk(risk.rows, risk.signs, risk.loss, plan.regularization / 20), SeededBits(2)
    b = np.array([-whole.gradient(objective_perturbation(risk, plan, bits))[0] for _ in range(600)])
    b /= plan.noise_scale
    assert stats.kstest(b, stats.norm.cdf).pvalue > ALPHA
    assert stats.kstest(0.6 * b, stats.norm.cdf).pvalue < ALPHA
    assert abs(float(np.mean(b**2)) - 1.0) < 6.0 * math.sqrt(2.0 / 600)  # six standard errors


def test_the_pure_linear_term_is_norm_noise_of_the_plans_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose law `tests/unit/test_vector_lattice.py` looks at; here, that it arrives in the released point."""
    risk, plan = _risk_and_plan(0.0)
    whole = MarginRisk(risk.rows, risk.signs, risk.loss, plan.regularization / 20)
    seen = []

    def recorded(dimension: int, scale: float, bits: BitSource) -> NDArray[np.int64]:
        seen.append((scale, norm_noise(dimension, scale, bits)))
        return seen[-1][1]

    module = importlib.import_module("tasks.classifiers.objective_perturbation")  # the package exports its function
    monkeypatch.setattr(module, "norm_noise", recorded)
    theta = objective_perturbation(risk, plan, SeededBits(0))
    ((scale, steps),) = seen
    spacing = plan.noise_scale / scale
    assert math.log2(spacing) == round(math.log2(spacing)) and scale > 2.0**30
    assert -whole.gradient(theta)[0] == pytest.approx(steps[0] * spacing, abs=0.1 * plan.noise_scale)
