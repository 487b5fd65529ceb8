"""Fit the audit's classifiers, each once; what they say of rows serves the comparison and the attacks alike.

All see the same scaled features. `nearest-neighbour` is the most local learner there is and reacts strongly to noise,
`logistic` is a global linear one, `gradient-boosting` a global one that finds interactions by itself.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.measures import TrainedOn
from schemas.spec import ClassifierName
from tasks.audit.density_difference import FloatArray

Labels = NDArray[Any]
Scores = Callable[[FloatArray], FloatArray]
LOGISTIC_ITERATIONS = 5000
BOOSTING_TREES = 400
"""Trees of gradient boosting at most, over all classes: every iteration grows one for each class, for two only one."""
BOOSTING_ITERATIONS = 100
_SEED = 20240611
"""Of gradient boosting's choice of bin edges in large tables; public, and no part of any guarantee."""


@dataclass(frozen=True, eq=False)
class TrainedClassifier:
    """A fitted classifier.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes of the training data, sorted.
    scores : callable
        From scaled features (n_rows, n_features) to float64 (n_rows, n_classes): the larger, the more that class.
    probabilities : bool
        Whether the scores are the classes' probabilities.
    remarks : tuple of str
        What a reader of the results must know, each in words that follow `classifier ... trained on ... data`.
    """

    classes_: Labels
    scores: Scores
    probabilities: bool
    remarks: tuple[str, ...] = ()

    def predict(self, X: ArrayLike) -> Labels:
        """The class with the highest score of each row; among equal ones the first in sorted order."""
        answers: Labels = self.classes_[self.scores(np.asarray(X, dtype=np.float64)).argmax(axis=1)]
        return answers

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probabilities of the classes, shape (n_rows, n_classes), in the order of `classes_`.

        Raises
        ------
        ValueError
            If the classifier has none.
        """
        if not self.probabilities:
            raise ValueError("X has no probabilities: the scores of this classifier are distances")
        return self.scores(np.asarray(X, dtype=np.float64))


def _fit_nearest(X: FloatArray, y: Labels) -> TrainedClassifier:
    from sklearn.neighbors import NearestNeighbors

    classes = np.unique(y)
    searches = [NearestNeighbors(n_neighbors=1).fit(X[y == label]) for label in classes]
    return TrainedClassifier(
        classes, lambda rows: -np.column_stack([search.kneighbors(rows)[0][:, 0] for search in searches]), False
    )


def _fit_logistic(X: FloatArray, y: Labels) -> TrainedClassifier:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=LOGISTIC_ITERATIONS))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    for warning in caught:
        if not issubclass(warning.category, ConvergenceWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    unfinished = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    remark = f"had not converged after {LOGISTIC_ITERATIONS} iterations: its accuracy is that of an unfinished fit"
    return TrainedClassifier(model.classes_, model.predict_proba, True, (remark,) if unfinished else ())


def boosting_iterations(n_classes: int) -> int:
    """`BOOSTING_ITERATIONS`, or for many classes as few as grow `BOOSTING_TREES` trees; at least one."""
    trees = 1 if n_classes <= 2 else n_classes
    return max(1, min(BOOSTING_ITERATIONS, BOOSTING_TREES // trees))


def _fit_boosting(X: FloatArray, y: Labels) -> TrainedClassifier:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    model = HistGradientBoostingClassifier(
        max_iter=boosting_iterations(np.unique(y).size), early_stopping=False, random_state=_SEED
    )

    def probabilities(rows: FloatArray) -> FloatArray:
        with threadpool_limits(1, user_api="openmp"):
            return np.asarray(model.predict_proba(rows), dtype=np.float64)

    # A limit set by the caller would not hold: OpenMP is loaded by the import above, and counts by calling thread.
    with threadpool_limits(1, user_api="openmp"):
        model.fit(X, y)
    return TrainedClassifier(model.classes_, probabilities, True)


_FIT: dict[ClassifierName, Callable[[FloatArray, Labels], TrainedClassifier]] = {
    "nearest-neighbour": _fit_nearest,
    "logistic": _fit_logistic,
    "gradient-boosting": _fit_boosting,
}


def train_classifiers(
    training_sets: Mapping[TrainedOn, tuple[ArrayLike, ArrayLike]], names: Sequence[ClassifierName]
) -> dict[tuple[ClassifierName, TrainedOn], TrainedClassifier]:
    """Fit every named classifier but `kahm` on every training set.

    Parameters
    ----------
    training_sets : mapping of {"real", "noise-added", "fabricated"} to (X, y)
        Features in scaled units, (n_train, n_features), and labels, (n_train,); at least one row.
    names : sequence of {"kahm", "nearest-neighbour", "logistic", "gradient-boosting"}
        `kahm` is passed over: whoever attacks it has fitted it already.

    Returns
    -------
    dict from (name, kind) to TrainedClassifier

    Raises
    ------
    ValueError
        If shapes do not agree.

    Notes
    -----
    `logistic` standardises the features on its own training data and uses scikit-learn's default ridge.
    `gradient-boosting` is scikit-learn's `HistGradientBoostingClassifier` without early stopping, so that it is the
    same whatever rows would be held out, and with `boosting_iterations`; it keeps to one thread, when fitted and when
    asked. If training data hold a single class, the classifier answers that class with probability 1.
    """
    fitted: dict[tuple[ClassifierName, TrainedOn], TrainedClassifier] = {}
    for name in names:
        if name == "kahm":
            continue
        for kind, (X, y) in training_sets.items():
            rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
            if rows.ndim != 2 or labels.shape != rows.shape[:1] or labels.size == 0:
                raise ValueError(f"training set `{kind}` has shapes {rows.shape} and {labels.shape}")
            if name != "nearest-neighbour" and (labels == labels[0]).all():
                fitted[name, kind] = TrainedClassifier(labels[:1], lambda asked: np.ones((len(asked), 1)), True)
            else:
                fitted[name, kind] = _FIT[name](rows, labels)
    return fitted
