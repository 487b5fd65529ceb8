"""Train on one kind of data, test on real rows: what the release is good for, beside what it costs.

The three classifiers see the same scaled features and are tested on the same control rows. `kahm` is the seed paper's,
`nearest-neighbour` is the most local learner there is and reacts strongly to noise, `logistic` is a global one.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.audit import ClassifierComparison, ClassifierResult, TrainedOn
from schemas.spec import ClassifierName
from tasks.audit.utility import wilson_interval

Labels = NDArray[Any]
Predictor = Callable[[NDArray[np.float64]], Labels]
LOGISTIC_ITERATIONS = 5000


def macro_f1(y_true: ArrayLike, y_predicted: ArrayLike) -> float:
    """Mean of the classes' F1 scores, every class that occurs among the true labels counting the same.

    Parameters
    ----------
    y_true, y_predicted : array-like of shape (n_rows,)

    Returns
    -------
    float
        A class that is never predicted scores 0. A class that is predicted but has no test row is no term of the mean;
        the wrong answers lower the scores of the classes they were taken from.
    """
    true, predicted = np.asarray(y_true), np.asarray(y_predicted)
    scores = []
    for label in np.unique(true):
        hits = np.count_nonzero((true == label) & (predicted == label))
        scores.append(2 * hits / (np.count_nonzero(true == label) + np.count_nonzero(predicted == label)))
    return float(np.mean(scores))


def majority_class(y: ArrayLike) -> Any:
    """The most frequent label; among equally frequent ones the first in sorted order."""
    labels, counts = np.unique(np.asarray(y), return_counts=True)
    return labels[np.argmax(counts)]


def _fit_nearest(X: NDArray[np.float64], y: Labels, notes: list[str]) -> Predictor:
    from sklearn.neighbors import KNeighborsClassifier

    predict: Predictor = KNeighborsClassifier(n_neighbors=1).fit(X, y).predict
    return predict


def _fit_logistic(X: NDArray[np.float64], y: Labels, notes: list[str]) -> Predictor:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if np.unique(y).size == 1:
        return lambda rows: np.full(len(rows), y[0], dtype=y.dtype)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=LOGISTIC_ITERATIONS))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    for warning in caught:
        if not issubclass(warning.category, ConvergenceWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
        notes.append(
            f"had not converged after {LOGISTIC_ITERATIONS} iterations: its accuracy is that of an unfinished fit"
        )
    predict: Predictor = model.predict
    return predict


_FIT: dict[ClassifierName, Callable[[NDArray[np.float64], Labels, list[str]], Predictor]] = {
    "nearest-neighbour": _fit_nearest,
    "logistic": _fit_logistic,
}


def compare_classifiers(
    training_sets: Mapping[TrainedOn, tuple[ArrayLike, ArrayLike]],
    X_test: ArrayLike,
    y_test: ArrayLike,
    names: Sequence[ClassifierName],
    *,
    kahm: Mapping[TrainedOn, ArrayLike] | None = None,
    notes: list[str] | None = None,
) -> ClassifierComparison:
    """Train every named classifier on every training set and test it on real control rows.

    Parameters
    ----------
    training_sets : mapping of {"real", "noise-added", "fabricated"} to (X, y)
        Features in scaled units, (n_train, n_features), and labels, (n_train,). All have the same number of rows.
    X_test : array-like of shape (n_test, n_features)
        Scaled features of the control rows.
    y_test : array-like of shape (n_test,)
        Their labels.
    names : sequence of {"kahm", "nearest-neighbour", "logistic"}
        Which classifiers, in the order of the report.
    kahm : mapping from the same to array-like of shape (n_test,), default=None
        What the `kahm` classifier answered on the control rows; needed if it is named. An attack needs its distances
        besides, so whoever has these has the answers.
    notes : list of str, default=None
        Sentences that a reader of the results must know are appended here, for the report's warnings.

    Returns
    -------
    ClassifierComparison
        Accuracies have Wilson intervals; for `macro_f1` see the function of that name. `majority_accuracy` is the
        accuracy on the control rows of always answering the largest class of the members (of `real` if it is among
        the training sets, else of the first one; the first in sorted order among equally large ones).

    Raises
    ------
    ValueError
        If there is no training set, no control row, or if shapes do not agree.

    Notes
    -----
    `logistic` standardises the features on its own training data and uses scikit-learn's default ridge. If training
    data hold a single class, it answers that class, as the other two do.
    """
    test, truth = np.asarray(X_test, dtype=np.float64), np.asarray(y_test)
    if test.ndim != 2 or truth.shape != test.shape[:1] or truth.size == 0:
        raise ValueError(f"X_test {test.shape} and y_test {truth.shape} must hold the same rows, at least one")
    if not training_sets:
        raise ValueError("training_sets must hold at least one kind of data")
    arrays: dict[TrainedOn, tuple[NDArray[np.float64], Labels]] = {}
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
    members = arrays["real"] if "real" in arrays else next(iter(arrays.values()))
    results = []
    for name in names:
        for kind, (rows, labels) in arrays.items():
            remarks: list[str] = []
            predicted = np.asarray((kahm or {})[kind]) if name == "kahm" else _FIT[name](rows, labels, remarks)(test)
            results.append(
                ClassifierResult(
                    name=name,
                    trained_on=kind,
                    accuracy=wilson_interval(int(np.count_nonzero(predicted == truth)), truth.size),
                    macro_f1=macro_f1(truth, predicted),
                )
            )
            if notes is not None:
                notes.extend(f"classifier {name} trained on {kind} data {remark}" for remark in remarks)
    return ClassifierComparison(
        train_rows=sizes.pop(),
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
    return widened.lower > comparison.majority_accuracy
