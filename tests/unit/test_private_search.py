"""Private choice of hyper-parameters: what each fit may spend, what the choice costs, and how it is drawn."""

import math
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.utils.estimator_checks import parametrize_with_checks

from schemas.events import Event
from schemas.learning import Adjacency
from tasks.accounting.composition import composed_delta
from tasks.accounting.gaussian_profile import gaussian_mu
from tasks.classifiers import private_search
from tasks.classifiers.base import PrivateClassifier
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.fit import Fit
from tasks.classifiers.pmsvm import PMSVMClassifier
from tasks.classifiers.private_search import PrivateGridSearch, grid_search_on_released, random_stopping_delta
from tasks.noise import BitSource, SeededBits
from tests.statistics import ALPHA, proportion_interval

FloatArray = NDArray[np.float64]
GRID = {"wrong": [0, 1, 2, 3]}


class Wrong(PrivateClassifier):
    """Knows every answer, the row's first feature, but is wrong about `wrong` of the rows; notes what it may spend."""

    fits: ClassVar[list[tuple[int, float, float, FloatArray]]] = []

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        wrong: int = 0,
        kind: str = "gaussian",
        adjacency: Adjacency = "replace_one",
        data_norm: float | None = None,
        norm_rule: Any = "clip",
        fit_intercept: bool = False,
        classes: Any = None,
        feature_bounds: Any = None,
        preprocessing_share: float = 0.0,
        n_jobs: None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon, self.delta, self.wrong, self.kind, self.adjacency = epsilon, delta, wrong, kind, adjacency
        self.data_norm, self.norm_rule, self.fit_intercept, self.classes = data_norm, norm_rule, fit_intercept, classes
        self.feature_bounds, self.preprocessing_share = feature_bounds, preprocessing_share
        self.n_jobs, self.random_state = n_jobs, random_state

    @property
    def _gaussian(self) -> bool:
        return self.kind == "gaussian" or self.kind == "liar"

    def _fit_rows(
        self, rows: FloatArray, labels: NDArray[np.int64], n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        self.fits.append((self.wrong, budget.epsilon, budget.delta, rows[:, 1]))
        events: tuple[Event, ...] = ()
        if not budget.is_infinite:
            gaussian = self.kind == "gaussian" and not budget.is_pure
            events = (budget.as_gaussian() if gaussian else budget.as_approximate(),)
        return Fit(np.eye(2), "none", "none", events, pure=budget.is_pure)

    def predict(self, X: Any) -> NDArray[Any]:
        answers = np.asarray(X)[:, 0].astype(np.int64)
        answers[: self.wrong] = 1 - answers[: self.wrong]
        return answers


@pytest.fixture(autouse=True)
def _forget() -> None:
    Wrong.fits.clear()


def _rows(n: int = 12) -> tuple[FloatArray, NDArray[np.int64]]:
    labels = np.arange(n) % 2
    return np.column_stack([labels, np.arange(n)]).astype(np.float64), labels


def _search(estimator: PrivateClassifier | None = None, seed: Any = 0, **parameters: Any) -> PrivateGridSearch:
    chosen = PrivateGridSearch(estimator or Wrong(), parameters.pop("grid", GRID), random_state=seed, **parameters)
    return chosen.fit(*_rows())


# --- the exponential mechanism ------------------------------------------------------------------------------------


def test_gaussian_fits_share_mu_squared() -> None:
    search = _search(epsilon=2.0, delta=1e-5, selection_share=0.25)
    assert search.guarantee_ is not None
    assert (search.guarantee_.epsilon, search.guarantee_.delta) == (2.0, 1e-5)
    fits, choice = search.guarantee_.events[:-1], search.guarantee_.events[-1]
    total = math.fsum(event.noise_multiplier**-2 for event in fits if event.kind == "gaussian")
    assert len(fits) == 4 and math.sqrt(total) == pytest.approx(gaussian_mu(1.5, 1e-5), rel=1e-8)
    assert math.sqrt(total) <= gaussian_mu(1.5, 1e-5)
    assert choice.kind == "approximate" and (choice.epsilon, choice.delta) == (0.5, 0.0)
    assert composed_delta(search.guarantee_.events, 2.0) <= 1e-5


@pytest.mark.parametrize("delta", [1e-5, 0.0])
def test_other_fits_share_epsilon_and_delta(delta: float) -> None:
    search = _search(Wrong(kind="other"), epsilon=2.0, delta=delta, selection_share=0.25)
    assert [(e, d) for _, e, d, _ in Wrong.fits] == [(pytest.approx(1.5 / 4), pytest.approx(delta / 4))] * 4
    assert math.fsum(e for _, e, _, _ in Wrong.fits) <= 1.5
    assert search.guarantee_ is not None and composed_delta(search.guarantee_.events, 2.0) <= delta
    assert search.guarantee_.delta == delta


def test_fits_that_are_not_what_they_are_taken_for_are_refused() -> None:
    with pytest.raises(ArithmeticError, match="not the Gaussian mechanisms"):
        _search(Wrong(kind="liar"))


def test_sampled_steps_are_not_taken_for_gaussian_mechanisms() -> None:
    X, y = np.random.default_rng(0).uniform(-1, 1, (60, 2)), np.arange(60) % 2
    estimator = PMSVMClassifier(n_steps=2, sampling_probability=0.5)
    search = PrivateGridSearch(estimator, {"ridge": [0.0, 0.1]}, epsilon=4.0, random_state=0).fit(X, y)
    assert search.guarantee_ is not None
    assert math.fsum(e.epsilon * e.count for e in search.guarantee_.events if e.kind == "approximate") <= 4.0


@pytest.mark.parametrize(("adjacency", "range_bound"), [("replace_one", 2.0), ("add_remove", 1.0)])
def test_the_choice_is_by_counts_and_their_range(
    monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency, range_bound: float
) -> None:
    seen: list[tuple[Any, ...]] = []

    def chosen(*given: Any) -> int:
        seen.append(given[:3])
        return 2

    monkeypatch.setattr(private_search, "exponential_choice", chosen)
    search = _search(Wrong(adjacency=adjacency, kind="other"), epsilon=4.0, selection_share=0.25)
    assert seen == [([0, 1, 2, 3], range_bound, 1.0)]
    assert search.best_params_ == {"wrong": 2}


def test_ranges_of_counts_between_neighbours() -> None:
    """A record that one setting gets right and the other wrong, replaced by the opposite: counts move apart by 2."""
    before, after = np.array([0, 1]), np.array([1, 0])
    assert np.ptp(after - before) == 2
    rest = np.array([3, 5])
    assert max(np.ptp(rest + added - rest) for added in (before, after, np.array([1, 1]), np.array([0, 0]))) == 1


# --- random stopping ----------------------------------------------------------------------------------------------


def test_runs_get_a_third_of_epsilon_and_the_delta_of_the_theorem() -> None:
    search = _search(epsilon=3.0, delta=1e-5, method="random-stopping", selection_share=0.2, expected_runs=5)
    assert {(e, d) for _, e, d, _ in Wrong.fits} == {(Wrong.fits[0][1], Wrong.fits[0][2])}
    assert Wrong.fits[0][1] == pytest.approx(0.8)
    assert random_stopping_delta(1.0, Wrong.fits[0][2], 5) == pytest.approx(1e-5)
    assert search.guarantee_ is not None
    assert [(e.epsilon, e.delta) for e in search.guarantee_.events if e.kind == "approximate"] == [(3.0, 1e-5)]
    assert any("runs" in assumption for assumption in search.guarantee_.assumptions)


def test_pure_searches_stay_pure() -> None:
    search = _search(Wrong(kind="other"), epsilon=3.0, delta=0.0, method="random-stopping", expected_runs=2)
    assert {d for _, _, d, _ in Wrong.fits} == {0.0}
    assert search.guarantee_ is not None and search.guarantee_.delta == 0.0


def test_the_number_of_runs_is_geometric_and_not_told() -> None:
    """100 searches without noise, 4 runs on average: P(runs >= 2) = 3/4, P(best of two settings found) = 4/5."""
    bits, runs, found = SeededBits(2), [], 0
    for _ in range(100):
        Wrong.fits.clear()
        search = _search(seed=bits, grid={"wrong": [0, 3]}, epsilon=math.inf, method="random-stopping", expected_runs=4)
        runs.append(len(Wrong.fits))
        found += search.best_params_["wrong"] == 0
    counts = np.bincount(np.minimum(runs, 5), minlength=6)[1:]
    law = np.append(0.25 * 0.75 ** np.arange(4), 0.75**4)
    assert stats.chisquare(counts, 100 * law).pvalue > ALPHA
    low, high = proportion_interval(found, 100, ALPHA)
    assert low <= 0.8 <= high
    assert not [name for name in vars(search) if "runs" in name and name.endswith("_")]


def _kept(law: FloatArray, g: float) -> FloatArray:
    """Law of the run that is kept, outcomes sorted by count, by the formula in the docstring."""
    upto = np.cumsum(law)
    return law * g / ((g + (1 - g) * upto) * (g + (1 - g) * (upto - law)))


def test_the_formula_of_what_is_kept() -> None:
    """Against the sum over the number of runs: best of k has distribution function 1 - (1 - F)^k."""
    law, g = np.array([0.1, 0.4, 0.2, 0.3]), 0.3
    above = 1.0 - np.concatenate([[0.0], np.cumsum(law)])
    by_runs = sum(g * (1 - g) ** (k - 1) * (above[:-1] ** k - above[1:] ** k) for k in range(1, 400))
    np.testing.assert_allclose(_kept(law, g), by_runs, atol=1e-12)


def test_three_epsilon_holds_and_two_does_not() -> None:
    """Neighbouring laws within e^0.5: the worst ratio found is between 2 and 3 times 0.5, and nears 3 times."""
    generator, epsilon, worst = np.random.default_rng(0), 0.5, 0.0
    for _ in range(4000):
        law = generator.dirichlet(np.full(4, 0.3)) + 1e-12
        high = generator.random(4) < 0.5
        share = float((law / law.sum())[high].sum())
        factors = np.where(high, math.exp(epsilon), math.exp(-epsilon))
        if share > 0.999 or share < 0.001:
            continue
        other = law * factors
        ratio = other / other.sum() / (law / law.sum())
        if max(ratio.max(), 1.0 / ratio.min()) > math.exp(epsilon):
            other = law / law.sum() * np.clip(ratio, math.exp(-epsilon), math.exp(epsilon))
            if abs(other.sum() - 1.0) > 1e-9:
                continue
        for g in (0.5, 0.05, 1e-3):
            worst = max(worst, float(np.abs(np.log(_kept(other / other.sum(), g) / _kept(law / law.sum(), g))).max()))
    # a law by hand: a rare outcome that becomes rarer, with few better ones, which become more
    e = math.exp(epsilon)
    small = 1e-6
    law, other = np.array([small, small / 100, 1 - 1.01 * small]), np.array([small / e, small / 100 * e, 0.0])
    other[2] = 1.0 - other[:2].sum()
    worst = max(worst, float(np.abs(np.log(_kept(other, 1e-9) / _kept(law, 1e-9))).max()))
    assert 2.0 * epsilon < worst <= 3.0 * epsilon + 1e-9
    assert worst > 2.95 * epsilon


def test_delta_of_random_stopping() -> None:
    """By the formula, and above what a mechanism that tells everything with probability d does at m runs on average."""
    assert random_stopping_delta(0.5, 1e-6, 8) == pytest.approx(8e-6 * (1 + math.exp(1.5)) / (1 + math.exp(0.5)))
    assert random_stopping_delta(0.0, 1e-6, 8) == pytest.approx(8e-6)
    told = 1.0 - (1e-6 * 0 + (1.0 - 1e-6)) / (1.0 + 7 * 1e-6)  # P(some run tells): 1 - E[(1 - d)^K]
    assert told <= random_stopping_delta(0.0, 1e-6, 8) <= 1.1 * told
    assert random_stopping_delta(300.0, 1e-6, 8) > 1.0


# --- both ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exponential", "random-stopping"])
def test_rows_put_aside_are_not_fitted_and_cost_nothing_more(monkeypatch: pytest.MonkeyPatch, method: Any) -> None:
    counted: list[FloatArray] = []
    predict = Wrong.predict

    def watched(self: Wrong, X: Any) -> NDArray[Any]:
        counted.append(X[:, 1])
        return predict(self, X)

    monkeypatch.setattr(Wrong, "predict", watched)
    X, y = _rows(400)
    search = PrivateGridSearch(Wrong(), GRID, epsilon=3.0, method=method, validation_fraction=0.25, random_state=3)
    search.fit(X, y)
    fitted = Wrong.fits[0][3]
    assert sorted([*fitted, *counted[0]]) == list(range(400))
    assert 60 < len(counted[0]) < 140
    assert all(np.array_equal(rows, fitted) for *_, rows in Wrong.fits)
    assert search.guarantee_ is not None
    assert [(e.kind, getattr(e, "epsilon", 0.0)) for e in search.guarantee_.events] == [("approximate", 3.0)]
    if method == "exponential":
        assert math.sqrt(4) * gaussian_mu(Wrong.fits[0][1], 1e-5) == pytest.approx(gaussian_mu(3.0, 1e-5), rel=1e-8)
    else:
        assert Wrong.fits[0][1] == pytest.approx(1.0)


@pytest.mark.parametrize("method", ["exponential", "random-stopping"])
def test_without_noise_the_best_setting_is_kept(method: Any) -> None:
    search = _search(epsilon=math.inf, method=method, expected_runs=80, seed=5)
    assert search.best_params_ == {"wrong": 0} and search.guarantee_ is None
    assert search.best_estimator_.wrong == 0


def test_the_chosen_classifier_states_the_whole_guarantee() -> None:
    estimator = Wrong(epsilon=0.1)
    search = _search(estimator, epsilon=2.0)
    assert search.best_estimator_.guarantee_ == search.guarantee_
    assert search.best_estimator_.epsilon == 2.0 and search.best_estimator_.random_state is None
    assert estimator.epsilon == 0.1 and not hasattr(estimator, "classes_") and estimator.classes is None
    assert search.guarantee_ is not None and search.guarantee_.randomness == "seeded (not private)"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimator": object()}, "estimator must be a private classifier, got object"),
        ({"method": "best"}, "method must be 'exponential' or 'random-stopping', got method='best'"),
        ({"selection_share": 1.0}, r"selection_share must be in \(0, 1\), got selection_share=1.0"),
        ({"validation_fraction": 1.0}, r"validation_fraction must be in \[0, 1\), got validation_fraction=1.0"),
        ({"expected_runs": 0}, "expected_runs must be a whole number of at least 1, got expected_runs=0"),
        ({"epsilon": -1.0}, r"epsilon must be above 0: in .* got epsilon=-1\.0"),
        ({"epsilon": 1e-5}, "the choice would get an epsilon below"),
        ({"param_grid": {"epsilon": [1.0]}}, "param_grid must hold at least one setting, and none of"),
        ({"param_grid": []}, "param_grid must hold at least one setting"),
    ],
)
def test_bad_input(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PrivateGridSearch(**{"estimator": Wrong(), "param_grid": GRID, **parameters}).fit(*_rows())
    assert not Wrong.fits


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="only one class"):
        PrivateGridSearch(Wrong(), GRID).fit(np.zeros((4, 2)), np.zeros(4))


