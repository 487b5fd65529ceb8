"""Tables that are too large for an algorithm are refused by their numbers: before a charge, without rows."""

import tracemalloc
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from schemas.errors import RequestRefused
from schemas.spec import ReleaseSpec
from tasks.classifiers import (
    baselines,
    certified,
    exact_losses,
    exponential_classifier,
    exponential_sampling,
    localization,
    localized_risks,
    objective_perturbation,
    output_perturbation,
)
from tasks.classifiers.base import PrivateClassifier
from tasks.classifiers.baselines import (
    OneVsRestPrivateSVM,
    OPERAClassifier,
    PrivateLinearClassifier,
    PrivateSVMClassifier,
)
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.convex_sets import Ball
from tasks.classifiers.exponential_classifier import ExponentialSamplingClassifier
from tasks.classifiers.localization import LocalizationClassifier
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, LogisticLoss, MarginLoss
from tasks.classifiers.noisy_sgd_classifier import NoisySGDClassifier
from tasks.classifiers.objective_perturbation import ObjectivePerturbationClassifier
from tasks.classifiers.output_perturbation import OutputPerturbationClassifier
from tasks.classifiers.pmsvm import PMSVMClassifier
from tasks.classifiers.risk_of_size import risk_of_size
from tasks.classifiers.risks import MarginRisk, signs_of, total_strong_convexity
from tasks.private_classifiers import GRIDS, refuse_untrainable
from tests.projects import SPEC, changed
from tests.stand_in_classifier import StandInClassifier, stand_in

LARGE = 2**40  # rows, which no machine holds
UNCERTIFIED, UNPAID, UNSUMMED = "less than doubles can certify", "pay for rounding with", "at most 2\\^27 records"
ONE_FEATURE = changed(
    SPEC,
    "table.columns",
    {"x": {"type": "integer", "bounds": [0, 16]}, "digit": SPEC["table"]["columns"]["digit"]},
)


def _spec(name: str, delta: float = 1e-5, base: dict[str, Any] = SPEC, **changes: Any) -> ReleaseSpec:
    entry = {"classifier": name, "epsilon": 4.0, "delta": delta} | changes
    return ReleaseSpec.model_validate(changed(base, "evaluation.private_classifiers", [entry]))


# Before a charge ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "delta", "base", "text"),
    [
        ("pmsvm-weight", 1e-5, SPEC, "more than doubles can certify"),
        ("private-svm", 1e-5, SPEC, UNCERTIFIED),
        ("opera", 1e-5, SPEC, UNCERTIFIED),
        ("one-versus-rest", 1e-5, SPEC, UNCERTIFIED),
        ("output-perturbation", 1e-5, SPEC, UNCERTIFIED),
        ("output-perturbation", 0.0, SPEC, UNCERTIFIED),
        ("objective-perturbation", 1e-5, SPEC, UNCERTIFIED),
        ("objective-perturbation", 0.0, SPEC, UNCERTIFIED),
        ("localization", 1e-5, SPEC, UNCERTIFIED),
        ("localization", 0.0, SPEC, UNPAID),
        ("exponential-sampling", 0.0, SPEC, UNPAID),
        ("exponential-sampling", 0.0, ONE_FEATURE, UNSUMMED),
    ],
)
def test_a_number_of_rows_is_refused_before_a_charge_and_without_rows(
    name: str, delta: float, base: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.private_classifiers._MOST_TRIED", 60)
    spec = _spec(name, delta, base)
    refuse_untrainable(spec, 100_000)
    tracemalloc.start()
    try:
        with pytest.raises(RequestRefused, match=f"{name} cannot be trained here: .*{text}.*Nothing was spent"):
            refuse_untrainable(spec, 2**26 if text == UNPAID else LARGE)
        assert tracemalloc.get_traced_memory()[1] < 1e8
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["noisy-sgd", "pmsvm-gradient", "pmsvm-adaptive", "private-linear"])
def test_sums_of_gradients_are_for_any_number_of_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.private_classifiers._MOST_TRIED", 60)
    refuse_untrainable(_spec(name), LARGE)


def test_more_cells_than_any_memory_holds_are_refused_in_our_words() -> None:
    with pytest.raises(RequestRefused, match="no memory holds 9000000000000000000 rows of 4 features"):
        refuse_untrainable(_spec("objective-perturbation"), 9 * 10**18)


def test_each_of_the_settings_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: StandInClassifier, n_records: int, *_: object) -> None:
        if self.shift and n_records > 2000:
            raise ValueError("too many for this shift")

    stand_in(monkeypatch)
    monkeypatch.setattr(StandInClassifier, "_refuse_numbers", refuse)
    monkeypatch.setitem(GRIDS, "opera", [{}, {"shift": 50.0}])
    refuse_untrainable(_spec("opera"), LARGE)
    refuse_untrainable(_spec("opera", hyperparameters="fabricated"), 2000)
    with pytest.raises(RequestRefused, match="too many for this shift"):
        refuse_untrainable(_spec("opera", hyperparameters="fabricated"), 2001)


