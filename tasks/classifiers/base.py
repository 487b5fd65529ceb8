"""The frame of every private classifier: checks, enforced bounds, what a fit may spend, and what it then guarantees."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from schemas.events import Event, GaussianEvent
from schemas.learning import Adjacency, FitGuarantee
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.exact_rows import directions_and_lengths, on_weight_grid
from tasks.classifiers.fit import Fit, refuse_unproven
from tasks.classifiers.number_checks import check_flag, check_number
from tasks.classifiers.row_map import NormRule, RowMap, bounds_of
from tasks.classifiers.standardization import private_standardization
from tasks.noise.bits import BitSource, OperatingSystemBits, SeededBits

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["PrivateClassifier", "bits_of"]

_MOST_CELLS = 2**52
_PREPARED = "noisy means and scales of the features, then "

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def bits_of(random_state: Any) -> BitSource:
    """The source of a fit's randomness: the operating system's for None, a repeatable one for a seed.

    Raises
    ------
    ValueError
        If `random_state` is something else.
    """
    if random_state is None:
        return OperatingSystemBits()
    if isinstance(random_state, BitSource):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return SeededBits(int(random_state.randint(2**31 - 1)))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return SeededBits(int(random_state))
    raise ValueError(
        f"random_state must be None (the operating system's generator), or for tests a seed of at least 0, got "
        f"random_state={random_state!r}"
    )


def _sorted(name: str, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The distinct ones of some labels in sorted order, and each one's place among them."""
    try:
        distinct, places = np.unique(labels, return_inverse=True)
    except TypeError:
        raise ValueError(f"{name} must hold labels of one kind that can be sorted, as numbers or as strings") from None
    if distinct.dtype.kind == "f" and np.isnan(distinct).any():
        raise ValueError(f"{name} holds NaN, which is no class")
    return distinct, places


class PrivateClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base class of the private classifiers; see each of them for its own parameters.

    Parameters
    ----------
    epsilon : float, default=1.0
        Above 0.  Infinite: fitted without noise, for data that are released already; then `guarantee_` is None.
    delta : float
        In [0, 1).
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Which tables are neighbours.  Releases and the ledger use "replace_one".
    data_norm : float or None
        Rows are brought to Euclidean norms of at most this, after `feature_bounds` and standardisation.  None, where
        the algorithm bounds each record's gradient instead, leaves them as they are.
    norm_rule : {"clip", "normalize"}, default="clip"
        Longer rows are shortened, or all rows get the norm.
    fit_intercept : bool, default=True
        Append a constant to each row; it counts in the norm and is regularised like a weight.
    classes : array-like or None, default=None
        The classes, as public knowledge.  None: those that occur in `y` count as public.
    feature_bounds : pair of float or of array-like of shape (n_features,), default=None
        Public bounds: features are clipped to them and mapped to [-1, 1].
    preprocessing_share : float, default=0.0
        0, or in [0.001, 0.999]: the part of the budget that buys noisy means and scales of the features, by which they
        are standardised before `data_norm`.  Needs `feature_bounds` and delta above 0.
    n_jobs : None
        Anything else is refused: a fit is a sequence of steps of which each needs the one before.
    random_state : int, RandomState or None, default=None
        None: bits of the operating system.  A seed makes the fit repeatable and **not private**, and
        `guarantee_.randomness` says so.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of float64, shape (1, n_features) for two classes, else (n_classes, n_features)
        Of the rows as `row_map_` makes them, not of the raw features.
    intercept_ : ndarray of float64, shape (1,) or (n_classes,)
    row_map_ : RowMap
        From features to rows; public or released numbers only.
    guarantee_ : FitGuarantee or None
    n_features_in_ : int

    Notes
    -----
    The guarantee is about `fit` alone and covers everything that the fitted estimator holds.  What it assumes: the
    bounds, norms, classes and parameters were chosen without looking at the rows, and under "add_remove" their number
    counts as public where it sets a scale.  Errors about the rows (NaN, unknown labels, a single class, a solver that
    did not get near enough to a minimum) and the time that a fit takes tell something about them and are for whoever
    holds them.
    """

    _delta_needed: ClassVar[str] = ""
    """Why delta must be above 0; empty where 0 is allowed."""
    _needs_norm: ClassVar[str] = ""
    """Why `data_norm` must not be None; empty where it may be."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    data_norm: float | None
    norm_rule: NormRule
    fit_intercept: bool
    classes: ArrayLike | None
    feature_bounds: Any
    preprocessing_share: float
    n_jobs: None
    random_state: Any

    # --- for subclasses -------------------------------------------------------------------------------------------

    @property
    def _gaussian(self) -> bool:
        """Whether all that is run is Gaussian, which composes with the preprocessing's exactly; samples are not."""
        return bool(getattr(self, "sampling_probability", 1.0) == 1.0)

    @abstractmethod
    def _fit_rows(
        self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        """Fit to rows (n, d) with labels 0, ..., n_classes - 1; spend at most `budget`."""

    def _refuse_numbers(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> None:
        """Refuse, by a ValueError, what `_fit_rows` cannot do with a table of this size, whatever it holds.

        Neither memory nor time may grow much with `n_records`. `n_columns` counts the constant of the intercept.
        """

    # --- the estimator --------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: None = None) -> Self:
        """Fit privately.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers.
        y : array-like of shape (n_samples,)
            Classes.
        sample_weight : None
            Anything else is refused.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter is outside its range, or `refuse_size` refuses the table's; nothing was drawn
            then. Or the weights overflowed, by settings that are too large: that tells nothing which the budget has not
            paid for, and nothing is kept.
        """
        budget = self._checked(sample_weight)
        checked = validate_data(self, X, y, dtype=np.float64)
        features: FloatArray = checked[0]
        check_classification_targets(checked[1])
        classes, labels = self._coded(np.asarray(checked[1]))
        bits = bits_of(self.random_state)
        bounds = bounds_of(self.feature_bounds, features.shape[1]) or (None, None)
        row_map = RowMap(
            lower=bounds[0],
            upper=bounds[1],
            norm=None if self.data_norm is None else float(self.data_norm),
            rule=self.norm_rule,
            intercept=bool(self.fit_intercept),
        )
        events: list[Event] = []
        first, own = self._shared_out(budget)
        n_columns = features.shape[1] + bool(self.fit_intercept)
        self._refuse_numbers(len(features), n_columns, len(classes), own)
        if self.preprocessing_share:
            mu = first.mu if not self._gaussian else math.sqrt(self.preprocessing_share) * budget.mu
            size: int | None = getattr(self, "public_size", None)
            centre, scale = private_standardization(row_map.bounded(features), mu, self.adjacency, bits, size)
            row_map = RowMap(row_map.lower, row_map.upper, centre, scale, row_map.norm, row_map.rule, row_map.intercept)
            if not budget.is_infinite:
                events.append(GaussianEvent(noise_multiplier=1.0 / mu))
        fit = self._fit_rows(row_map.rows(features), labels, len(classes), own, bits)
        refuse_unproven(type(self).__name__, [*events, *fit.events], budget)
        if not np.isfinite(fit.weights).all():
            raise ValueError(
                f"{type(self).__name__}: the weights overflowed; nothing is kept. Choose smaller steps, radius or "
                "regularization"
            )
        for name in self.__dict__.get("_attributes", ()):  # of another fit, with other settings
            self.__dict__.pop(name, None)
        self.classes_, self.row_map_ = classes, row_map
        self._set_weights(fit.weights)
        for name, value in fit.attributes.items():
            setattr(self, name, value)
        self._attributes, self._sampled = list(fit.attributes), fit.sampled
        self.guarantee_ = (
            None
            if budget.is_infinite
            else FitGuarantee(
                epsilon=budget.epsilon,
                delta=0.0 if fit.pure and not events else budget.delta,
                adjacency=self.adjacency,
                mechanism=f"{_PREPARED}{fit.mechanism}" if events else fit.mechanism,
                proof=f"{fit.proof}; composed with the means and scales" if events else fit.proof,
                events=[*events, *fit.events],
                randomness=bits.label,
                assumptions=self._assumptions(),
            )
        )
        return self

    def _shared_out(self, budget: PrivacyBudget) -> tuple[PrivacyBudget, PrivacyBudget]:
        """The preprocessing's part and the rest: by squares of mu where all is Gaussian, else by basic composition."""
        share = float(self.preprocessing_share)
        if not share or budget.is_infinite:
            return budget, budget
        if not self._gaussian:
            return budget.share(share), budget.share(1.0 - share)
        return budget, PrivacyBudget.of_mu(math.sqrt(1.0 - share) * budget.mu, budget.delta)

    def refuse_size(self, n_records: int, n_features: int) -> None:
        """Refuse what `fit` refuses of every table of this size: by public numbers alone, where n is public.

        Parameters
        ----------
        n_records, n_features : int
            At least 1. Neither memory nor time grows much with the number of records.

        Raises
        ------
        ValueError
            If a parameter is outside its range, `classes` is None, or the table's size is too large or too small for
            this estimator and budget.
        """
        budget = self._checked(None)
        if self.classes is None:
            raise ValueError("classes must be named: without them their number is not known before there are rows")
        named = np.asarray(self.classes)
        bounds_of(self.feature_bounds, n_features)
        if n_records * n_features > _MOST_CELLS:
            raise ValueError(f"no memory holds {n_records} rows of {n_features} features")
        n_columns = n_features + bool(self.fit_intercept)
        self._refuse_numbers(n_records, n_columns, len(self._coded(named)[0]), self._shared_out(budget)[1])

    def _set_weights(self, weights: FloatArray) -> None:
        if self.fit_intercept:
            self.coef_, constant = weights[:, :-1], weights[:, -1]
            # the constant that was appended to each row
            self.intercept_ = constant * (1.0 if self.data_norm is None else math.sqrt(0.5))
        else:
            self.coef_, self.intercept_ = weights, np.zeros(len(weights))

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Score of each class; for two classes the score of the second over the first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64, shape (n_samples,) for two classes, else (n_samples, n_classes)

        Notes
        -----
        Rows and weights are rounded to grids (`exact_rows`), which changes a score by some 1e-7 of their sizes, so that
        no row's score depends on the rows asked with it: a private choice counts answers, and its counts must not move
        in the last bits of other rows' scores.
        """
        check_is_fitted(self)
        features: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        rows = self.row_map_.rows(features)
        directions, lengths = directions_and_lengths(rows[:, :-1] if self.fit_intercept else rows)
        with np.errstate(over="ignore"):
            scores: FloatArray = (directions @ on_weight_grid(self.coef_).T) * lengths[:, None] + self.intercept_
        if len(self.classes_) > 2:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class with the highest score; among equal ones the first. It depends on no other row of `X`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        chosen = (scores > 0.0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        answers: NDArray[Any] = self.classes_[chosen]
        return answers

    @property
    def dp_event_(self) -> DpEvent:
        """What was run, for dp_accounting; see `dp_event_of` for which accountant prices it exactly."""
        from tasks.classifiers.dp_events import dp_event_of

        check_is_fitted(self)
        return dp_event_of(() if self.guarantee_ is None else self.guarantee_.events, self._sampled, self.adjacency)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # noise may cost any accuracy
        return tags

    # --- checks ---------------------------------------------------------------------------------------------------

    def _checked(self, sample_weight: Any) -> PrivacyBudget:
        """The budget, after every check that needs no row."""
        name = type(self).__name__
        if sample_weight is not None:
            raise ValueError(
                f"{name} takes no sample_weight: a record's weight multiplies its part in what is released, and the "
                "noise is for records that all count alike; leave it out"
            )
        if self.n_jobs is not None:
            raise ValueError(
                f"{name} takes no n_jobs: each step of a fit needs the one before. Set the threads of the BLAS library "
                "instead"
            )
        budget = PrivacyBudget(self.epsilon, self.delta)
        if self.adjacency not in ("replace_one", "add_remove"):
            raise ValueError(f"adjacency must be 'replace_one' or 'add_remove', got adjacency={self.adjacency!r}")
        if self.norm_rule not in ("clip", "normalize"):
            raise ValueError(f"norm_rule must be 'clip' or 'normalize', got norm_rule={self.norm_rule!r}")
        if self._delta_needed and budget.is_pure and not budget.is_infinite:
            raise ValueError(f"{name} needs delta above 0, got delta=0: {self._delta_needed}")
        if self.data_norm is None:
            if self._needs_norm:
                raise ValueError(f"{name} needs a data_norm: {self._needs_norm}")
        else:
            check_number("data_norm", self.data_norm, "[1e-100, 1e100]")
        check_flag("fit_intercept", self.fit_intercept)
        share = check_number("preprocessing_share", self.preprocessing_share, "[0, 1)")
        if share and not 1e-3 <= share <= 0.999:
            raise ValueError(f"preprocessing_share must be 0, or in [0.001, 0.999], got preprocessing_share={share!r}")
        if share and self.feature_bounds is None:
            raise ValueError("preprocessing_share needs feature_bounds: the noise on a mean follows from public bounds")
        if share and budget.is_pure and not budget.is_infinite:
            raise ValueError("preprocessing_share needs delta above 0: means and scales get Gaussian noise")
        return budget

    def _coded(self, y: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
        """The classes in sorted order, and each label's place among them."""
        if self.classes is None:
            classes, labels = _sorted("y", y)
            if classes.size < 2:
                raise ValueError(
                    f"{type(self).__name__} needs at least two classes, but y holds only one class; if others are "
                    "possible, name all of them with classes=[...]"
                )
            return classes, labels.astype(np.int64)
        named = np.asarray(self.classes)
        if named.ndim != 1:
            raise ValueError(f"classes must be a list of classes, got shape {named.shape}")
        classes, _ = _sorted("classes", named)
        if classes.size < 2:
            raise ValueError(f"classes must name at least two classes, got {classes.size}")
        labels = np.searchsorted(classes, y)
        known = labels < classes.size
        known[known] = classes[labels[known]] == y[known]
        if not known.all():
            raise ValueError(f"y holds {np.count_nonzero(~known)} labels that are not among classes")
        return classes, labels.astype(np.int64)

    def _assumptions(self) -> list[str]:
        """What must be public for the guarantee to hold."""
        assumed = []
        if self.classes is None:
            assumed.append("which classes there are is public")
        if self.feature_bounds is not None:
            assumed.append("the bounds of the features are public")
        if self.adjacency == "add_remove":
            assumed.append(
                "the number of records is public, exactly: noise scales and learning rates follow from it, and what is "
                "claimed is about what is released beside it"
            )
        return assumed