def test_a_search_on_released_rows_costs_nothing() -> None:
    X, y = _rows(40)
    estimator = Wrong(epsilon=0.5)
    found = grid_search_on_released(estimator, {"wrong": [3, 0, 1]}, X, y, n_splits=4, repeats=2)
    assert found.best_params == {"wrong": 0} and found.params == [{"wrong": 3}, {"wrong": 0}, {"wrong": 1}]
    assert found.accuracies == pytest.approx([0.7, 1.0, 0.9])
    assert len(Wrong.fits) == 24 and {e for _, e, _, _ in Wrong.fits} == {0.5}  # the noise of the fit to come
    assert not hasattr(estimator, "classes_")
    with pytest.raises(ValueError, match="repeats must be a whole number of at least 1, got repeats=0"):
        grid_search_on_released(estimator, GRID, X, y, repeats=0)


@parametrize_with_checks(
    [
        PrivateGridSearch(
            PMSVMClassifier(n_steps=3),
            {"ridge": [0.0, 0.1]},
            epsilon=math.inf,  # where there is noise, `PMSVMClassifier` is checked with it
            method=method,
            expected_runs=2,
            random_state=0,
        )
        for method in ("exponential", "random-stopping")
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(("epsilon", "delta", "k"), [(0.01, 0.1, 10), (0.1, 0.01, 20), (2.0, 1e-5, 4)])
def test_the_events_of_a_search_compose_to_what_is_claimed(epsilon: float, delta: float, k: int) -> None:
    """Where delta alone would pay for a share of mu, its epsilon is 0, and a budget made of that would be too large."""
    X = np.random.default_rng(1).standard_normal((200, 3))
    grid = {"learning_rate": list(np.linspace(0.1, 2.0, k))}
    found = PrivateGridSearch(PMSVMClassifier(n_steps=2), grid, epsilon=epsilon, delta=delta, random_state=1).fit(
        X, (X[:, 0] > 0).astype(int)
    )
    assert found.guarantee_ is not None
    assert composed_delta(found.guarantee_.events, epsilon * (1 + 1e-9)) <= delta * (1 + 1e-6)
    assert "which classes there are is public" in found.guarantee_.assumptions


def test_random_stopping_puts_noise_on_each_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts that are compared are off by Laplace noise of scale 1 / count epsilon; without it they are told."""
    drawn: list[float] = []
    real = private_search.lattice_for

    class Listening:
        def __init__(self, *arguments: Any) -> None:
            self.lattice = real(*arguments)

        def add_norm_noise(self, vector: Any, epsilon: float, bits: BitSource) -> FloatArray:
            noisy = self.lattice.add_norm_noise(vector, epsilon, bits)
            drawn.append((float(noisy[0]) - float(vector[0])) * epsilon)
            return noisy

    monkeypatch.setattr(private_search, "lattice_for", Listening)
    for seed in range(12):
        _search(seed=seed, method="random-stopping", expected_runs=4)
    assert len(drawn) >= 12 and len(set(drawn)) == len(drawn)
    assert stats.kstest(drawn, stats.laplace(0.0, 1.0).cdf).pvalue > ALPHA
    assert stats.kstest(np.array(drawn) * 1e-3, stats.laplace(0.0, 1.0).cdf).pvalue < ALPHA


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"epsilon": 1e4, "method": "random-stopping"}, "at most 300"), ({"selection_share": "x"}, "selection_share")],
)
def test_more_bad_input(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _search(**parameters)
