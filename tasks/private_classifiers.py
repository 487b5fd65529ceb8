"""Which estimator a private classifier's name stands for, its public grid, and what can be refused before a charge.

An estimator is imported where it is used: most releases need none.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from schemas.errors import RequestRefused
from schemas.learning import FitGuarantee
from schemas.private_classifiers import Hyperparameters, PrivateClassifierName, PrivateTraining
from schemas.spec import ReleaseSpec
from tasks.columns.layout import layout_of
from tasks.noise import BitSource, SeededBits

if TYPE_CHECKING:
    from tasks.classifiers.base import PrivateClassifier
    from tasks.tables import FloatArray, IntArray

Settings = Mapping[str, Any]

ESTIMATORS: dict[PrivateClassifierName, tuple[str, str, Settings]] = {
    "noisy-sgd": ("noisy_sgd_classifier", "NoisySGDClassifier", {}),
    "exponential-sampling": ("exponential_classifier", "ExponentialSamplingClassifier", {}),
    "output-perturbation": ("output_perturbation", "OutputPerturbationClassifier", {}),
    "localization": ("localization", "LocalizationClassifier", {}),
    "objective-perturbation": ("objective_perturbation", "ObjectivePerturbationClassifier", {}),
    "pmsvm-weight": ("pmsvm", "PMSVMClassifier", {"method": "weight"}),
    "pmsvm-gradient": ("pmsvm", "PMSVMClassifier", {"method": "gradient"}),
    "pmsvm-adaptive": ("pmsvm", "PMSVMClassifier", {"method": "adaptive"}),
    "private-svm": ("baselines", "PrivateSVMClassifier", {}),
    "opera": ("baselines", "OPERAClassifier", {}),
    "private-linear": ("baselines", "PrivateLinearClassifier", {}),
    "one-versus-rest": ("baselines", "OneVsRestPrivateSVM", {}),
}
"""Module below `tasks.classifiers`, class, and the parameters that the name fixes."""

_STEPS: list[dict[str, Any]] = [{}, {"n_steps": 30}, {"n_steps": 300}, {"clip_norm": 0.3}]
_STEPS_OR_WHITENED = [*_STEPS, {"whitening_share": 0.2}]
_WEIGHTS_OF_LOSSES: list[dict[str, Any]] = [{}, {"C": 1.0}, {"C": 10.0}, {"C": 100.0}]
GRIDS: dict[PrivateClassifierName, list[dict[str, Any]]] = {
    "noisy-sgd": [{}, {"n_steps": 30}, {"radius": 3.0}, {"clip_norm": 0.3}],
    "exponential-sampling": [{}, {"regularization": 0.1}, {"regularization": 0.2}],
    "output-perturbation": [{}, {"regularization": 0.01}, {"regularization": 0.03}, {"regularization": 0.3}],
    "localization": [{}, {"regularization": 0.03}, {"regularization": 0.3}],
    "objective-perturbation": [{}, {"target_norm": 0.3}, {"target_norm": 3.0}, {"target_norm": 10.0}],
    "pmsvm-weight": _WEIGHTS_OF_LOSSES,
    "pmsvm-gradient": _STEPS_OR_WHITENED,
    "pmsvm-adaptive": _STEPS_OR_WHITENED,
    "private-svm": _WEIGHTS_OF_LOSSES,
    "opera": _WEIGHTS_OF_LOSSES,
    "private-linear": _STEPS,
    "one-versus-rest": _WEIGHTS_OF_LOSSES,
}
"""Public: the settings that `hyperparameters: fabricated` chooses among, the estimator's defaults first."""

FEATURE_BOUNDS = (0.0, 1.0)
"""Of encoded features; they follow from the declared domains."""
_STATED_ELSEWHERE = frozenset(
    {"epsilon", "delta", "adjacency", "classes", "feature_bounds", "data_norm", "norm_rule", "fit_intercept", "n_jobs",
     "random_state"}
)  # fmt: skip
_FOLDS = 3
_FOLD_SEED, _NOISE_SEED = 20260711, 20260712
"""Public: which fabricated rows are in which fold, and the noise of the choice, which hides nothing."""
_MOST_TRIED = 1000
"""Made-up rows that a training is tried on at most, before anything is charged."""


