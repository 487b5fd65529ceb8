"""Choosing hyper-parameters: privately on the confidential rows, at a price, or for free on released ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, StratifiedKFold
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from schemas.events import ApproximateEvent, Event
from schemas.learning import Adjacency, FitGuarantee
from tasks.classifiers.base import PrivateClassifier, bits_of
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.fit import refuse_unproven
from tasks.classifiers.lattice import lattice_for
from tasks.classifiers.number_checks import check_number
from tasks.classifiers.selection_law import LEAST_EPSILON, exponential_choice
from tasks.noise.bits import BitSource, draw_below

__all__ = ["PrivateGridSearch", "ReleasedSearch", "grid_search_on_released", "random_stopping_delta"]

FloatArray = NDArray[np.float64]
Method = Literal["exponential", "random-stopping"]

_LARGEST_STOPPED = 300.0  # beyond, its delta does not fit a double, and nothing is protected anyway
_RESERVED = {"epsilon", "delta", "adjacency", "random_state", "classes"}


class PrivateGridSearch(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Fit a private classifier with several settings and keep one, all within one budget.

    Parameters
    ----------
    estimator : PrivateClassifier
        Not changed.  Its own `epsilon`, `delta` and `random_state` are not used.
    param_grid : dict or list of dict
        Of lists of values by parameter, as `sklearn.model_selection.GridSearchCV` takes it; chosen without looking at
        the rows.
    epsilon : float, default=1.0
    delta : float, default=1e-5
        The budget of everything: of all fits and of the choice.
    method : {"exponential", "random-stopping"}, default="exponential"
        "exponential" fits each setting once and chooses by the exponential mechanism: better for few settings.
        "random-stopping" fits settings drawn at random, a random number of times, at a price that does not depend on
        how many there are.
    selection_share : float, default=0.1
        In (0, 1): of epsilon, what the choice costs; unused with a `validation_fraction`.
    validation_fraction : float, default=0.0
        In [0, 1).  0: wrong answers are counted on the rows that were fitted.  Above 0: each row is put aside with this
        probability, and counted there; a record then is in the fits or in the counts, and each may spend everything.
    expected_runs : int or None, default=None
        For "random-stopping": the mean number of fits, at least 1; None for twice the number of settings.
    random_state : int, RandomState or None, default=None
        As in `PrivateClassifier`.

    Attributes
    ----------
    best_estimator_ : PrivateClassifier
        Fitted; its `guarantee_` is that of the whole search.
    best_params_ : dict
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    guarantee_ : FitGuarantee or None
        None without noise, for an infinite epsilon.

    Notes
    -----
    Counts of wrong answers.  Under "add_remove" a record adds 0 or 1 to the count of each setting, a range of 1.
    Under "replace_one" it may add 1 to one and take 1 from another, a range of 2 (`exponential_choice`).

    Exponential, k settings.  The fits get (1 - s) epsilon and delta together: where they are Gaussian mechanisms, each
    has 1 / sqrt(k) of the parameter mu that these stand for (Dong, Roth, Su 2022, corollary 3.3), else a k-th part of
    both.  The choice is purely private with s epsilon.  Basic composition of the two.

    Random stopping.  A run draws a setting, fits it and adds noise to its count: Q, an (e, d)-private mechanism.  After
    each run the search ends with probability g = 1 / m, m the expected number, and gives the run with the least noisy
    count.  *The number of runs is not part of the answer, and must not be told.*  It is (3 e, D)-private with

        D = d m (1 + exp(3 e)) / (1 + exp(e)).

    Proof.  d = 0: let x be an outcome and q(x) its noisy count.  The run that is kept is x with probability

        Q(x) g / ((g + (1 - g) Q(q <= q(x))) (g + (1 - g) Q(q < q(x)))),

    from summing geometric series (of equal counts the first is kept, which is x with probability Q(x) / Q(q = q(x))).
    A neighbouring table changes Q(x), and each factor of the denominator, by factors of at most exp(e).  d > 0: there
    are laws P, P' within d / (1 + exp(e)) of Q, Q' in total variation, and within a factor exp(e) of each other (Dwork,
    Roth 2014, lemma 3.17); m runs on average make that m times as much for what the search gives, once for each table.

    Put aside.  Which rows are is decided by coins before looking at them.  If the record that differs was fitted, the
    counts are of the same rows for both tables, and the choice is post-processing; if it was put aside, the fits are
    the same.  So the larger of the two prices holds, not their sum.

    The number of runs shows in the time a search takes: do not let others measure it.

    References
    ----------
    McSherry, Talwar (2007); Liu, Talwar, "Private selection from private candidates" (STOC 2019), theorem 3.2;
    Papernot, Steinke, "Hyperparameter tuning with Renyi differential privacy" (ICLR 2022).
    """

    def __init__(
        self,
        estimator: PrivateClassifier,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        method: Method = "exponential",
        selection_share: float = 0.1,
        validation_fraction: float = 0.0,
        expected_runs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.selection_share = selection_share
        self.validation_fraction = validation_fraction
        self.expected_runs = expected_runs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit and choose privately.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is outside its range, or the estimator refuses the rows or a setting.
        """
        budget, settings = self._checked()
        checked = validate_data(self, X, y, dtype=np.float64)
        features, labels = np.asarray(checked[0]), np.asarray(checked[1])
        check_classification_targets(labels)
        bits = bits_of(self.random_state)
        classes = np.unique(labels) if self.estimator.classes is None else self.estimator.classes
        if self.estimator.classes is None and np.unique(labels).size < 2:
            raise ValueError("the search needs at least two classes, but y holds only one class")
        prepared = [
            clone(self.estimator).set_params(**setting, classes=classes, random_state=bits) for setting in settings
        ]
        fitted, counted = self._parts(len(features), bits)
        if not fitted.any() or not counted.any():
            raise ValueError(
                f"validation_fraction={self.validation_fraction!r} left {np.count_nonzero(fitted)} rows to fit and "
                f"{np.count_nonzero(counted)} to count on; it needs more rows"
            )
        rows = _Rows(features[fitted], labels[fitted], features[counted], labels[counted])
        search = self._exponential if self.method == "exponential" else self._random_stopping
        chosen, best, events, proof = search(prepared, rows, budget, bits)
        best.set_params(epsilon=self.epsilon, delta=self.delta, classes=self.estimator.classes, random_state=None)
        refuse_unproven("PrivateGridSearch", events, budget)
        self.best_estimator_ = best
        self.best_params_ = settings[chosen]
        self.classes_ = best.classes_
        self.guarantee_ = None
        if best.guarantee_ is not None:
            inner = best.guarantee_
            self.guarantee_ = FitGuarantee(
                epsilon=budget.epsilon,
                delta=budget.delta,
                adjacency=inner.adjacency,
                mechanism=f"one of {len(settings)} settings, chosen privately, of {inner.mechanism}",
                proof=f"{proof}; each fit: {inner.proof}",
                events=events,
                randomness=inner.randomness,
                assumptions=[*self._assumptions(), *inner.assumptions],
            )
        best.guarantee_, best._sampled = self.guarantee_, None
        return self

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Scores of the chosen classifier; see `PrivateClassifier.decision_function`."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(validate_data(self, X, dtype=np.float64, reset=False))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Classes by the chosen classifier."""
        check_is_fitted(self)
        return self.best_estimator_.predict(validate_data(self, X, dtype=np.float64, reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    # --- the two methods ------------------------------------------------------------------------------------------

    def _exponential(
        self, prepared: list[PrivateClassifier], rows: _Rows, budget: PrivacyBudget, bits: BitSource
    ) -> tuple[int, PrivateClassifier, list[Event], str]:
        k, (fit_epsilon, choice_epsilon) = len(prepared), self._epsilons(budget.epsilon)
        gaussian = not budget.is_pure and all(_is_gaussian(one) for one in prepared)
        each = _part(PrivacyBudget(fit_epsilon, budget.delta), k, gaussian)
        for one in prepared:
            one.set_params(epsilon=each.epsilon, delta=each.delta).fit(rows.fitted, rows.fitted_labels)
        events = [event for one in prepared if one.guarantee_ is not None for event in one.guarantee_.events]
        if (
            gaussian
            and not budget.is_infinite
            and not (_total_mu(events) <= PrivacyBudget(fit_epsilon, budget.delta).mu * (1.0 + 1e-9))
        ):
            raise ArithmeticError("the fits are not the Gaussian mechanisms that they were taken for; nothing is kept")
        wrong = [rows.wrong(one) for one in prepared]
        chosen = exponential_choice(wrong, _range_bound(self.estimator.adjacency), choice_epsilon, bits)
        if self.validation_fraction:
            whole: list[Event] = [] if budget.is_infinite else [budget.as_approximate()]
            proof = "a record is fitted or put aside, and each part spends at most the whole budget"
        else:
            whole = [*events, ApproximateEvent(epsilon=choice_epsilon, delta=0.0)] if events else []
            proof = "composition of the fits and the choice"
        how = "mu^2 adds over the fits" if gaussian else "epsilon and delta add over the fits"
        return chosen, prepared[chosen], whole, f"{proof}; {how}; exponential mechanism over counts of wrong answers"

    def _random_stopping(
        self, prepared: list[PrivateClassifier], rows: _Rows, budget: PrivacyBudget, bits: BitSource
    ) -> tuple[int, PrivateClassifier, list[Event], str]:
        mean_runs = 2 * len(prepared) if self.expected_runs is None else int(self.expected_runs)
        run_epsilon = budget.epsilon / 3.0
        fit_epsilon, count_epsilon = self._epsilons(run_epsilon)
        delta = budget.delta / random_stopping_delta(run_epsilon, 1.0, mean_runs) if budget.delta else 0.0
        best: tuple[float, int, PrivateClassifier] | None = None
        while best is None or _below(mean_runs, bits):
            number = _below(len(prepared), bits)
            one = clone(prepared[number]).set_params(epsilon=fit_epsilon, delta=delta, random_state=bits)
            one.fit(rows.fitted, rows.fitted_labels)
            count = float(rows.wrong(one))
            if not budget.is_infinite:
                count = float(lattice_for(1, 1.0, 1.0 / count_epsilon).add_norm_noise([count], count_epsilon, bits)[0])
            if best is None or count < best[0]:
                best = count, number, one
        whole: list[Event] = [] if budget.is_infinite else [budget.as_approximate()]
        proof = f"random stopping after {mean_runs} runs on average: three times the price of a run (Liu, Talwar 2019)"
        return best[1], best[2], whole, proof

    def _epsilons(self, epsilon: float) -> tuple[float, float]:
        """For fits, and for the choice or the count."""
        if self.validation_fraction or math.isinf(epsilon):
            return epsilon, epsilon
        share = float(self.selection_share)
        return (1.0 - share) * epsilon, share * epsilon

    def _parts(self, n: int, bits: BitSource) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows are fitted and which are counted on."""
        everything = np.ones(n, dtype=bool)
        if not self.validation_fraction:
            return everything, everything
        aside = draw_below(np.full(n, 2**32, dtype=np.int64), bits) < round(float(self.validation_fraction) * 2**32)
        return ~aside, aside

    # --- checks ---------------------------------------------------------------------------------------------------

    def _checked(self) -> tuple[PrivacyBudget, list[dict[str, Any]]]:
        if not isinstance(self.estimator, PrivateClassifier):
            raise ValueError(f"estimator must be a private classifier, got {type(self.estimator).__name__}")
        if self.method not in ("exponential", "random-stopping"):
            raise ValueError(f"method must be 'exponential' or 'random-stopping', got method={self.method!r}")
        budget = PrivacyBudget(self.epsilon, self.delta)
        share, fraction, runs = self.selection_share, self.validation_fraction, self.expected_runs
        check_number("selection_share", share, "(0, 1)")
        check_number("validation_fraction", fraction, "[0, 1)")
        if self.method == "random-stopping" and not (budget.is_infinite or budget.epsilon <= _LARGEST_STOPPED):
            raise ValueError(
                f"random stopping takes an epsilon of at most {_LARGEST_STOPPED:g}, got epsilon={self.epsilon!r}"
            )
        if runs is not None and (isinstance(runs, bool) or not isinstance(runs, int | np.integer) or runs < 1):
            raise ValueError(f"expected_runs must be a whole number of at least 1, got expected_runs={runs!r}")
        settings = _settings(self.param_grid)
        least = self._epsilons(budget.epsilon)[1] / (3.0 if self.method == "random-stopping" else 1.0)
        if least < LEAST_EPSILON:
            raise ValueError(f"the choice would get an epsilon below 2^-16, got epsilon={self.epsilon!r}")
        return budget, settings

    def _assumptions(self) -> list[str]:
        assumed = ["the settings that were tried are public"]
        if self.validation_fraction and self.estimator.adjacency == "add_remove":
            assumed.append("how many rows were put aside is public, as scales follow from how many were fitted")
        if self.estimator.classes is None:
            assumed.append("which classes there are is public")
        if self.method == "random-stopping":
            assumed.append("the number of runs, or the time they took, is not told")
        return assumed


def random_stopping_delta(epsilon: float, delta: float, expected_runs: float) -> float:
    """The delta of a search by random stopping whose runs are (epsilon, delta)-private, at 3 epsilon.

    Parameters
    ----------
    epsilon, delta : float
        Of one run, epsilon at least 0.
    expected_runs : float
        At least 1.

    Returns
    -------
    float
        delta m (1 + exp(3 epsilon)) / (1 + exp(epsilon)), rounded up; see `PrivateGridSearch`.
    """
    if math.isinf(epsilon):
        return delta
    ratio = math.exp(2.0 * epsilon) * (1.0 + math.exp(-3.0 * epsilon)) / (1.0 + math.exp(-epsilon))
    return delta * expected_runs * ratio * (1.0 + 2.0**-40)


@dataclass(frozen=True)
class ReleasedSearch:
    """What a search on released rows found.

    Attributes
    ----------
    best_params : dict
        The setting with the highest mean accuracy; among equal ones the first.
    params : list of dict
    accuracies : list of float
        Of each setting, means over folds and repeats.
    """

    best_params: dict[str, Any]
    params: list[dict[str, Any]]
    accuracies: list[float]


def grid_search_on_released(
    estimator: PrivateClassifier,
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_splits: int = 5,
    repeats: int = 1,
    random_state: int | None = 0,
) -> ReleasedSearch:
    """Choose hyper-parameters by cross-validation on rows that anybody may read: it costs nothing.

    Parameters
    ----------
    estimator : PrivateClassifier
        With the budget of the fit that is to come, so that each setting is judged with its own noise.  Not changed.
    param_grid : dict or list of dict
    X : array-like of shape (n_samples, n_features)
        Fabricated, or otherwise public.  **Never confidential rows: nothing here protects them.**  About as many as the
        confidential ones, since the noise counts against the number of rows.
    y : array-like of shape (n_samples,)
    n_splits : int, default=5
        Folds; each class needs so many rows.
    repeats : int, default=1
        Fits per fold, with new noise.
    random_state : int or None, default=0
        Of the folds; the noise is the estimator's own.

    Returns
    -------
    ReleasedSearch

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise ValueError(f"repeats must be a whole number of at least 1, got repeats={repeats!r}")
    settings = _settings(param_grid)
    features, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
    folds = list(StratifiedKFold(n_splits, shuffle=True, random_state=random_state).split(features, labels))
    accuracies = []
    for setting in settings:
        scores = [
            float(clone(estimator).set_params(**setting).fit(features[a], labels[a]).score(features[b], labels[b]))
            for a, b in folds
            for _ in range(repeats)
        ]
        accuracies.append(float(np.mean(scores)))
    return ReleasedSearch(settings[int(np.argmax(accuracies))], settings, accuracies)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows to fit to, and rows to count wrong answers on."""

    fitted: FloatArray
    fitted_labels: NDArray[Any]
    counted: FloatArray
    counted_labels: NDArray[Any]

    def wrong(self, classifier: PrivateClassifier) -> int:
        if not len(self.counted):
            return 0
        return int(np.count_nonzero(classifier.predict(self.counted) != self.counted_labels))


def _settings(param_grid: Any) -> list[dict[str, Any]]:
    settings = [dict(setting) for setting in ParameterGrid(param_grid)]
    reserved = sorted({name for setting in settings for name in setting} & _RESERVED)
    if not settings or reserved:
        raise ValueError(f"param_grid must hold at least one setting, and none of {reserved or sorted(_RESERVED)}")
    return settings


def _below(width: int, bits: BitSource) -> int:
    return int(draw_below(np.array([width], dtype=np.int64), bits)[0])


def _range_bound(adjacency: Adjacency) -> float:
    """Of the counts' differences between neighbours, the largest less the smallest."""
    return 2.0 if adjacency == "replace_one" else 1.0


def _is_gaussian(estimator: PrivateClassifier) -> bool:
    """Whether all that a fit runs are Gaussian mechanisms; where delta is above 0."""
    return bool(estimator._gaussian)


def _part(budget: PrivacyBudget, k: int, gaussian: bool) -> PrivacyBudget:
    """What each of k fits may spend."""
    if budget.is_infinite or k == 1:
        return budget
    if not gaussian:
        return budget.share((1.0 - 2.0**-40) / k)
    return PrivacyBudget.of_mu(budget.mu / math.sqrt(k), budget.delta)


def _total_mu(events: Sequence[Event]) -> float:
    return math.sqrt(math.fsum(e.count / e.noise_multiplier**2 if e.kind == "gaussian" else math.inf for e in events))
