"""PMSVM as an estimator: what it learns, what it says it guarantees, and what it refuses."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from tasks.accounting.composition import composed_delta
from tasks.classifiers import pmsvm, weight_perturbation
from tasks.classifiers.baselines import OneVsRestPrivateSVM
from tasks.classifiers.certified import certified_minimum
from tasks.classifiers.losses import HuberisedHingeLoss
from tasks.classifiers.multiclass_losses import CrammerSingerHinge
from tasks.classifiers.pmsvm import PMSVMClassifier
from tasks.classifiers.risks import MarginRisk
from tasks.classifiers.solver import Minimum, NotCertifiedError

FloatArray = NDArray[np.float64]
METHODS: list[Any] = ["weight", "gradient", "adaptive"]


def table(n: int = 600, n_classes: int = 3, d: int = 5, seed: int = 1) -> tuple[FloatArray, NDArray[np.int64]]:
    """Classes around unit vectors."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    return 0.3 * generator.standard_normal((n, d)) + np.eye(d)[labels], labels


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_defaults_learn_and_say_what_they_guarantee(method: Any, n_classes: int) -> None:
    X, y = table(n_classes=n_classes)
    names = np.array(["one", "three", "two"])
    model = PMSVMClassifier(epsilon=4.0, method=method).fit(X, names[y])
    assert model.score(X, names[y]) > (0.6 if method == "weight" else 0.95)
    assert model.coef_.shape == ((1, 5) if n_classes == 2 else (3, 5))
    assert model.intercept_.shape == ((1,) if n_classes == 2 else (3,))
    told = model.guarantee_
    assert told is not None and told.private and (told.epsilon, told.delta) == (4.0, 1e-5)
    assert told.adjacency == "replace_one"
    # the events cost what was paid for, and nearly all of it
    assert 0.999e-5 < composed_delta(told.events, 4.0) <= 1e-5 * (1.0 + 1e-9)
    assert {"weight": "weight", "gradient": "PMSVM, gradient", "adaptive": "adaptive"}[method] in told.mechanism
    again = pickle.loads(pickle.dumps(clone(model).set_params(random_state=3).fit(X, y)))
    assert not again.guarantee_.private


@pytest.mark.parametrize("method", METHODS)
def test_a_seed_repeats_the_fit_and_its_absence_does_not(method: Any) -> None:
    X, y = table(60)
    seeded = [PMSVMClassifier(method=method, n_steps=3, random_state=5).fit(X, y).coef_ for _ in range(2)]
    free = [PMSVMClassifier(method=method, n_steps=3).fit(X, y).coef_ for _ in range(2)]
    assert np.array_equal(seeded[0], seeded[1]) and not np.array_equal(free[0], free[1])


def test_noise_multipliers_are_those_of_the_closed_forms() -> None:
    """Reference values of the analytic Gaussian at delta = 1e-5: 3.7306 for epsilon 1, 1.0812 for epsilon 4."""
    X, y = table(60)
    for epsilon, multiplier in ((1.0, 3.7306), (4.0, 1.0812)):
        weight = PMSVMClassifier(epsilon, method="weight").fit(X, y)
        assert weight.noise_multiplier_ == pytest.approx(multiplier, rel=1e-4)
        gradient = PMSVMClassifier(epsilon, method="gradient", n_steps=16).fit(X, y)
        assert gradient.noise_multiplier_ == pytest.approx(4.0 * multiplier, rel=1e-4)
        assert gradient.guarantee_ is not None and gradient.guarantee_.events[0].count == 16


def test_default_C_makes_noise_of_one_over_the_number_of_classes() -> None:
    X, y = table(600)
    model = PMSVMClassifier(1.0, method="weight").fit(X, y)
    noise = model.noise_multiplier_ * 2.0 * math.sqrt(2.0) * model.C_ / 600
    assert noise == pytest.approx(1.0 / 3.0, rel=1e-9)
    assert PMSVMClassifier(math.inf, method="weight").fit(X, y).C_ == 600.0
    assert PMSVMClassifier(math.inf, method="weight", C=2.0).fit(X, y).C_ == 2.0


