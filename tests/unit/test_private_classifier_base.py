"""The frame of every private classifier, with the simplest algorithm there is: noisy class sums."""

import math
import pickle

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from schemas.learning import Adjacency
from tasks.accounting.composition import composed_delta
from tasks.classifiers.base import PrivateClassifier, bits_of
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.fit import Fit
from tasks.classifiers.lattice import lattice_for
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

    X, y = _table()
    plain = NoisyClassSums(epsilon=2.0, random_state=1).fit(X, y)
    first = NoisyClassSums(epsilon=2.0, random_state=1, preprocessing_share=0.2, feature_bounds=(-3.0, 3.0)).fit(X, y)
    for model, n_events in ((plain, 1), (first, 2)):
        assert model.guarantee_ is not None and len(model.guarantee_.events) == n_events
        accountant = PLDAccountant(dp.NeighboringRelation.REPLACE_ONE).compose(model.dp_event_)
        assert accountant.get_delta(2.0) == pytest.approx(1e-5, rel=1e-3)
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
    assert model.seen_.shape[1] == 5 if intercept else 4


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
        ({"data_norm": 0.0}, "data_norm must be above 0"),
        ({"data_norm": math.inf}, "data_norm must be above 0"),
        ({"norm_rule": "none"}, "norm_rule must be"),
        ({"classes": [1]}, "at least two classes"),
        ({"classes": [0, 1]}, "133 labels that are not among classes"),
        ({"feature_bounds": (1.0, 0.0)}, "feature_bounds must be"),
        ({"feature_bounds": (0.0, math.inf)}, "feature_bounds must be"),
        ({"feature_bounds": ([0.0, 0.0], 1.0)}, "feature_bounds must be"),
        ({"feature_bounds": 3.0}, "feature_bounds must be"),
        ({"preprocessing_share": 0.1}, "needs feature_bounds"),
        ({"preprocessing_share": 1.0, "feature_bounds": (0, 1)}, r"must be in \[0, 1\)"),
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
