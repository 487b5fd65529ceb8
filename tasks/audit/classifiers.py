"""Train on one kind of data, test on real rows: what the release is good for, beside what it costs.

All classifiers see the same scaled features and are tested on the same control rows. `kahm` is the seed paper's; for
the others see `tasks.audit.training`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from schemas.measures import FEWEST_ROWS, TrainedOn
from schemas.private_classifiers import ChosenOn, Hyperparameters, PrivateClassifierName, TrainedPrivatelyOn
from schemas.spec import ClassifierName
from schemas.utility import ClassifierComparison, ClassifierResult, PrivateClassifierResult
from tasks.audit.class_scores import auc_interval, macro_f1_interval
from tasks.audit.density_difference import FloatArray
from tasks.audit.proportion import wilson_interval
from tasks.audit.training import Labels, TrainedClassifier, train_classifiers

KahmAnswer = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Of one `kahm` classifier: classes (n_classes,), answers (n_test,) and class scores (n_test, n_classes)."""
_RESAMPLING_SEED = 20240612
"""Of the intervals of macro-F1: the same control rows and answers always have the same interval."""


def majority_class(y: ArrayLike) -> Any:
    """The most frequent label; among equally frequent ones the first in sorted order."""
    labels, counts = np.unique(np.asarray(y), return_counts=True)
    return labels[np.argmax(counts)]


def _checked(
    training_sets: Mapping[TrainedOn, tuple[ArrayLike, ArrayLike]], test: FloatArray, truth: Labels
) -> dict[TrainedOn, tuple[FloatArray, Labels]]:
    if test.ndim != 2 or truth.shape != test.shape[:1] or truth.size == 0:
        raise ValueError(f"X_test {test.shape} and y_test {truth.shape} must hold the same rows, at least one")
    if not training_sets:
        raise ValueError("training_sets must hold at least one kind of data")
    arrays: dict[TrainedOn, tuple[FloatArray, Labels]] = {}
    for kind, (X, y) in training_sets.items():
        rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        if rows.ndim != 2 or rows.shape[1] != test.shape[1] or labels.shape != rows.shape[:1] or labels.size == 0:
            raise ValueError(
                f"training set `{kind}` has shapes {rows.shape} and {labels.shape}; "
                f"expected (n, {test.shape[1]}) and (n,) with n >= 1"
            )
        arrays[kind] = rows, labels
    sizes = {labels.size for _, labels in arrays.values()}
    if len(sizes) > 1:
        raise ValueError(f"training sets must have the same number of rows, got {sorted(sizes)}")
    return arrays


def compare_classifiers(
    training_sets: Mapping[TrainedOn, tuple[ArrayLike, ArrayLike]],
    X_test: ArrayLike,
    y_test: ArrayLike,
    names: Sequence[ClassifierName],
    *,
    kahm: Mapping[TrainedOn, KahmAnswer] | None = None,
    fitted: Mapping[tuple[ClassifierName, TrainedOn], TrainedClassifier] | None = None,
    notes: list[str] | None = None,
) -> ClassifierComparison:
    """Test every named classifier, trained on every training set, on real control rows.

    Parameters
    ----------
    training_sets : mapping of {"real", "noise-added", "fabricated"} to (X, y)
        Features in scaled units, (n_train, n_features), and labels, (n_train,). All have the same number of rows.
    X_test : array-like of shape (n_test, n_features)
        Scaled features of the control rows.
    y_test : array-like of shape (n_test,)
        Their labels.
    names : sequence of {"kahm", "nearest-neighbour", "logistic", "gradient-boosting"}
        Which classifiers, in the order of the report.
    kahm : mapping from the same to (classes, predicted, scores), default=None
        What the `kahm` classifier said of the control rows; needed if it is named. Shapes (n_classes,), (n_test,),
        (n_test, n_classes); the larger a score, the more that class, so a distance is to be negated.
    fitted : mapping from (name, kind) to TrainedClassifier, default=None
        From `train_classifiers` with the same training sets and names, if they serve something else besides; fitted
        here if left out.
    notes : list of str, default=None
        Sentences that a reader of the results must know are appended here, for the report's warnings.

    Returns
    -------
    ClassifierComparison
        Accuracies have Wilson intervals; for `macro_f1` see `macro_f1_interval`, for `auc` see `auc_interval`, with
        probabilities as scores, or minus the distance to the nearest training row of each class. `majority_accuracy` is
        the accuracy on the control rows of always answering the largest class of the members (of `real` if it is among
        the training sets, else of the first one; the first in sorted order among equally large ones).

    Raises
    ------
    ValueError
        If there is no training set, no control row, no answer of a named `kahm`, or if shapes do not agree.
    """
    test, truth = np.asarray(X_test, dtype=np.float64), np.asarray(y_test)
    arrays = _checked(training_sets, test, truth)
    models = train_classifiers(arrays, names) if fitted is None else fitted
    members = arrays["real"] if "real" in arrays else next(iter(arrays.values()))
    results = []
    for name in names:
        for kind in arrays:
            if name == "kahm":
                if kahm is None or kind not in kahm:
                    raise ValueError(f"kahm must hold an answer for `{kind}` data")
                classes, predicted, scores = (np.asarray(part) for part in kahm[kind])
            else:
                model = models[name, kind]
                classes, scores = model.classes_, model.scores(test)
                predicted = classes[scores.argmax(axis=1)]
                if notes is not None:
                    notes.extend(f"classifier {name} trained on {kind} data {remark}" for remark in model.remarks)
            results.append(
                ClassifierResult(
                    name=name,
                    trained_on=kind,
                    accuracy=wilson_interval(int(np.count_nonzero(predicted == truth)), truth.size),
                    macro_f1=macro_f1_interval(truth, predicted, seed=_RESAMPLING_SEED),
                    auc=auc_interval(truth, scores, classes, fewest=FEWEST_ROWS),
                )
            )
    return ClassifierComparison(
        train_rows=members[1].size,
        test_rows=truth.size,
        majority_accuracy=float(np.mean(truth == majority_class(members[1]))),
        results=results,
    )