def test_without_noise_weights_are_liblinears() -> None:
    X, y = table(150)
    X = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    ours = PMSVMClassifier(math.inf, method="weight", C=150.0, smoothing=1e-3, fit_intercept=False).fit(X, y)
    theirs = LinearSVC(
        multi_class="crammer_singer", C=1.0, fit_intercept=False, tol=1e-9, max_iter=100_000, random_state=0
    )
    assert ours.guarantee_ is None
    assert np.linalg.norm(ours.coef_ - theirs.fit(X, y).coef_) < 0.02 * np.linalg.norm(ours.coef_)


@pytest.mark.parametrize("method", ["gradient", "adaptive"])
def test_without_noise_gradients_reach_the_regularised_minimum(method: Any) -> None:
    """scikit-learn's LogisticRegression: mean loss + 1 / (2 n C) |w|^2, so C = 1 / (2 n mu); nothing is clipped."""
    X, y = table(150)
    X = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    ours = PMSVMClassifier(
        math.inf, method=method, loss="cross-entropy", ridge=0.02, pairwise=0.0, clip_norm=10.0, fit_intercept=False,
        n_steps=400, learning_rate=2.0 if method == "gradient" else 0.05, averaging=0.1,
    ).fit(X, y)  # fmt: skip
    theirs = LogisticRegression(C=1.0 / (2.0 * 150 * 0.02), fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    assert np.linalg.norm(ours.coef_ - theirs.coef_) < 0.01 * np.linalg.norm(theirs.coef_)
    assert ours.guarantee_ is None and ours.noise_multiplier_ == 0.0


def test_regularisers_pull_weights_together() -> None:
    """The same seed, so the same noise: lambda and mu must still show, with every power."""
    X, y = table(200)
    base: dict[str, Any] = {
        "method": "gradient",
        "random_state": 1,
        "n_steps": 20,
        "learning_rate": 1.0,
        "epsilon": 2.0,
    }
    spread = {}
    changes: dict[str, dict[str, Any]] = {
        "none": {"pairwise": 0.0},
        "pairwise": {"pairwise": 0.05},
        "power 1": {"pairwise": 0.05, "pairwise_power": 1.0},
        "power 3": {"pairwise": 0.05, "pairwise_power": 3.0},
        "ridge": {"pairwise": 0.0, "ridge": 0.1},
    }
    for name, change in changes.items():
        W = PMSVMClassifier(**base, **change).fit(X, y).coef_
        spread[name] = float(np.linalg.norm(W[:, None] - W))
    assert all(spread[name] < 0.95 * spread["none"] for name in spread if name != "none"), spread


def test_scores_do_not_depend_on_how_columns_were_scaled() -> None:
    """The factors of `column_factors` are undone: what is learned is about the rows of `row_map_`."""
    X, y = table(120)
    for norm, scaling in ((1.0, 0.1), (1.0, 0.6), (None, 0.3)):
        model = PMSVMClassifier(math.inf, method="gradient", data_norm=norm, intercept_scaling=scaling).fit(X, y)
        assert model.score(X, y) > 0.9
        assert abs(model.intercept_).max() > 0.0
    flat = np.zeros((120, 2))
    skewed = np.where(np.arange(120) < 90, 0, 1)
    for method in METHODS:
        model = PMSVMClassifier(math.inf, method=method, C=1e6, intercept_scaling=0.5).fit(flat, skewed)
        assert np.array_equal(model.predict(flat), np.zeros(120))  # the majority, by the intercept alone


@pytest.mark.parametrize("scaling", [0.1, 0.7])
def test_scores_are_those_of_rows_with_the_scaled_constant(scaling: float) -> None:
    """Rows (sqrt(1 - a^2) x, a) put into the objective by hand give the same scores."""
    X, y = table(90)
    X = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    rows = np.column_stack([math.sqrt(1.0 - scaling**2) * X, np.full(90, scaling)])
    risk = weight_perturbation.MulticlassRisk(rows, y, 3, CrammerSingerHinge(0.5), 20.0)
    by_hand = rows @ weight_perturbation.certified_minimiser(risk, 1e-9).T
    model = PMSVMClassifier(math.inf, method="weight", C=20.0, intercept_scaling=scaling).fit(X, y)
    tolerance = weight_perturbation.RELATIVE_TOLERANCE * 2.0 * math.sqrt(2.0) * 20.0 / 90
    assert np.abs(model.decision_function(X) - by_hand).max() <= 1.01 * tolerance
    rival = OneVsRestPrivateSVM(math.inf, C=20.0, intercept_scaling=scaling).fit(X, y)
    signs = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    exact = certified_minimum(MarginRisk(rows, signs, HuberisedHingeLoss(0.25), 1.0 / 20.0), 1e-9).theta.reshape(3, -1)
    assert np.abs(rival.decision_function(X) - rows @ exact.T).max() <= 2.0 * tolerance


def test_add_remove_halves_the_noise() -> None:
    X, y = table(60)
    for method in METHODS:
        one = PMSVMClassifier(method=method, C=5.0, adjacency="add_remove", random_state=1, n_steps=4).fit(X, y)
        two = PMSVMClassifier(method=method, C=5.0, adjacency="replace_one", random_state=1, n_steps=4).fit(X, y)
        assert one.noise_multiplier_ == two.noise_multiplier_  # over the sensitivity, which is half
        assert one.guarantee_ is not None and two.guarantee_ is not None
        assert "public" in " ".join(one.guarantee_.assumptions)
        assert one.guarantee_.proof != two.guarantee_.proof


def test_poisson_samples_are_accounted_and_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.classifiers import gradient_perturbation
    from tasks.classifiers.subsampling import poisson_noise_multiplier

    sizes = []
    real = gradient_perturbation.poisson_sample

    def recorded(*arguments: Any) -> Any:
        sample = real(*arguments)
        sizes.append(sample.size)
        return sample

    monkeypatch.setattr(gradient_perturbation, "poisson_sample", recorded)
    X, y = table(600)
    model = PMSVMClassifier(2.0, sampling_probability=0.25, n_steps=8, adjacency="add_remove", random_state=2).fit(X, y)
    assert len(sizes) == 8 and len(set(sizes)) > 1 and 100 < np.mean(sizes) < 200
    assert model.noise_multiplier_ == poisson_noise_multiplier(0.25, 8, 2.0, 1e-5, "add_remove")
    assert model.guarantee_ is not None and model.guarantee_.events[0].kind == "approximate"
    import dp_accounting as dp

    step = dp.PoissonSampledDpEvent(0.25, dp.GaussianDpEvent(model.noise_multiplier_))
    assert model.dp_event_ == dp.SelfComposedDpEvent(step, 8)
    whole = PMSVMClassifier(2.0, n_steps=8, adjacency="add_remove").fit(X, y)
    assert whole.dp_event_ == dp.SelfComposedDpEvent(dp.GaussianDpEvent(whole.noise_multiplier_), 8)
    assert model.noise_multiplier_ < whole.noise_multiplier_


def _correlated(n: int, seed: int) -> tuple[FloatArray, NDArray[np.int64]]:
    """Ten features that are mostly three common factors; the classes differ in what is left."""
    X, y = table(n, d=10, seed=seed)
    loadings = np.random.default_rng(9).standard_normal((3, 10))
    return X + 6.0 * np.random.default_rng(seed + 100).standard_normal((n, 3)) @ loadings, y


@pytest.mark.parametrize("method", METHODS[1:])
def test_whitening_helps_where_classes_differ_across_the_common_factors(method: Any) -> None:
    train, test = _correlated(1500, 1), _correlated(1500, 2)
    made: dict[str, Any] = {"method": method, "data_norm": None, "random_state": 0}
    plain, white = (PMSVMClassifier(**made, whitening_share=share).fit(*train) for share in (0.0, 0.2))
    assert white.score(*test) > plain.score(*test) + 0.1
    assert white.row_map_.rows(train[0]).shape == plain.row_map_.rows(train[0]).shape


@pytest.mark.parametrize("intercept", [True, False])
def test_the_whitening_map_is_folded_into_the_weights(monkeypatch: pytest.MonkeyPatch, intercept: bool) -> None:
    """Scores are those of the weights that were learned on whitened rows."""
    seen: list[Any] = []
    real = pmsvm.fit_by_gradients

    def recorded(rows: FloatArray, *arguments: Any) -> Any:
        seen.append((rows, real(rows, *arguments)))
        return seen[-1][1]

    monkeypatch.setattr(pmsvm, "fit_by_gradients", recorded)
    X, y = _correlated(200, 1)
    model = PMSVMClassifier(4.0, whitening_share=0.3, data_norm=None, fit_intercept=intercept, n_steps=5).fit(X, y)
    ((rows, found),) = seen
    assert not np.allclose(rows[:, :10], X / math.sqrt(10.0))
    scores = rows @ found.weights.T
    assert np.allclose(model.decision_function(X), scores, atol=1e-5 * np.abs(scores).max())


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_whitening_and_steps_together_cost_the_budget(
    monkeypatch: pytest.MonkeyPatch, adjacency: Any, share: float
) -> None:
    spent = []
    real = pmsvm.private_whitening

    def recorded(rows: FloatArray, mu: float, *arguments: Any) -> Any:
        spent.append(mu)
        return real(rows, mu, *arguments)

    monkeypatch.setattr(pmsvm, "private_whitening", recorded)
    X, y = table(60)
    model = PMSVMClassifier(
        whitening_share=0.25, preprocessing_share=share, feature_bounds=(-3.0, 3.0), adjacency=adjacency, n_steps=7
    ).fit(X, y)
    told: Any = model.guarantee_
    assert "whitened" in told.mechanism and "second moment of directions" in told.proof
    assert 0.999e-5 < composed_delta(told.events, 1.0) <= 1e-5 * (1.0 + 1e-9)
    assert len(told.events) == (3 if share else 2)
    whitening, steps = told.events[-2:]
    assert spent == [pytest.approx(1.0 / whitening.noise_multiplier, rel=1e-12)]
    own = 7.0 / steps.noise_multiplier**2
    assert spent[0] ** 2 / (spent[0] ** 2 + own) == pytest.approx(0.25, rel=1e-6)
    assert model.noise_multiplier_ == steps.noise_multiplier


def test_whitening_beside_poisson_samples_costs_by_basic_composition() -> None:
    X, y = table(60)
    model = PMSVMClassifier(2.0, whitening_share=0.25, sampling_probability=0.5, n_steps=3, adjacency="add_remove")
    told: Any = model.fit(X, y).guarantee_
    assert [event.kind for event in told.events] == ["gaussian", "approximate"]
    assert composed_delta(told.events[:1], 0.5) <= 0.25e-5 * (1.0 + 1e-9)
    assert (told.events[1].epsilon, told.events[1].delta) == pytest.approx((1.5, 0.75e-5), rel=1e-12)
    import dp_accounting as dp

    assert isinstance(model.dp_event_, dp.ComposedDpEvent) and len(model.dp_event_.events) == 2


def test_without_noise_whitening_costs_nothing() -> None:
    X, y = _correlated(300, 1)
    model = PMSVMClassifier(math.inf, whitening_share=0.2, data_norm=None).fit(X, y)
    assert model.guarantee_ is None and model.score(X, y) > 0.9


def test_rows_of_any_size_are_safe_without_a_norm() -> None:
    X, y = table(60)
    X[0] *= 1e200
    X[1] *= 1e-200
    X[2] = 0.0
    for method in METHODS[1:]:
        for share in (0.0, 0.2):
            model = PMSVMClassifier(method=method, data_norm=None, n_steps=5, whitening_share=share).fit(X, y)
            assert np.isfinite(model.coef_).all()


def test_the_solvers_tolerance_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = weight_perturbation.lattice_for

    def lattice(dimension: int, sensitivity: float, relative_noise: float) -> Any:
        seen.append(sensitivity)
        return real(dimension, sensitivity, relative_noise)

    monkeypatch.setattr(weight_perturbation, "lattice_for", lattice)
    PMSVMClassifier(method="weight", C=2.0).fit(*table(60))
    allowed = 1.0 + 2.0 * weight_perturbation.RELATIVE_TOLERANCE
    assert seen == [pytest.approx(2.0 * math.sqrt(2.0) * 2.0 / 60 * allowed, rel=1e-12)]


def test_an_uncertified_minimiser_is_never_released(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(60)
    monkeypatch.setattr(weight_perturbation, "minimise", lambda of, start, *_, **__: Minimum(start, math.inf, math.inf))
    monkeypatch.setattr(weight_perturbation, "_accelerated", lambda _, theta, __: (theta, math.inf))
    with pytest.raises(NotCertifiedError, match="nothing was released") as caught:
        PMSVMClassifier(method="weight").fit(X, y)
    assert not any(sign.isdigit() for sign in str(caught.value))  # it depends on the rows, so it tells no number


def test_what_doubles_cannot_certify_is_refused_by_public_numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(60)
    refusals = []
    for rows in (X, np.zeros_like(X)):
        with pytest.raises(ValueError, match="more than doubles can certify") as caught:
            PMSVMClassifier(method="weight", C=1e60, random_state=0).fit(rows, y)
        refusals.append(str(caught.value))
    assert refusals[0] == refusals[1]
    monkeypatch.setattr(weight_perturbation, "RELATIVE_TOLERANCE", 1e-18)
    with pytest.raises(ValueError, match="more than doubles can certify"):
        PMSVMClassifier(method="weight").fit(X, y)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"method": "weights"}, "method='weights'"),
        ({"loss": "hinge"}, "loss='hinge'"),
        ({"C": 0.0, "method": "weight"}, "C=0.0"),
        ({"C": math.inf, "method": "weight"}, "C=inf"),
        ({"n_steps": 0}, "n_steps=0"),
        ({"n_steps": 2.5}, "n_steps=2.5"),
        ({"n_steps": True}, "n_steps=True"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0"),
        ({"pairwise": -0.1}, "pairwise=-0.1"),
        ({"pairwise_power": 0.5}, "pairwise_power=0.5"),
        ({"ridge": math.nan}, "ridge=nan"),
        ({"smoothing": 0.0}, "smoothing=0.0"),
        ({"clip_norm": 0.0}, "clip_norm=0.0"),
        ({"clip_norm": "1"}, "clip_norm='1'"),
        ({"sampling_probability": 1.5}, "sampling_probability=1.5"),
        ({"sampling_probability": 0.5, "method": "weight"}, "sampling_probability"),
        ({"averaging": 1.1}, "averaging=1.1"),
        ({"intercept_scaling": 1.0}, "intercept_scaling=1.0"),
        ({"whitening_share": 1.0}, "whitening_share=1.0"),
        ({"whitening_share": 1e-4}, "whitening_share=0.0001"),
        ({"whitening_share": True}, "whitening_share=True"),
        ({"whitening_share": 0.2, "method": "weight"}, "whitening_share"),
        ({"data_norm": None, "method": "weight"}, "data_norm"),
        ({"delta": 0.0}, "delta"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
    ],
)
def test_bad_parameters_are_named(wrong: dict[str, Any], named: str) -> None:
    X, y = table(30)
    with pytest.raises(ValueError, match=named.replace("(", r"\(").replace(".", r"\.")):
        PMSVMClassifier(**wrong).fit(X, y)


def test_a_diverging_regulariser_is_named() -> None:
    X, y = table(30)
    with pytest.raises(ValueError, match=r"learning_rate=1000\.0"):
        PMSVMClassifier(method="gradient", learning_rate=1000.0, pairwise=10.0).fit(X, y)


NO_SAMPLE_WEIGHT = {
    name: "a record's weight would multiply its part in what is released, so sample_weight is refused"
    for name in (
        "check_sample_weights_pandas_series",
        "check_sample_weights_not_an_array",
        "check_sample_weights_list",
        "check_all_zero_sample_weights_error",
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
        "check_sample_weight_equivalence_on_dense_data",
        "check_classifiers_one_label_sample_weights",
    )
}


@pytest.mark.filterwarnings("ignore:Estimator's parameters changed after fit")
@pytest.mark.parametrize("method", ["weight", "adaptive"])  # "gradient" differs in one line of arithmetic
def test_scikit_learns_checks(method: Any) -> None:
    model = PMSVMClassifier(epsilon=8.0, method=method, n_steps=5, random_state=0)
    results = check_estimator(model, expected_failed_checks=NO_SAMPLE_WEIGHT, on_fail=None, on_skip=None)
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