def estimator_of(
    entry: PrivateTraining, n_classes: int, bits: BitSource, *, noise: bool, settings: Settings | None = None
) -> "PrivateClassifier":
    """The estimator for a table's encoded rows, not yet fitted.

    Parameters
    ----------
    entry : PrivateTraining
    n_classes : int
        Declared classes; labels are their places.
    bits : BitSource
    noise : bool
        With the noise that the entry's epsilon and delta ask for, or, for rows that are released, without any.
    settings : mapping, default=None
        Hyper-parameters; the estimator's defaults where left out.

    Returns
    -------
    PrivateClassifier
    """
    made, fixed = _class_of(entry.classifier)
    epsilon, delta = entry.paid if noise else (np.inf, entry.delta)
    budget = {"epsilon": float(epsilon)} | ({} if delta is None else {"delta": delta})
    return made(
        **budget,
        adjacency="replace_one",
        classes=np.arange(n_classes),
        feature_bounds=FEATURE_BOUNDS,
        preprocessing_share=entry.preprocessing_share,
        random_state=bits,
        **fixed,
        **(settings or {}),
    )


def _class_of(name: PrivateClassifierName) -> tuple[Callable[..., "PrivateClassifier"], Settings]:
    module, made, fixed = ESTIMATORS[name]
    return getattr(import_module(f"tasks.classifiers.{module}"), made), fixed


def stated_parameters(estimator: "PrivateClassifier") -> Hyperparameters:
    """An estimator's own parameters, as a released classifier states them."""
    return {
        name: value if value is None or isinstance(value, bool | int | float | str) else repr(value)
        for name, value in sorted(estimator.get_params(deep=False).items())
        if name not in _STATED_ELSEWHERE
    }


def settings_of(entry: PrivateTraining, stated: Hyperparameters, n_classes: int) -> dict[str, Any] | None:
    """The settings that a released classifier was trained with, of those that its entry allows; None if it was others.

    Parameters
    ----------
    entry : PrivateTraining
    stated : dict
        All hyper-parameters in the released file. They are compared whole, defaults included: `{}`, the first settings
        of every grid, is among all the others.
    n_classes : int

    Returns
    -------
    dict or None
    """
    for settings in _allowed(entry):
        estimator = estimator_of(entry, n_classes, SeededBits(0), noise=entry.confidential, settings=settings)
        if stated_parameters(estimator) == stated:
            return dict(settings)
    return None


def _allowed(entry: PrivateTraining) -> list[dict[str, Any]]:
    """The settings that an entry lets be taken."""
    return GRIDS.get(entry.classifier, [{}]) if entry.hyperparameters == "fabricated" else [{}]


def choose_settings(entry: PrivateTraining, rows: "FloatArray", labels: "IntArray", n_classes: int) -> dict[str, Any]:
    """The grid's settings with the best cross-validated accuracy on fabricated rows; the first of equally good ones.

    Parameters
    ----------
    entry : PrivateTraining
    rows : ndarray of float64, shape (n_rows, width)
        Released: what is chosen by them is post-processing and costs nothing.
    labels : ndarray of int64, shape (n_rows,)
    n_classes : int

    Returns
    -------
    dict

    Notes
    -----
    Each fold is trained with the noise that the training on confidential rows will have (without any, where there is
    none). The noise of most algorithms weighs less the more rows there are, and a fold has two thirds of them, so the
    choice is made under a little more of it.
    """
    grid = _allowed(entry)
    if len(grid) < 2 or len(rows) < 2 * _FOLDS:
        return dict(grid[0])
    fold_of = np.random.default_rng(_FOLD_SEED).permutation(len(rows)) % _FOLDS
    right = []
    for settings in grid:
        hits = 0
        for fold in range(_FOLDS):
            kept = fold_of != fold
            estimator = estimator_of(
                entry, n_classes, SeededBits(_NOISE_SEED + fold), noise=entry.confidential, settings=settings
            )
            answers = estimator.fit(rows[kept], labels[kept]).predict(rows[~kept])
            hits += int(np.count_nonzero(answers == labels[~kept]))
        right.append(hits)
    return dict(grid[int(np.argmax(right))])