def reliably_above(result: ClassifierResult, comparison: ClassifierComparison) -> bool:
    """Whether the best of several classifiers is better than always answering the largest class.

    Its interval is widened for having been picked as the best of so many (Bonferroni), since one of several worthless
    classifiers often looks better than chance.
    """
    tried = len({other.name for other in comparison.results})
    right = round(result.accuracy.estimate * comparison.test_rows)
    widened = wilson_interval(right, comparison.test_rows, 1 - (1 - result.accuracy.confidence) / tried)
    return comparison.majority_accuracy is not None and widened.lower > comparison.majority_accuracy


@dataclass(frozen=True, eq=False)
class PrivateAnswer:
    """What a private classifier says of the control rows.

    Attributes
    ----------
    name : str
    trained_on : {"fabricated", "confidential"}
    train_rows : int
    epsilon, delta : float
        At record level: of the training, or of the fabricated rows.
    classes : ndarray of shape (n_classes,)
    scores : ndarray of float64, shape (n_test, n_classes)
        The larger, the more that class.
    hyperparameters : dict
        All of them.
    chosen_on : {"defaults", "fabricated rows"}
    preprocessing_share : float
    """

    name: PrivateClassifierName
    trained_on: TrainedPrivatelyOn
    train_rows: int
    epsilon: float
    delta: float
    classes: Labels
    scores: FloatArray
    hyperparameters: Hyperparameters = field(default_factory=dict)
    chosen_on: ChosenOn = "defaults"
    preprocessing_share: float = 0.0


def private_results(answers: Sequence[PrivateAnswer], y_test: ArrayLike) -> list[PrivateClassifierResult]:
    """Accuracy, macro-F1 and area of each, with the same intervals as in `compare_classifiers`.

    Parameters
    ----------
    answers : sequence of PrivateAnswer
    y_test : array-like of shape (n_test,)

    Returns
    -------
    list of PrivateClassifierResult
    """
    truth = np.asarray(y_test)
    results = []
    for own in answers:
        predicted = own.classes[own.scores.argmax(axis=1)]
        results.append(
            PrivateClassifierResult(
                name=own.name,
                trained_on=own.trained_on,
                train_rows=own.train_rows,
                epsilon=own.epsilon,
                delta=own.delta,
                accuracy=wilson_interval(int(np.count_nonzero(predicted == truth)), truth.size),
                macro_f1=macro_f1_interval(truth, predicted, seed=_RESAMPLING_SEED),
                auc=auc_interval(truth, own.scores, own.classes, fewest=FEWEST_ROWS),
                hyperparameters=own.hyperparameters,
                chosen_on=own.chosen_on,
                preprocessing_share=own.preprocessing_share,
            )
        )
    return results


def private_not_above(comparison: ClassifierComparison) -> list[PrivateClassifierResult]:
    """Private classifiers trained on confidential rows that are not reliably better than the largest class's answer."""
    tried = [own for own in comparison.private if own.trained_on == "confidential"]
    below = []
    for own in tried:
        right = round(own.accuracy.estimate * comparison.test_rows)
        widened = wilson_interval(right, comparison.test_rows, 1 - (1 - own.accuracy.confidence) / len(tried))
        if comparison.majority_accuracy is not None and widened.lower <= comparison.majority_accuracy:
            below.append(own)
    return below
