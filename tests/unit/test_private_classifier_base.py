"""The frame of every private classifier, with the simplest algorithm there is: noisy class sums."""

import math
import pickle

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from schemas.events import GaussianEvent
from schemas.learning import Adjacency
from tasks.accounting.composition import composed_delta
from tasks.classifiers.base import PrivateClassifier, bits_of
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.fit import Fit, refuse_unproven
from tasks.classifiers.lattice import lattice_for
from tasks.classifiers.pmsvm import PMSVMClassifier
from tasks.classifiers.row_map import NormRule, RowMap
from tasks.noise import BitSource, OperatingSystemBits, SeededBits

FloatArray = NDArray[np.float64]


class NoisyClassSums(PrivateClassifier):
    """Sums of the rows of each class, with Gaussian noise: a replaced row moves them by at most 2."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: Adjacency = "replace_one",
        data_norm: float | None = 1.0,
        norm_rule: NormRule = "clip",
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        preprocessing_share: float = 0.0,
        n_jobs: None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon, self.delta, self.adjacency = epsilon, delta, adjacency
        self.data_norm, self.norm_rule, self.fit_intercept = data_norm, norm_rule, fit_intercept
        self.classes, self.feature_bounds, self.preprocessing_share = classes, feature_bounds, preprocessing_share
        self.n_jobs, self.random_state = n_jobs, random_state

    _delta_needed = "class sums get Gaussian noise"

    def _fit_rows(
        self, rows: FloatArray, labels: NDArray[np.int64], n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        self.seen_ = rows
        sums = np.eye(n_classes)[labels].T @ rows
        if not budget.is_infinite:
            lattice = lattice_for(sums.size, 2.0, 1.0 / budget.mu)
            sums = lattice.add_gaussian(sums, 1.0 / budget.mu, bits)
        events = () if budget.is_infinite else (budget.as_gaussian(),)
        return Fit(sums / len(rows), "class sums with Gaussian noise", "analytic Gaussian", events)


def _table(n_classes: int = 3, n: int = 400) -> tuple[FloatArray, NDArray[np.int64]]:
    generator = np.random.default_rng(11)
    labels = np.arange(n) % n_classes
    return generator.standard_normal((n, 4)) * 0.3 + np.eye(4)[labels], labels


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fit_gives_scikit_learns_attributes_and_a_guarantee(n_classes: int) -> None:
    X, y = _table(n_classes)
    names = np.array(["one", "three", "two"])[:n_classes]
    model = NoisyClassSums(epsilon=8.0, random_state=1).fit(X, names[y])
    assert list(model.classes_) == list(names) and model.n_features_in_ == 4
    assert model.score(X, names[y]) > 0.8
    assert model.decision_function(X).shape == ((400,) if n_classes == 2 else (400, 3))
    told = model.guarantee_
    assert told is not None and (told.epsilon, told.delta, told.adjacency) == (8.0, 1e-5, "replace_one")
    assert composed_delta(told.events, 8.0) <= 1e-5 * (1 + 1e-9)
    assert told.randomness == "seeded (not private)" and not told.private and "no guarantee" in told.sentence()
    assert told.assumptions == ["which classes there are is public"]
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(clone(model).fit(X, names[y]).coef_, model.coef_)


def test_without_a_seed_the_bits_are_the_operating_systems_and_the_guarantee_holds() -> None:
    X, y = _table()
    first, second = (NoisyClassSums(classes=[0, 1, 2]).fit(X, y) for _ in range(2))
    assert not np.array_equal(first.coef_, second.coef_)
    told = first.guarantee_
    assert told is not None and told.private and told.randomness == "os-csprng" and told.assumptions == []
    assert told.sentence().startswith("record level: replacing one record changes the probability")
    assert isinstance(bits_of(None), OperatingSystemBits) and isinstance(bits_of(3), SeededBits)
    own = SeededBits(4)
    assert bits_of(own) is own and isinstance(bits_of(np.random.RandomState(0)), SeededBits)


def test_infinite_epsilon_fits_without_noise_and_claims_nothing() -> None:
    import dp_accounting as dp

    X, y = _table()
    model = NoisyClassSums(epsilon=math.inf, delta=0.0).fit(X, y)
    assert model.guarantee_ is None and isinstance(model.dp_event_, dp.NonPrivateDpEvent)
    means = np.array([model.row_map_.rows(X)[y == k].sum(axis=0) / len(y) for k in range(3)])
    assert np.allclose(model.coef_, means[:, :-1])


def test_dp_accounting_prices_the_event_at_what_is_claimed() -> None:
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    X, y = _table()
    plain = NoisyClassSums(epsilon=2.0, random_state=1).fit(X, y)
    first = NoisyClassSums(epsilon=2.0, random_state=1, preprocessing_share=0.2, feature_bounds=(-3.0, 3.0)).fit(X, y)
    assert plain.guarantee_ is not None and "means and scales" not in plain.guarantee_.mechanism
    assert first.guarantee_ is not None and first.guarantee_.mechanism.startswith("noisy means and scales")
    assert first.guarantee_.proof.endswith("composed with the means and scales")
    for model, n_events in ((plain, 1), (first, 2)):
        assert model.guarantee_ is not None and len(model.guarantee_.events) == n_events
        accountant = PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE).compose(model.dp_event_)
        assert accountant.get_delta(2.0) == pytest.approx(1e-5, rel=1e-3)
        for other in (PLDAccountant, RdpAccountant):  # none of them prices it below what it costs
            for relation in (dp.NeighboringRelation.ADD_OR_REMOVE_ONE, dp.NeighboringRelation.REPLACE_ONE):
                priced = other(neighboring_relation=relation).compose(model.dp_event_).get_epsilon(1e-5)
                assert priced >= 2.0 * (1 - 1e-3)
        assert composed_delta(model.guarantee_.events, 2.0) <= 1e-5 * (1 + 1e-9)


@pytest.mark.parametrize("rule", ["clip", "normalize"])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_are_brought_to_norms_of_at_most_one(rule: NormRule, intercept: bool) -> None:
    X, y = _table()
    X = np.concatenate([X * 50.0, X[:5] * 1e-3, np.zeros((1, 4))])
    y = np.concatenate([y, y[:6]])
    model = NoisyClassSums(data_norm=0.7, norm_rule=rule, fit_intercept=intercept, random_state=1).fit(X, y)
    lengths = np.linalg.norm(model.seen_, axis=1)
    assert np.all(lengths <= 1.0)
    assert np.allclose(lengths[:400], 1.0)
    rows = model.seen_ * math.sqrt(2.0) if intercept else model.seen_
    short = np.linalg.norm(rows[400:405, :4], axis=1)
    if rule == "clip":
        assert np.allclose(rows[400:405, :4] * 0.7, X[400:405])
    else:
        assert np.allclose(short, 1.0)
    assert np.array_equal(rows[405, :4], np.zeros(4))
    assert model.seen_.shape[1] == (5 if intercept else 4)


def test_scores_are_those_of_the_rows_that_were_fitted_to() -> None:
    X, y = _table()
    for norm in (0.5, None):
        model = NoisyClassSums(epsilon=math.inf, data_norm=norm).fit(X, y)
        weights = np.eye(3)[y].T @ model.seen_ / len(y)
        assert np.allclose(model.decision_function(X), model.seen_ @ weights.T)


def test_bounds_map_to_minus_one_and_one_and_clip_beyond() -> None:
    own = RowMap(lower=np.array([0.0, -10.0]), upper=np.array([4.0, 10.0]))
    assert np.array_equal(own.bounded(np.array([[0.0, 10.0], [9.0, 0.0]])), [[-1.0, 1.0], [1.0, 0.0]])


def test_one_row_a_class_and_absent_public_classes_are_fitted() -> None:
    X = np.eye(3)
    model = NoisyClassSums(random_state=1, classes=[0, 1, 2, 3]).fit(X, [0, 1, 2])
    assert model.coef_.shape == (4, 3)
    only = NoisyClassSums(random_state=1, classes=["a", "b"]).fit(X, ["a", "a", "a"])
    assert list(only.classes_) == ["a", "b"]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"epsilon": 0.0}, "epsilon must be above 0"),
        ({"epsilon": -1.0}, "epsilon must be above 0"),
        ({"epsilon": math.nan}, "epsilon must be a number"),
        ({"epsilon": True}, "epsilon must be a number"),
        ({"epsilon": "1"}, "epsilon must be a number"),
        ({"delta": 1.0}, r"delta must be in \[0, 1\)"),
        ({"delta": -1e-9}, r"delta must be in \[0, 1\)"),
        ({"delta": 0.0}, "needs delta above 0"),
        ({"adjacency": "swap"}, "adjacency must be"),
        ({"data_norm": 0.0}, r"data_norm must be in \[1e-100, 1e100\]"),
        ({"data_norm": math.inf}, r"data_norm must be in \[1e-100, 1e100\]"),
        ({"norm_rule": "none"}, "norm_rule must be"),
        ({"classes": [1]}, "at least two classes"),
        ({"classes": [0, 1]}, "133 labels that are not among classes"),
        ({"feature_bounds": (1.0, 0.0)}, "feature_bounds must be"),
        ({"feature_bounds": (0.0, math.inf)}, "feature_bounds must be"),
        ({"feature_bounds": ([0.0, 0.0], 1.0)}, "feature_bounds must be"),
        ({"feature_bounds": 3.0}, "feature_bounds must be"),
        ({"preprocessing_share": 0.1}, "needs feature_bounds"),
        ({"preprocessing_share": 1.0, "feature_bounds": (0, 1)}, r"must be in \[0, 1\)"),
        ({"preprocessing_share": "0.2", "feature_bounds": (0, 1)}, "preprocessing_share must be a number"),
        ({"preprocessing_share": None, "feature_bounds": (0, 1)}, "preprocessing_share must be a number"),
        ({"data_norm": "1"}, "data_norm must be a number"),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False"),
        ({"classes": [[0, 1], [2, 3]]}, "must be a list of classes"),
        ({"classes": [0.0, 1.0, math.nan]}, "classes holds NaN"),
        ({"classes": np.array([0, "a", None], dtype=object)}, "classes must hold labels of one kind"),
        ({"preprocessing_share": 1e-300, "feature_bounds": (0, 1)}, r"must be 0, or in \[0.001, 0.999\]"),
        ({"n_jobs": 2}, "n_jobs"),
        ({"random_state": -1}, "random_state must be None"),
        ({"random_state": "seed"}, "random_state must be None"),
    ],
)
def test_what_cannot_be_is_refused_by_name(parameters: dict[str, object], text: str) -> None:
    X, y = _table()
    with pytest.raises(ValueError, match=text):
        NoisyClassSums(**parameters).fit(X, y)  # type: ignore[arg-type]


def test_bad_rows_are_refused() -> None:
    X, y = _table()
    model = NoisyClassSums()
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y, sample_weight=np.ones(len(y)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 1.0, np.nan, X), y)
    with pytest.raises(ValueError, match="only one class"):
        model.fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="4 features"):
        model.fit(X, y).predict(X[:, :3])


class _Overspending(NoisyClassSums):
    def _fit_rows(
        self, rows: FloatArray, labels: NDArray[np.int64], n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        return Fit(
            np.zeros((n_classes, rows.shape[1])), "too little noise", "none", (PrivacyBudget(2.0, 1e-5).as_gaussian(),)
        )


class _Silent(NoisyClassSums):
    def _fit_rows(
        self, rows: FloatArray, labels: NDArray[np.int64], n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        return Fit(np.zeros((n_classes, rows.shape[1])), "says nothing of what it ran", "none")


@pytest.mark.parametrize("kind", [_Overspending, _Silent])
def test_a_fit_that_spent_more_than_it_was_given_is_thrown_away(kind: type[NoisyClassSums]) -> None:
    X, y = _table()
    model = kind(1.0)
    with pytest.raises(RuntimeError, match="spent more than epsilon=1"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-9, 1e-11), (1e-8, 1e-12), (1e-7, 1e-16), (1e-5, 1e-300), (1.0, 1e-300), (40.0, 0.5)]
)
def test_the_budgets_own_release_is_never_taken_for_too_much(epsilon: float, delta: float) -> None:
    budget = PrivacyBudget(epsilon, delta)
    refuse_unproven("it", [budget.as_gaussian()], budget)
    with pytest.raises(RuntimeError, match="spent more"):
        refuse_unproven("it", [GaussianEvent(noise_multiplier=0.999 / budget.mu)], budget)
    with pytest.raises(RuntimeError, match="spent more"):
        refuse_unproven("it", [budget.as_gaussian()], PrivacyBudget(epsilon))


class _Overflowing(NoisyClassSums):
    def _fit_rows(
        self, rows: FloatArray, labels: NDArray[np.int64], n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        weights = np.full((n_classes, rows.shape[1]), np.nan)
        return Fit(weights, "overflows", "none", (budget.as_gaussian(),))


def test_weights_that_overflow_are_not_kept() -> None:
    model = _Overflowing()
    with pytest.raises(ValueError, match="the weights overflowed"):
        model.fit(*_table())
    assert not hasattr(model, "coef_")


def test_attributes_of_an_earlier_fit_do_not_stay() -> None:
    model = PMSVMClassifier(method="weight", random_state=0).fit(*_table())
    assert model.C_ > 0.0
    before = vars(PMSVMClassifier(method="gradient", n_steps=3, random_state=0).fit(*_table())).keys()
    model.set_params(method="gradient", n_steps=3).fit(*_table())
    assert vars(model).keys() == before and not hasattr(model, "C_")


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-3, 0.1), (0.01, 0.5), (0.1, 0.01), (50.0, 1e-12), (np.float32(2.0), 1e-5)]
)
def test_shares_of_odd_budgets_stay_within_them(epsilon: float, delta: float) -> None:
    X, y = _table()
    model = NoisyClassSums(epsilon, delta, preprocessing_share=0.3, feature_bounds=(-3, 3), random_state=1).fit(X, y)
    assert model.guarantee_ is not None
    assert composed_delta(model.guarantee_.events, float(epsilon) * (1 + 1e-9)) <= delta * (1 + 1e-6)


@pytest.mark.parametrize(
    ("mu", "delta"), [(0.3, 1e-5), (0.02, 0.1), (1e-4, 0.5), (9.0, 1e-12), (0.25, 0.1), (3e-9, 1e-12)]
)
def test_a_budget_of_a_mu_has_no_larger_one_and_hardly_a_smaller_one(mu: float, delta: float) -> None:
    own = PrivacyBudget.of_mu(mu, delta)
    lost = 1e-7 if own.epsilon > 1e-3 else 1e-3  # digits of the conversions
    assert mu * (1 - lost) <= own.mu <= mu and own.delta <= delta


def test_a_fit_that_failed_leaves_the_one_before_whole() -> None:
    X, y = _table()
    model = _Overspending(math.inf).fit(X, y)
    before = model.coef_
    with pytest.raises(RuntimeError, match="spent more"):
        model.set_params(epsilon=1.0).fit(X, np.where(y == 0, "u", "v"))
    assert list(model.classes_) == [0, 1, 2] and model.coef_ is before and model.guarantee_ is None


def test_a_range_that_no_double_holds_is_refused() -> None:
    X, y = _table()
    with pytest.raises(ValueError, match="feature_bounds"):
        NoisyClassSums(feature_bounds=(-1e308, 1e308)).fit(X, y)
    lower, upper = np.full(4, -6e307), np.full(4, 6e307)
    assert np.array_equal(RowMap(lower=lower, upper=upper).bounded(np.where(X > 0, 9e307, -9e307)), np.sign(X))


def test_events_of_pure_and_of_unknown_mechanisms_have_names_in_dp_accounting() -> None:
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    from schemas.events import ApproximateEvent
    from tasks.classifiers.dp_events import ApproximateDpEvent, dp_event_of
    from tasks.classifiers.fit import PoissonSampledGaussian

    pure = dp_event_of([ApproximateEvent(epsilon=1.5, delta=0.0)], None, "replace_one")
    accountant = PLDAccountant(dp.NeighboringRelation.REPLACE_ONE).compose(pure)
    assert accountant.get_epsilon(0.0) == pytest.approx(1.5, abs=1e-3)
    assert dp_event_of([ApproximateEvent(epsilon=1.0, delta=1e-5)], None, "add_remove") == ApproximateDpEvent(1.0, 1e-5)
    sampled = PoissonSampledGaussian(0.1, 2.0, 30)
    found = dp_event_of([ApproximateEvent(epsilon=1.0, delta=1e-5)], sampled, "add_remove")
    assert found == dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)), 30)
    replaced = dp_event_of([ApproximateEvent(epsilon=1.0, delta=1e-5)], sampled, "replace_one")
    assert replaced == ApproximateDpEvent(1.0, 1e-5)


@pytest.mark.parametrize("epsilon", [1e-10, 1e-300, 1e7, 1e300])
def test_an_epsilon_beyond_what_can_be_kept_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be above 0: in"):
        PrivacyBudget(epsilon, 1e-5)


@pytest.mark.parametrize(("mu", "delta"), [(5e4, 1e-5), (1e-12, 1e-12)])
def test_a_share_that_no_budget_stands_for_is_refused_and_never_infinite(mu: float, delta: float) -> None:
    with pytest.raises(ValueError, match="too small or too large to be shared out"):
        PrivacyBudget.of_mu(mu, delta)


def test_an_answer_does_not_depend_on_the_rows_asked_with_it() -> None:
    """Weights that nearly cancel on a row: its score's last bits, and so its class, must not turn on its place."""
    generator = np.random.default_rng(4)
    X = generator.standard_normal((1003, 33)) * 1e6
    model = NoisyClassSums(math.inf, data_norm=None, fit_intercept=False).fit(X, np.arange(1003) % 2)
    model.coef_ = generator.standard_normal((2, 33))
    lead = model.coef_[1] - model.coef_[0]
    X -= np.outer(X @ lead, lead) / float(lead @ lead)
    whole = model.decision_function(X)
    for first in (1, 2, 5, 500, 1002):
        assert np.array_equal(model.decision_function(X[first:]), whole[first:])
    assert np.allclose(whole, (X @ lead), atol=10.0)  # of terms of a size of 1e7


def test_a_vector_that_is_no_number_is_released_as_zero_and_not_as_the_least_integer() -> None:
    own = lattice_for(3, 1.0, 1.0)
    assert np.array_equal(own.snap([math.nan, math.inf, -math.inf]), [0, 2**52, -(2**52)])