def refuse_untrainable(spec: ReleaseSpec, n_rows: int | None = None) -> None:
    """Refuse private classifiers that cannot be trained, as far as public numbers tell: before anything is charged.

    Parameters
    ----------
    spec : ReleaseSpec
    n_rows : int, default=None
        Members, if they are known: then each is trained once on made-up rows, at most 1000 of them, and asked by
        `PrivateClassifier.refuse_size` what it refuses of so many rows, which costs neither memory nor much time.

    Raises
    ------
    RequestRefused
        The estimator refuses its parameters, the number of rows, or made-up rows of as many columns and classes; names
        the classifier.
    """
    n_classes, width = len(spec.table.classes), layout_of(spec.table).width
    for entry in spec.evaluation.private_classifiers:
        reason = _refusal(entry, n_classes, width, n_rows)
        if reason is not None:
            raise RequestRefused(
                f"evaluation.private_classifiers: {entry.classifier} cannot be trained here: {reason}. Nothing was "
                "spent"
            )


def _refusal(entry: PrivateTraining, n_classes: int, width: int, n_rows: int | None) -> str | None:
    try:
        for settings in _allowed(entry):
            if n_rows is None:
                bits = SeededBits(_NOISE_SEED)
                estimator_of(entry, n_classes, bits, noise=entry.confidential, settings=settings)._checked(None)
            else:
                _tried(entry, n_classes, width, n_rows, settings)
                for noise, size in _trainings(entry, n_rows):
                    estimator = estimator_of(entry, n_classes, SeededBits(0), noise=noise, settings=settings)
                    estimator.refuse_size(size, width)
    except ArithmeticError:
        return "with this epsilon, delta and preprocessing_share its numbers leave the range of doubles"
    except (ValueError, RuntimeError) as error:  # about public numbers only, so its text may be shown
        return " ".join(str(error).split()) or type(error).__name__
    return None


def _trainings(entry: PrivateTraining, n_rows: int) -> list[tuple[bool, int]]:
    """With noise on all members, and without on the fabricated rows that are kept for it, as far as asked for."""
    from tasks.sample import MOST_ROWS

    trainings = {"confidential": (True, n_rows), "fabricated": (False, min(n_rows, MOST_ROWS))}
    return [trainings[kind] for kind in entry.trained_on]


def _tried(entry: PrivateTraining, n_classes: int, width: int, n_rows: int, settings: Settings) -> "PrivateClassifier":
    """The estimator, fitted to made-up rows: the same ones for the same numbers."""
    n_tried, random = min(n_rows, _MOST_TRIED), np.random.default_rng(_FOLD_SEED)
    estimator = estimator_of(entry, n_classes, SeededBits(_NOISE_SEED), noise=entry.confidential, settings=settings)
    with threadpool_limits(1):
        return estimator.fit(random.random((n_tried, width)), np.arange(n_tried) % n_classes)


def guarantee_of_training(spec: ReleaseSpec, entry: PrivateTraining, n_rows: int, settings: Settings) -> FitGuarantee:
    """What a training on confidential rows guarantees, with the words and events of its proof, found without them.

    A guarantee depends on public numbers alone, so a training on made-up rows has the same one, but for the numbers
    that its words may hold and its randomness, which was seeded.

    Parameters
    ----------
    spec : ReleaseSpec
    entry : PrivateTraining
        One that is trained on confidential rows.
    n_rows : int
        Members; at most 1000 rows are made up.
    settings : mapping

    Returns
    -------
    FitGuarantee
    """
    made = _tried(entry, len(spec.table.classes), layout_of(spec.table).width, n_rows, settings).guarantee_
    assert made is not None  # it is trained with noise
    return made
