"""From expected to high-probability accuracy: several private runs, and a private choice of the best (appendix D)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from schemas.events import ApproximateEvent, Event, GaussianEvent
from schemas.learning import Adjacency, FitGuarantee
from tasks.accounting.gaussian_profile import gaussian_epsilon
from tasks.classifiers.base import PrivateClassifier, bits_of
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.dual import UNIT_ROUNDOFF
from tasks.classifiers.losses import margin_loss
from tasks.classifiers.output_perturbation import parts_of, signs_of
from tasks.classifiers.risks import EmpiricalRisk, MarginRisk
from tasks.classifiers.selection_law import exponential_choice
from tasks.noise.bits import BitSource

__all__ = ["Boosted", "boost_probability", "boosted", "choose_best", "n_runs_for", "run_budgets"]

FloatArray = NDArray[np.float64]
Estimator = TypeVar("Estimator", bound=PrivateClassifier)

DEFAULT_SELECTION_SHARE = 0.2


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
    runs = PrivacyBudget(budget.epsilon - selection, budget.delta)
    if not gaussian or budget.is_pure:
        return runs.share((1.0 - 2.0**-50) / n_runs), selection
    mu, delta = runs.mu * (1.0 - 2.0**-30) / math.sqrt(n_runs), budget.delta
    while not gaussian_epsilon(mu, delta) > 0.0:
        delta *= 0.5
    return PrivacyBudget(gaussian_epsilon(mu, delta), delta), selection


def choose_best(
    candidates: FloatArray, risk: EmpiricalRisk, epsilon: float, *, adjacency: Adjacency, bits: BitSource
) -> int:
    """Choose among released parameters by their risk: pure epsilon, by the exponential mechanism.

    Parameters
    ----------
    candidates : ndarray of float64, shape (m, p)
        Released before, so that they may be looked at freely.
    risk : EmpiricalRisk
        Lipschitz on the convex hull of the candidates.
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
    that the candidates show. When a record is added or removed, L in place of 2 L. Risks are computed in doubles;
    where their rounding, at most 2 n^2 2^-53 times the largest term, would matter next to the range, the range is
    taken larger.

    References
    ----------
    Bassily, Smith, Thakurta (2014), appendix D; McSherry, Talwar (2007).
    """
    scores = np.array([risk.value(theta) for theta in candidates])
    spread = max(float(np.linalg.norm(a - b)) for a in candidates for b in candidates)
    longest = max(float(np.linalg.norm(theta)) for theta in candidates)
    if spread == 0.0:
        return 0
    largest = 1.0 + risk.lipschitz * (2.0 * longest + 1.0) + risk.strong_convexity * (longest + 1.0) ** 2
    rounding = 2.0 * UNIT_ROUNDOFF * risk.n_records * (risk.n_records + risk.dimension + 16) * largest
    bound = max(parts_of(adjacency) * risk.lipschitz * spread * (1.0 + 1e-9), rounding * 2.0**22)
    return exponential_choice(scores, bound, epsilon, bits)


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
    loss = margin_loss(getattr(estimator, "loss", ""), getattr(estimator, "huber_width", 0.5))
    budget = PrivacyBudget(estimator.epsilon, estimator.delta)
    n_runs, bits = n_runs_for(failure_probability), bits_of(estimator.random_state)
    gaussian = estimator._gaussian and not budget.is_pure and _full_batch(estimator)
    each, selection = run_budgets(budget, n_runs, selection_share, gaussian=gaussian)
    fits: list[Estimator] = []
    for _ in range(n_runs):
        one = clone(estimator).set_params(epsilon=each.epsilon, delta=each.delta, random_state=bits)
        fits.append(one.fit(X, y))
    events = [event for one in fits if one.guarantee_ is not None for event in one.guarantee_.events]
    if gaussian and not budget.is_infinite and not _total_mu(events) <= math.sqrt(n_runs) * each.mu * (1.0 + 1e-9):
        raise ArithmeticError("the fits are not the Gaussian mechanisms that they were taken for; nothing is returned")
    if not budget.is_infinite:
        events.append(ApproximateEvent(epsilon=selection, delta=0.0))
    chosen = fits[_chosen(fits, X, y, loss, selection, bits)]
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


def _full_batch(estimator: PrivateClassifier) -> bool:
    whole = getattr(estimator, "sampling_probability", 1.0) == 1.0
    return whole and getattr(estimator, "schedule", "practical") == "practical"


def _total_mu(events: Sequence[Event]) -> float:
    return math.sqrt(
        math.fsum(e.count / e.noise_multiplier**2 if isinstance(e, GaussianEvent) else math.inf for e in events)
    )


def _chosen(
    fits: Sequence[PrivateClassifier], X: ArrayLike, y: ArrayLike, loss: object, epsilon: float, bits: BitSource
) -> int:
    first = fits[0]
    rows = first.row_map_.rows(np.asarray(X, dtype=np.float64))
    labels = np.searchsorted(first.classes_, np.asarray(y))
    public_size = getattr(first, "public_size", None)
    size = len(rows) if public_size is None else int(public_size)
    regularization = float(getattr(first, "regularization", 0.0)) * (size / len(rows))  # cancels between neighbours
    risk = MarginRisk(rows, signs_of(labels, len(first.classes_)), loss, regularization)  # type: ignore[arg-type]
    candidates = np.array([weights_of(one) for one in fits])
    if candidates.shape[1] != risk.dimension:
        raise ValueError(
            f"boosting is for one vector for two classes, or one a class against the rest, not {type(first).__name__}"
        )
    return choose_best(candidates, risk, epsilon, adjacency=first.adjacency, bits=bits)


def weights_of(fitted: PrivateClassifier) -> FloatArray:
    """The weights of a fit as they multiply its rows, the constant's last in each vector; shape (k d,)."""
    if not fitted.fit_intercept:
        return np.asarray(fitted.coef_).ravel()
    constant = np.asarray(fitted.intercept_)[:, None] / math.sqrt(0.5)
    return np.column_stack([fitted.coef_, constant]).ravel()