def test_what_learns_from_fabricated_rows_is_asked_for_those_without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def recorded(_: object, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> None:
        asked.append((n_records, n_columns, n_classes, budget.epsilon))

    stand_in(monkeypatch)
    monkeypatch.setattr(StandInClassifier, "_refuse_numbers", recorded)
    refuse_untrainable(_spec("opera"), LARGE)
    assert asked == [(1000, 5, 3, 4.0), (50_000, 5, 3, np.inf), (LARGE, 5, 3, 4.0)]
    asked.clear()
    free = changed(SPEC, "evaluation.private_classifiers", [{"classifier": "opera", "trained_on": ["fabricated"]}])
    refuse_untrainable(ReleaseSpec.model_validate(free), 200)
    assert asked == [(200, 5, 3, np.inf), (200, 5, 3, np.inf)]


# In a fit -----------------------------------------------------------------------------------------------------------


class Unread:
    label = "os-csprng"

    def words(self, n_words: int) -> np.ndarray:
        raise AssertionError("bits were drawn")


@pytest.mark.parametrize("bought", [{}, {"preprocessing_share": 0.2, "feature_bounds": (0.0, 1.0)}])
@pytest.mark.parametrize(
    "made",
    [
        PMSVMClassifier(method="gradient"),
        PMSVMClassifier(method="adaptive", whitening_share=0.3),
        PrivateLinearClassifier(),
        NoisySGDClassifier(),
    ],
)
def test_budgets_too_small_for_poisson_samples_are_refused_before_anything_is_drawn(
    made: PrivateClassifier, bought: dict[str, Any]
) -> None:
    made.set_params(
        epsilon=20.0, delta=1e-12, sampling_probability=0.3, n_steps=3, classes=[0, 1], random_state=Unread(), **bought
    )
    rows = np.random.default_rng(0).random((60, 3))
    for refused in (lambda: made.refuse_size(60, 3), lambda: made.fit(rows, np.arange(60) % 2)):
        with pytest.raises(ValueError, match="sampling_probability below 1 needs delta"):
            refused()


@pytest.mark.parametrize(
    ("made", "delta", "limit", "text"),
    [
        (PrivateSVMClassifier, 1e-5, (certified, "_ROUNDING_PART", 1e-14), UNCERTIFIED),
        (OPERAClassifier, 1e-5, (certified, "_ROUNDING_PART", 1e-14), UNCERTIFIED),
        (OneVsRestPrivateSVM, 1e-5, (certified, "_ROUNDING_PART", 1e-14), UNCERTIFIED),
        (OutputPerturbationClassifier, 1e-5, (certified, "_ROUNDING_PART", 1e-14), UNCERTIFIED),
        (ObjectivePerturbationClassifier, 1e-5, (certified, "_ROUNDING_PART", 1e-14), UNCERTIFIED),
        (LocalizationClassifier, 1e-5, (certified, "_ROUNDING_PART", 1e-14), UNCERTIFIED),
        (LocalizationClassifier, 0.0, (localized_risks, "MOST_ROUNDINGS", 60), UNPAID),
        (LocalizationClassifier, 0.0, (exact_losses, "MOST_RECORDS", 59), UNSUMMED),
        (ExponentialSamplingClassifier, 1e-5, (exact_losses, "MOST_ROUNDINGS", 60), UNPAID),
        (ExponentialSamplingClassifier, 1e-5, (exact_losses, "MOST_RECORDS", 59), UNSUMMED),
    ],
)
def test_a_fit_refuses_what_numbers_refuse_in_the_same_words_and_draws_nothing(
    made: Any, delta: float, limit: tuple[Any, str, float], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is a share for scales, which are bought before the rest."""
    monkeypatch.setattr(*limit)
    estimator: PrivateClassifier = made(
        delta=delta,
        classes=[0, 1, 2],
        feature_bounds=(0.0, 1.0),
        preprocessing_share=0.2 if delta else 0.0,
        random_state=Unread(),
    )
    with pytest.raises(ValueError, match=text) as by_numbers:
        estimator.refuse_size(60, 4)
    random = np.random.default_rng(3)
    with pytest.raises(ValueError, match=text) as by_rows:
        estimator.fit(random.random((60, 4)), np.arange(60) % 3)
    assert str(by_rows.value) == str(by_numbers.value)


def _constants(risk: MarginRisk, *rest: Any) -> tuple[Any, ...]:
    numbers = (risk.n_records, risk.dimension, risk.n_problems, risk.loss, risk.total_regularization)
    return (*numbers, *(own.radius if isinstance(own, Ball) else own for own in rest))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("module", "made", "delta"),
    [
        (baselines, PrivateSVMClassifier, 1e-5),
        (baselines, OPERAClassifier, 1e-5),
        (baselines, OneVsRestPrivateSVM, 1e-5),
        (output_perturbation, OutputPerturbationClassifier, 1e-5),
        (output_perturbation, OutputPerturbationClassifier, 0.0),
        (objective_perturbation, ObjectivePerturbationClassifier, 1e-5),
        (objective_perturbation, ObjectivePerturbationClassifier, 0.0),
        (localization, LocalizationClassifier, 1e-5),
        (localization, LocalizationClassifier, 0.0),
        (exponential_classifier, ExponentialSamplingClassifier, 0.0),
    ],
)
def test_numbers_and_rows_are_asked_the_same(
    module: Any, made: Any, delta: float, n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the very constants, budgets and tolerances with which the fit goes on."""
    check, home = "refuse_uncertifiable", certified.__name__
    if made is ExponentialSamplingClassifier:
        check, home = "sampler_and_range", exponential_sampling.__name__
    by_numbers, by_rows = set(), set()
    real = getattr(import_module(home), check)

    def before(*asked: Any, **named: Any) -> Any:
        by_numbers.add(_constants(*asked))
        return real(*asked, **named)

    def within(*asked: Any, **named: Any) -> Any:
        by_rows.add(_constants(*asked[: len(next(iter(by_numbers))) - 4]))
        return real(*asked, **named)

    monkeypatch.setattr(module, check, before)
    monkeypatch.setattr(f"{home}.{check}", within)
    random = np.random.default_rng(3)
    made(4.0, delta, classes=range(n_classes), feature_bounds=(0.0, 1.0), random_state=1).fit(
        random.random((60, 4)), np.arange(60) % n_classes
    )
    assert by_numbers and by_numbers == by_rows


def test_the_numbers_are_those_that_a_fit_is_made_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns with the constant of the intercept, and what preprocessing leaves of the budget."""
    asked = []
    monkeypatch.setattr(StandInClassifier, "_refuse_numbers", lambda _, *numbers: asked.append(numbers))
    for intercept in (True, False):
        estimator = StandInClassifier(
            4.0,
            1e-5,
            classes=["a", "b"],
            fit_intercept=intercept,
            feature_bounds=(0.0, 1.0),
            preprocessing_share=0.3,
            random_state=1,
        )
        estimator.refuse_size(50, 4)
        estimator.fit(np.random.default_rng(0).random((50, 4)), np.array(["a", "b"] * 25))
    mu = PrivacyBudget(4.0, 1e-5).mu
    assert asked[0] == asked[1] and asked[2] == asked[3]
    assert [own[:3] for own in asked[::2]] == [(50, 5, 2), (50, 4, 2)]
    assert asked[0][3].mu == pytest.approx(np.sqrt(0.7) * mu, rel=1e-6)


def test_without_rows_the_classes_must_be_named() -> None:
    with pytest.raises(ValueError, match="classes must be named"):
        StandInClassifier().refuse_size(10, 2)
    with pytest.raises(ValueError, match="norm_rule"):
        StandInClassifier(classes=[0, 1]).set_params(norm_rule="longest").refuse_size(10, 2)
    with pytest.raises(ValueError, match="feature_bounds"):
        StandInClassifier(classes=[0, 1], feature_bounds=([0.0] * 3, [1.0] * 3)).refuse_size(10, 2)


# Constants by numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("public_size", [None, 20])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", [LogisticLoss(), HuberisedHingeLoss(0.5), HingeLoss()])
def test_constants_of_a_risk_by_numbers_are_those_of_its_rows(
    loss: MarginLoss, n_classes: int, public_size: int | None
) -> None:
    rows, labels = np.random.default_rng(0).random((40, 4)) / 2.0, np.arange(40) % n_classes
    real = MarginRisk(rows, signs_of(labels, n_classes), loss, 0.3, public_size)
    stated = risk_of_size(40, 4, n_classes, loss, 0.3, public_size)
    for name in ("n_records", "nominal_size", "total_regularization", "n_problems", "dimension", "lipschitz",
                 "smoothness", "strong_convexity", "hessian_rank"):  # fmt: skip
        assert getattr(stated, name) == getattr(real, name), name
    assert total_strong_convexity(stated) == total_strong_convexity(real)
    assert certified.largest_size(stated) == certified.largest_size(real)
    assert certified.minimiser_norm_bound(stated) == certified.minimiser_norm_bound(real)
