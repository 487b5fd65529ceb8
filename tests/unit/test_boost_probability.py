"""Boosting: how many runs, what each may spend, the private choice, and that the whole keeps its budget."""

import math
from typing import Any

import numpy as np
import pytest

from schemas.events import ApproximateEvent, GaussianEvent
from tasks.accounting.composition import composed_delta
from tasks.classifiers import boosting
from tasks.classifiers.boosting import boost_probability, boosted, choose_best, n_runs_for, run_budgets
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.convex_sets import Ball
from tasks.classifiers.localization import LocalizationClassifier
from tasks.classifiers.losses import LogisticLoss
from tasks.classifiers.objective_perturbation import ObjectivePerturbationClassifier
from tasks.classifiers.output_perturbation import OutputPerturbationClassifier, perturbed_minimum
from tasks.classifiers.risks import InnerProduct, MarginRisk, SquaredDistance
from tasks.noise import SeededBits
from tests.statistics import proportion_interval
from tests.unit.test_output_perturbation import table


@pytest.mark.parametrize(("rho", "k"), [(0.5, 2), (0.1, 5), (0.05, 6), (0.01, 8), (2**-9, 10)])
def test_number_of_runs(rho: float, k: int) -> None:
    """2^-k <= rho / 2, and k - 1 would not do."""
    assert n_runs_for(rho) == k and 2.0**-k <= rho / 2 < 2.0 ** -(k - 1)


