"""From expected to high-probability accuracy: several private runs, and a private choice of the best (appendix D)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import column_or_1d

from schemas.events import ApproximateEvent, Event, GaussianEvent
from schemas.learning import Adjacency, FitGuarantee
from tasks.classifiers.base import PrivateClassifier, bits_of
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.certified import largest_size
from tasks.classifiers.dual import UNIT_ROUNDOFF
from tasks.classifiers.fit import refuse_unproven
from tasks.classifiers.losses import MarginLoss, margin_loss
from tasks.classifiers.output_perturbation import parts_of
from tasks.classifiers.range_bounds import regularization_of
from tasks.classifiers.risks import EmpiricalRisk, MarginRisk, SquaredDistance, signs_of, total_strong_convexity
from tasks.classifiers.selection_law import LEAST_EPSILON, exponential_choice
from tasks.noise.bits import BitSource

__all__ = ["Boosted", "boost_probability", "boosted", "choose_best", "n_runs_for", "run_budgets"]

FloatArray = NDArray[np.float64]
Estimator = TypeVar("Estimator", bound=PrivateClassifier)

DEFAULT_SELECTION_SHARE = 0.2
_LOSSES = ("hinge", "huberised-hinge", "logistic")


@dataclass(frozen=True, eq=False)
class Boosted:
    """What all runs released, and which was chosen.

    Attributes
    ----------
    theta : ndarray of float64, shape (p,)
    candidates : ndarray of float64, shape (n_runs, p)
        Released as well: the budget covers them.
    chosen : int
    events : sequence of Event
    """

    theta: FloatArray
    candidates: FloatArray
    chosen: int
    events: Sequence[Event]


def n_runs_for(failure_probability: float) -> int:
    """ceil(log2(2 / rho)): so many runs that with probability 1 - rho / 2 one of them is good.

    Parameters
    ----------
    failure_probability : float
        rho in (0, 1).

    Raises
    ------
    ValueError
        If it is outside its range.

    Notes
    -----
    By Markov's inequality a run's excess risk is above twice its expectation with probability 1/2 at most, so all of
    them with 2^-k <= rho / 2.
    """
    if isinstance(failure_probability, bool) or not 0.0 < failure_probability < 1.0:
        raise ValueError(f"failure_probability must be in (0, 1), got failure_probability={failure_probability!r}")
    return math.ceil(math.log2(2.0 / failure_probability))


def run_budgets(
    budget: PrivacyBudget, n_runs: int, selection_share: float, *, gaussian: bool
) -> tuple[PrivacyBudget, float]:
    """What each run may spend, and the epsilon of the choice.

    Parameters
    ----------
    budget : PrivacyBudget
        Of the whole.
    n_runs : int
        k, at least 1.
    selection_share : float
        In (0, 1), of epsilon.
    gaussian : bool
        Whether each run is a Gaussian mechanism: then k runs of mu / sqrt(k) make one of mu. Else each gets
        (epsilon' / k, delta / k).

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    if isinstance(n_runs, bool) or not isinstance(n_runs, int | np.integer) or n_runs < 1:
        raise ValueError(f"n_runs must be a whole number of at least 1, got n_runs={n_runs!r}")
    if isinstance(selection_share, bool) or not 0.0 < selection_share < 1.0:
        raise ValueError(f"selection_share must be in (0, 1), got selection_share={selection_share!r}")
    if budget.is_infinite:
        return budget, math.inf
    selection = selection_share * budget.epsilon
    if not selection >= LEAST_EPSILON:
        raise ValueError(
            f"the choice would get an epsilon of {selection:.3g}, below 2^-16: choose a larger epsilon or "
            f"selection_share, got epsilon={budget.epsilon!r}, selection_share={selection_share!r}"
        )
    runs = PrivacyBudget(budget.epsilon - selection, budget.delta)
    if not gaussian or budget.is_pure:
        return runs.share((1.0 - 2.0**-50) / n_runs), selection
    return PrivacyBudget.of_mu(runs.mu / math.sqrt(n_runs), budget.delta), selection


def choose_best(
    candidates: FloatArray, risk: EmpiricalRisk, epsilon: float, *, adjacency: Adjacency, bits: BitSource
) -> int:
    """Choose among released parameters by their risk: pure epsilon, by the exponential mechanism.

    Parameters
    ----------
    candidates : ndarray of float64, shape (m, p)
        Released before, so that they may be looked at freely.
    risk : EmpiricalRisk
        Lipschitz on the convex hull of the candidates; for `SquaredDistance` that is seen to here.
    epsilon : float
        Above 0; infinite for the best one.
    adjacency : {"replace_one", "add_remove"}
    bits : BitSource

    Returns
    -------
    int
        From 0 to m - 1.

    Notes
    -----
    Replacing a record changes the risk by a function h that is 2 L Lipschitz (the regulariser cancels), so sup_j
    h(theta_j) - inf_j h(theta_j) <= 2 L max |theta_i - theta_j|: no more than the paper's 2 L ||C||, and a number
    that the candidates show. When a record is added or removed, L in place of 2 L; and a regulariser (Delta / 2)
    |theta|^2 that counts n records then changes by its share of one, which adds (Delta / 2) (max |theta_j|^2 - min
    |theta_j|^2). It cancels where it counts a public number (`MarginRisk.public_size`). L is that of the ball about 0
    that the longest candidate gives.

    Risks are computed in doubles; where their rounding, at most 2 n^2 2^-53 times the largest term, would matter next
    to the range, the range is taken larger; n is `largest_size` there.

    References
    ----------
    Bassily, Smith, Thakurta (2014), appendix D; McSherry, Talwar (2007).
    """
    parts = parts_of(adjacency)
    scores = np.array([risk.value(theta) for theta in candidates])
    spread = max(float(np.linalg.norm(a - b)) for a in candidates for b in candidates)
    if spread == 0.0:
        return 0
    lengths = [float(np.linalg.norm(theta)) for theta in candidates]
    longest, n = max(lengths), largest_size(risk)
    lipschitz = risk.point_norm + longest if isinstance(risk, SquaredDistance) else risk.lipschitz
    total = total_strong_convexity(risk)
    bound = parts * lipschitz * spread
    if adjacency == "add_remove" and not (isinstance(risk, MarginRisk) and risk.public_size is not None):
        bound += 0.5 * regularization_of(risk) * (longest**2 - min(lengths) ** 2)
    largest = n * (1.0 + lipschitz * (2.0 * longest + 1.0)) + total * (longest + 1.0) ** 2
    rounding = 2.0 * UNIT_ROUNDOFF * (n + risk.dimension + 16) * largest
    return exponential_choice(scores, max(bound * (1.0 + 1e-9), rounding * 2.0**22), epsilon, bits)


def boosted(
    run: Callable[[PrivacyBudget], FloatArray],
    risk: EmpiricalRisk,
    budget: PrivacyBudget,
    *,
    adjacency: Adjacency,
    bits: BitSource,
    failure_probability: float = 0.05,
    selection_share: float = DEFAULT_SELECTION_SHARE,
    gaussian: bool = False,
) -> Boosted:
    """Run a private algorithm several times and keep the best outcome, privately.

    Parameters
    ----------
    run : callable
        From a budget to theta, shape (p,), released within that budget; called `n_runs_for` times.
    risk : EmpiricalRisk
        By which the outcomes are compared.
    budget : PrivacyBudget
        Of the whole.
    adjacency : {"replace_one", "add_remove"}
    bits : BitSource
    failure_probability : float, default=0.05
        rho in (0, 1).
    selection_share : float, default=0.2
        Of epsilon, for the choice.
    gaussian : bool, default=False
        True only if `run` is mu-Gaussian differentially private with the mu of the budget it is given.

    Returns
    -------
    Boosted

    Notes
    -----
    Guarantee: composition of the runs and the choice. Accuracy: with F(budget) the expected excess of one run, the
    chosen one's is at most 2 F + (range / epsilon'') (log k + log(2 / rho)) with probability 1 - rho.
    """
    n_runs = n_runs_for(failure_probability)
    each, selection = run_budgets(budget, n_runs, selection_share, gaussian=gaussian)
    candidates = np.array([run(each) for _ in range(n_runs)])
    chosen = choose_best(candidates, risk, selection, adjacency=adjacency, bits=bits)
    events: list[Event] = []
    if not budget.is_infinite:
        one = each.as_gaussian() if gaussian and not budget.is_pure else each.as_approximate()
        events = [one.model_copy(update={"count": n_runs}), ApproximateEvent(epsilon=selection, delta=0.0)]
    return Boosted(candidates[chosen], candidates, chosen, events)


def boost_probability(
    estimator: Estimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    failure_probability: float = 0.05,
    selection_share: float = DEFAULT_SELECTION_SHARE,
) -> Estimator:
    """Fit a private classifier several times within its budget and return the best fit, chosen privately.

    Parameters
    ----------
    estimator : PrivateClassifier
        Not changed. Its `epsilon` and `delta` are the budget of everything: of all fits and of the choice. It needs a
        `data_norm` and a margin loss (parameter `loss`), and no `preprocessing_share`.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    failure_probability : float, default=0.05
        rho in (0, 1): it sets the number of fits, ceil(log2(2 / rho)).
    selection_share : float, default=0.2
        Of epsilon, for the choice.

    Returns
    -------
    PrivateClassifier
        Of the same class, fitted. `guarantee_` is about the whole. Its parameters epsilon and delta are those
        of the given estimator.

    Raises
    ------
    ValueError
        If the estimator or an argument does not fit.

    Notes
    -----
    Fits are compared by the estimator's own loss and regulariser, one vector for two classes or one class against the
    rest, see `choose_best`. Fits that are Gaussian mechanisms compose by mu^2, and nothing is returned unless their
    events say that they were; others compose by the sums of their epsilons and deltas.

    References
    ----------
    Bassily, Smith, Thakurta (2014), appendix D.
    """
    if not isinstance(estimator, PrivateClassifier):
        raise ValueError(f"estimator must be a private classifier, got {type(estimator).__name__}")
    if estimator.preprocessing_share:
        raise ValueError("boosting needs preprocessing_share=0: fits with scales of their own cannot be compared")
    if estimator.data_norm is None:
        raise ValueError("boosting needs a data_norm: the sensitivity of the risk follows from the norm of the rows")
    if getattr(estimator, "loss", None) not in _LOSSES:
        raise ValueError(
            f"loss must be one of {', '.join(_LOSSES)}, by which boosting compares fits, got "
            f"loss={getattr(estimator, 'loss', None)!r} of {type(estimator).__name__}"
        )
    loss = margin_loss(estimator.loss, getattr(estimator, "huber_width", 0.5))
    budget = PrivacyBudget(estimator.epsilon, estimator.delta)
    n_runs, bits = n_runs_for(failure_probability), bits_of(estimator.random_state)
    gaussian = estimator._gaussian and not budget.is_pure
    each, selection = run_budgets(budget, n_runs, selection_share, gaussian=gaussian)
    labels: NDArray[Any] = column_or_1d(y)
    fits: list[Estimator] = []
    for _ in range(n_runs):
        one = clone(estimator).set_params(epsilon=each.epsilon, delta=each.delta, random_state=bits)
        fits.append(one.fit(X, labels))
        _refuse_other_weights(one)
    events = [event for one in fits if one.guarantee_ is not None for event in one.guarantee_.events]
    if (
        gaussian
        and not budget.is_infinite
        and not (_total_mu(events) <= PrivacyBudget(budget.epsilon - selection, budget.delta).mu * (1.0 + 1e-9))
    ):
        raise ArithmeticError("the fits are not the Gaussian mechanisms that they were taken for; nothing is returned")
    if not budget.is_infinite:
        events.append(ApproximateEvent(epsilon=selection, delta=0.0))
    refuse_unproven("boost_probability", events, budget)
    chosen = fits[_chosen(fits, X, labels, loss, selection, bits)]
    chosen.set_params(epsilon=estimator.epsilon, delta=estimator.delta, random_state=estimator.random_state)
    if chosen.guarantee_ is not None:
        inner = chosen.guarantee_
        chosen.guarantee_ = FitGuarantee(
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=inner.adjacency,
            mechanism=f"the best of {n_runs} runs, chosen by the exponential mechanism, of {inner.mechanism}",
            proof=f"composition of {n_runs} runs and a choice of epsilon {selection:.6g} (Bassily, Smith, Thakurta "
            f"2014, appendix D); each run: {inner.proof}",
            events=events,
            randomness=inner.randomness,
            assumptions=inner.assumptions,
        )
        chosen._sampled = None
    return chosen


def _total_mu(events: Sequence[Event]) -> float:
    return math.sqrt(
        math.fsum(e.count / e.noise_multiplier**2 if isinstance(e, GaussianEvent) else math.inf for e in events)
    )


def _chosen(
    fits: Sequence[PrivateClassifier], X: ArrayLike, y: NDArray[Any], loss: MarginLoss, epsilon: float, bits: BitSource
) -> int:
    first = fits[0]
    rows = first.row_map_.rows(np.asarray(X, dtype=np.float64))
    signs = signs_of(np.searchsorted(first.classes_, y), len(first.classes_))
    regularization = float(getattr(first, "regularization_", getattr(first, "regularization", 0.0)))
    risk = MarginRisk(rows, signs, loss, regularization, getattr(first, "public_size", None))
    candidates = np.array([weights_of(one) for one in fits])
    return choose_best(candidates, risk, epsilon, adjacency=first.adjacency, bits=bits)


def _refuse_other_weights(fitted: PrivateClassifier) -> None:
    k = len(fitted.classes_)
    if len(fitted.coef_) != (1 if k == 2 else k):
        raise ValueError(
            f"boosting is for one vector for two classes, or one a class against the rest, not {type(fitted).__name__}"
        )


def weights_of(fitted: PrivateClassifier) -> FloatArray:
    """The weights of a fit as they multiply its rows, the constant's last in each vector; shape (k d,)."""
    if not fitted.fit_intercept:
        return np.asarray(fitted.coef_).ravel()
    constant = np.asarray(fitted.intercept_)[:, None] / math.sqrt(0.5)
    return np.column_stack([fitted.coef_, constant]).ravel()