@pytest.mark.parametrize("n_runs", [1, 4, 9])
def test_the_budgets_add_up(n_runs: int) -> None:
    whole = PrivacyBudget(2.0, 1e-5)
    each, selection = run_budgets(whole, n_runs, 0.25, gaussian=False)
    assert selection == 0.5
    assert n_runs * each.epsilon + selection <= 2.0 and n_runs * each.delta <= 1e-5
    assert each.epsilon == pytest.approx(1.5 / n_runs)
    each, _ = run_budgets(whole, n_runs, 0.25, gaussian=True)
    assert each.mu * math.sqrt(n_runs) <= PrivacyBudget(1.5, 1e-5).mu
    assert each.mu * math.sqrt(n_runs) == pytest.approx(PrivacyBudget(1.5, 1e-5).mu, rel=1e-8)
    events = [each.as_gaussian()] * n_runs + [ApproximateEvent(epsilon=0.5, delta=0.0)]
    assert composed_delta(events, 2.0) <= 1e-5
    pure, _ = run_budgets(PrivacyBudget(2.0), n_runs, 0.25, gaussian=True)
    assert pure.is_pure and n_runs * pure.epsilon <= 1.5


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_choice_has_the_law_of_its_exponential_mechanism(adjacency: Any) -> None:
    """3000 draws of three candidates, each proportion in its interval at 1e-6; a range of half the size is refuted."""
    risk = InnerProduct(np.array([[1.0, 0.0], [0.5, 0.5]]))
    candidates = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    parts, spread = (2 if adjacency == "replace_one" else 1), math.sqrt(2.0)
    scores = np.array([-1.5, 0.0, -0.5])
    law = np.exp(-3.0 * scores / (parts * spread))
    half = np.exp(-6.0 * scores / (parts * spread))
    bits = SeededBits(0)
    drawn = np.bincount(
        [choose_best(candidates, risk, 3.0, adjacency=adjacency, bits=bits) for _ in range(3000)], minlength=3
    )
    refuted = False
    for j in range(3):
        low, high = proportion_interval(int(drawn[j]), 3000)
        assert low <= law[j] / law.sum() <= high
        refuted |= not low <= half[j] / half.sum() <= high
    assert refuted


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_choice_is_private_exactly(adjacency: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact probabilities for neighbours that differ as much as they can: at most e^epsilon, and not far below."""
    laws = []

    def exact(scores: np.ndarray, bound: float, epsilon: float, bits: Any) -> int:
        law = np.exp(-epsilon * (scores - scores.min()) / bound)
        laws.append(law / law.sum())
        return 0

    monkeypatch.setattr(boosting, "exponential_choice", exact)
    # one good candidate among many: then numerator and normaliser do not both move
    candidates = np.vstack([[[1.0, 0.0]], np.repeat([[-1.0, 0.0]], 60, axis=0)])
    second = [[-1.0, 0.0], [0.0, 0.0]] if adjacency == "replace_one" else [[0.0, 0.0]]
    for records in ([[1.0, 0.0], [0.0, 0.0]], second):
        risk = InnerProduct(np.array(records))
        choose_best(candidates, risk, 1.0, adjacency=adjacency, bits=SeededBits(0))
    assert 0.9 < float(np.max(np.abs(np.log(laws[0] / laws[1])))) <= 1.0


def test_adding_a_record_adds_its_share_of_the_regulariser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact probabilities for candidates of unequal lengths, 4 and 5 records of weight 1: epsilon is kept, and nearly
    used up; without the regulariser's part of the range it would not be kept. A public number of records holds the
    regulariser, and needs no such part."""
    laws: list[np.ndarray] = []
    bounds: list[float] = []

    def exact(scores: np.ndarray, bound: float, epsilon: float, bits: Any) -> int:
        law = np.exp(-epsilon * (scores - scores.min()) / bound)
        laws.append(law / law.sum())
        bounds.append(bound)
        return 0

    monkeypatch.setattr(boosting, "exponential_choice", exact)
    candidates = np.vstack([[[6.0, 0.0]], np.zeros((200, 2))])
    rows = np.tile([[1.0, 0.0]], (5, 1))
    for n in (4, 5):
        risk = MarginRisk(rows[:n], -np.ones((n, 1)), LogisticLoss(), 1.0)
        choose_best(candidates, risk, 1.0, adjacency="add_remove", bits=SeededBits(0))
    ratio = float(np.max(np.abs(np.log(laws[0] / laws[1]))))
    assert 0.9 < ratio <= 1.0
    assert bounds[0] == bounds[1] == pytest.approx(6.0 + 0.5 * 36.0)
    for n in (4, 5):
        risk = MarginRisk(rows[:n], -np.ones((n, 1)), LogisticLoss(), 1.0, public_size=4)
        choose_best(candidates, risk, 1.0, adjacency="add_remove", bits=SeededBits(0))
    assert bounds[2] == bounds[3] == pytest.approx(6.0)
    assert float(np.max(np.abs(np.log(laws[2] / laws[3])))) <= 1.0
    for n in (4, 5):
        risk = MarginRisk(rows[:n], -np.ones((n, 1)), LogisticLoss(), 1.0)
        choose_best(candidates, risk, 1.0, adjacency="replace_one", bits=SeededBits(0))
    assert bounds[4] == pytest.approx(12.0)


def _recorded_bounds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    bounds: list[float] = []

    def first(scores: np.ndarray, bound: float, epsilon: float, bits: Any) -> int:
        bounds.append(bound)
        return 0

    monkeypatch.setattr(boosting, "exponential_choice", first)
    return bounds


def test_the_regularisers_part_is_a_difference_of_squares() -> None:
    """Two candidates away from 0: (36 - 16) / 2 is 10, and (6 - 4)^2 / 2 would be 2."""
    seen: list[float] = []

    def told(scores: np.ndarray, bound: float, epsilon: float, bits: Any) -> int:
        seen.append(bound)
        return 0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(boosting, "exponential_choice", told)
        risk = MarginRisk(np.tile([[1.0, 0.0]], (4, 1)), -np.ones((4, 1)), LogisticLoss(), 1.0)
        plain = MarginRisk(risk.rows, risk.signs, risk.loss, 0.0)
        for own in (risk, plain):
            choose_best(np.array([[6.0, 0.0], [0.0, 4.0]]), own, 1.0, adjacency="add_remove", bits=SeededBits(0))
    assert seen[0] - seen[1] == pytest.approx(10.0)


def test_the_choice_among_means_is_for_the_lengths_of_the_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as long as parameter_norm says: the range of |theta - d|^2 / 2 over them is taken for what it is."""
    bounds = _recorded_bounds(monkeypatch)
    risk = SquaredDistance(np.array([[1.0]]), parameter_norm=1.0)
    choose_best(np.array([[-10.0], [10.0]]), risk, 1.0, adjacency="add_remove", bits=SeededBits(0))
    points = np.linspace(-1.0, 1.0, 21)
    exact = max(abs(0.5 * (10.0 - d) ** 2 - 0.5 * (-10.0 - d) ** 2) for d in points)
    assert exact <= bounds[0] and bounds[0] == pytest.approx(11.0 * 20.0)


def test_rounding_is_allowed_for_a_public_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rounding sets the range, it is the same number for tables that differ in a record."""
    bounds = _recorded_bounds(monkeypatch)
    for n in (200, 201):
        risk = MarginRisk(np.full((n, 1), 0.5), np.ones((n, 1)), LogisticLoss(), 0.1, public_size=123)
        near = np.array([[1.0], [1.0 + 2.0**-50]])
        choose_best(near, risk, 1.0, adjacency="add_remove", bits=SeededBits(0))
    assert bounds[0] == bounds[1] > 2.0**-40


def test_equal_candidates_need_no_choice_and_infinite_epsilon_takes_the_best() -> None:
    risk = SquaredDistance(np.zeros((5, 2)))
    same = np.ones((3, 2)) / 2
    assert choose_best(same, risk, 1.0, adjacency="replace_one", bits=SeededBits(0)) == 0
    three = np.array([[0.5, 0.0], [0.1, 0.0], [0.9, 0.0]])
    assert choose_best(three, risk, math.inf, adjacency="replace_one", bits=SeededBits(0)) == 1


def test_range_covers_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates so near that the rounding of 1000 values could decide: the range is taken larger."""
    seen: list[float] = []

    def recorded(scores: np.ndarray, bound: float, epsilon: float, bits: Any) -> int:
        seen.append(bound)
        return 0

    monkeypatch.setattr(boosting, "exponential_choice", recorded)
    risk = SquaredDistance(np.zeros((1000, 1)))
    choose_best(np.array([[0.5], [0.5 + 2**-50]]), risk, 1.0, adjacency="replace_one", bits=SeededBits(0))
    choose_best(np.array([[0.5], [1.0]]), risk, 1.0, adjacency="replace_one", bits=SeededBits(0))
    assert seen[0] > 4.0 * 2**-50 * 1e6 and seen[1] == pytest.approx(2 * 2 * 0.5)


def test_boosted_risk_is_better_than_a_bad_run() -> None:
    """A run that fails half of the time (a point far away): 6 runs, so failure of all has 2^-6."""
    risk, bits = SquaredDistance(np.full((400, 2), 0.3)), SeededBits(4)
    calls = []

    def run(budget: PrivacyBudget) -> np.ndarray:
        calls.append(budget)
        found = perturbed_minimum(risk, Ball.around_zero(2, 1.0), budget, adjacency="replace_one", bits=bits)
        return -np.ones(2) / math.sqrt(2.0) if len(calls) % 2 else found.theta

    budget = PrivacyBudget(4.0, 1e-6)
    found = boosted(run, risk, budget, adjacency="replace_one", bits=bits, gaussian=True)
    assert len(calls) == 6 and found.candidates.shape == (6, 2)
    assert found.chosen % 2 == 1 and np.array_equal(found.theta, found.candidates[found.chosen])
    gaussian, choice = found.events
    assert isinstance(gaussian, GaussianEvent) and gaussian.count == 6
    assert choice == ApproximateEvent(epsilon=0.8, delta=0.0)
    assert composed_delta(found.events, 4.0) <= 1e-6
    pure = boosted(run, risk, PrivacyBudget(math.inf), adjacency="replace_one", bits=bits)
    assert pure.events == []


@pytest.mark.parametrize(
    "estimator",
    [
        OutputPerturbationClassifier(6.0, 1e-6, random_state=0),
        OutputPerturbationClassifier(6.0, 0.0, random_state=0),
        ObjectivePerturbationClassifier(6.0, 1e-6, random_state=0),
        LocalizationClassifier(6.0, 1e-6, random_state=0, n_steps=20),
    ],
    ids=lambda one: f"{type(one).__name__}-{one.delta}",
)
@pytest.mark.parametrize("k", [2, 3])
def test_the_whole_keeps_the_budget(estimator: Any, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(1000, k=k)
    scored: list[np.ndarray] = []
    original = boosting.choose_best

    def recorded(candidates: np.ndarray, risk: Any, *arguments: Any, **options: Any) -> int:
        scored.append(np.array([risk.value(theta) for theta in candidates]))
        return original(candidates, risk, *arguments, **options)

    monkeypatch.setattr(boosting, "choose_best", recorded)
    found = boost_probability(estimator, X, y, failure_probability=0.3)
    assert type(found) is type(estimator) and found is not estimator and not hasattr(estimator, "coef_")
    assert found.get_params() == estimator.get_params()
    assert len(scored[0]) == 3 and len(set(scored[0])) == 3  # fits with noise of their own
    guarantee = found.guarantee_
    assert (guarantee.epsilon, guarantee.delta) == (6.0, estimator.delta)
    assert guarantee.randomness == "seeded (not private)" and "best of 3 runs" in guarantee.mechanism
    assert guarantee.events[-1] == ApproximateEvent(epsilon=6.0 * 0.2, delta=0.0)
    assert composed_delta(guarantee.events, 6.0 * (1 + 1e-12)) <= estimator.delta
    assert found.predict(X).shape == (1000,)


def test_scores_are_those_of_the_fitted_weights() -> None:
    """Without noise all fits are equal to the minimiser, which no other point beats."""
    X, y = table(300, k=3)
    found = boost_probability(OutputPerturbationClassifier(math.inf, regularization=0.05), X, y)
    assert found.guarantee_ is None and found.score(X, y) > 0.9
    weights = boosting.weights_of(found)
    rows = found.row_map_.rows(X)
    scores = rows @ weights.reshape(3, -1).T
    np.testing.assert_allclose(scores, rows[:, :-1] @ found.coef_.T + found.intercept_, atol=1e-12)
    np.testing.assert_allclose(scores, found.decision_function(X), atol=1e-6)  # which rounds to grids first


def test_the_choice_counts_the_estimators_public_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def recorded(candidates: np.ndarray, risk: Any, *arguments: Any, **options: Any) -> int:
        seen.append((risk.total_regularization, options["adjacency"]))
        return 0

    monkeypatch.setattr(boosting, "choose_best", recorded)
    for public_size in (None, 500):
        estimator = OutputPerturbationClassifier(
            adjacency="add_remove", regularization=0.1, public_size=public_size, random_state=0
        )
        boost_probability(estimator, *table(), failure_probability=0.9)
    assert seen == [(300 * 0.1, "add_remove"), (500 * 0.1, "add_remove")]


def test_fits_that_are_not_gaussian_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectivePerturbationClassifier, "_gaussian", True)
    with pytest.raises(ArithmeticError, match="nothing is returned"):
        boost_probability(ObjectivePerturbationClassifier(random_state=0), *table(), failure_probability=0.9)


@pytest.mark.parametrize(
    ("estimator", "options", "text"),
    [
        (object(), {}, "must be a private classifier"),
        (
            OutputPerturbationClassifier(feature_bounds=(-1, 1), preprocessing_share=0.1),
            {},
            "preprocessing_share=0",
        ),
        (OutputPerturbationClassifier(data_norm=None), {}, "needs a data_norm"),
        (OutputPerturbationClassifier(loss="other"), {}, "loss must be"),  # type: ignore[arg-type]
        (OutputPerturbationClassifier(), {"failure_probability": 0.0}, "failure_probability must be in"),
        (OutputPerturbationClassifier(), {"selection_share": 1.0}, "selection_share must be in"),
        (OutputPerturbationClassifier(epsilon=-1.0), {}, "epsilon must be above 0"),
    ],
)
def test_bad_input(estimator: Any, options: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        boost_probability(estimator, *table(), **options)


@pytest.mark.parametrize(
    ("estimator", "options", "text"),
    [
        (OutputPerturbationClassifier(epsilon=2.0**-15), {}, "below 2\\^-16"),
        (OutputPerturbationClassifier(), {"selection_share": 1e-6}, "below 2\\^-16"),
        (OutputPerturbationClassifier(public_size=math.inf), {}, "public_size must be"),  # type: ignore[arg-type]
    ],
)
def test_what_the_choice_would_refuse_is_refused_before_any_fit(
    estimator: Any, options: dict[str, float], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: Any) -> Any:
        raise AssertionError("a fit was run")

    monkeypatch.setattr(OutputPerturbationClassifier, "_fit_rows", never)
    with pytest.raises(ValueError, match=text):
        boost_probability(estimator, *table(), **options)


def test_labels_in_a_column_are_taken_as_labels() -> None:
    X, y = table()
    estimator = OutputPerturbationClassifier(6.0, random_state=0)
    flat, column = (boost_probability(estimator, X, labels, failure_probability=0.5) for labels in (y, y[:, None]))
    np.testing.assert_array_equal(flat.coef_, column.coef_)
    with pytest.raises(ValueError, match="1d"):
        boost_probability(estimator, X, np.column_stack([y, y]))


def test_weights_that_cannot_be_compared_are_found_out_at_the_first_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []

    class Two(OutputPerturbationClassifier):
        def _set_weights(self, weights: np.ndarray) -> None:
            fits.append(1)
            super()._set_weights(np.vstack([-weights, weights]))

    with pytest.raises(ValueError, match="boosting is for one vector"):
        boost_probability(Two(random_state=0), *table())
    assert len(fits) == 1


def test_bad_number_of_runs() -> None:
    with pytest.raises(ValueError, match="n_runs must be"):
        run_budgets(PrivacyBudget(1.0), 0, 0.5, gaussian=False)
