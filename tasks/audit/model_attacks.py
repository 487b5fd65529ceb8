"""Membership attacks on a classifier's confidence: loss or margin threshold, likelihood ratio with shadow models.

Scores are higher for a member. Training the shadow models is the caller's.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.audit.density_difference import FloatArray

SMALLEST_PROBABILITY = 1e-12
"""What the scaled confidence takes a smaller probability for. A vote of trees or neighbours is often exactly 0 or 1,
and an infinite confidence has no mean."""
MODELS_FOR_OWN_VARIANCE = 32
"""Shadow models without an example from which on its variance is its own: half of the 64 models below which the paper
finds one variance for all examples better."""
_SMALLEST_SPREAD = 0.01
"""Least standard deviation of one example, in multiples of the one for all: shadow models that agree exactly are few
models, not certainty."""


def _own_and_others(probabilities: ArrayLike, labels: ArrayLike, classes: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Probability of each row's own label, and of all others together."""
    table, known, own = np.asarray(probabilities, dtype=np.float64), np.asarray(classes), np.asarray(labels)
    if table.ndim != 2 or len(table) == 0 or known.shape != (table.shape[1],):
        raise ValueError(
            f"probabilities must have a row at least and a column for each class, got {table.shape} and {known.shape}"
        )
    if own.shape != (len(table),):
        raise ValueError(f"labels must be one for each of {len(table)} rows, got shape {own.shape}")
    if len(np.unique(known)) != known.size:
        raise ValueError(f"classes must be distinct, got {known.size - len(np.unique(known))} repeated")
    if not ((table >= 0) & (table <= 1 + 1e-9)).all():
        raise ValueError("probabilities must be between 0 and 1")
    mine = own[:, None] == known
    return np.where(mine, table, 0.0).sum(axis=1), np.where(mine, 0.0, table).sum(axis=1)


def loss_scores(probabilities: ArrayLike, labels: ArrayLike, classes: ArrayLike) -> FloatArray:
    """Minus the cross-entropy loss: a row that the classifier is sure of may be one that it learned.

    Parameters
    ----------
    probabilities : array-like of shape (n, n_classes)
        In [0, 1].
    labels : array-like of shape (n,)
        True labels.
    classes : array-like of shape (n_classes,)
        Label of each column.

    Returns
    -------
    ndarray of shape (n,)
        log p_label, finite; the lowest possible value where the classifier does not know the label.

    Raises
    ------
    ValueError
        If shapes do not agree or a probability is outside [0, 1].

    References
    ----------
    S. Yeom, I. Giacomelli, M. Fredrikson, S. Jha: Privacy risk in machine learning: analyzing the connection to
    overfitting. IEEE CSF (2018), adversary 2.
    """
    own, _ = _own_and_others(probabilities, labels, classes)
    return np.log(np.maximum(own, np.finfo(np.float64).tiny))


def margin_scores(scores: ArrayLike, labels: ArrayLike, classes: ArrayLike) -> FloatArray:
    """How far the score of the true label is ahead of the largest other one: the loss threshold without probabilities.

    Parameters
    ----------
    scores : array-like of shape (n, n_classes)
        Finite; the larger, the more that class.
    labels : array-like of shape (n,)
        True labels, each among `classes`.
    classes : array-like of shape (n_classes,)
        Label of each column, at least two.

    Returns
    -------
    ndarray of shape (n,)
        Positive where the classifier is right. Of two classes whose scores are a lead and its negative, twice the lead
        of the row's own class.

    Raises
    ------
    ValueError
        If shapes do not agree, a score is not finite, or a label is none of the classes.

    Notes
    -----
    The hinge loss of Crammer and Singer, and of two classes every margin loss, falls as the margin grows, so that a
    threshold on the one is a threshold on the other.

    References
    ----------
    S. Yeom, I. Giacomelli, M. Fredrikson, S. Jha: Privacy risk in machine learning: analyzing the connection to
    overfitting. IEEE CSF (2018), adversary 2.
    """
    table, known, own = np.asarray(scores, dtype=np.float64), np.asarray(classes), np.asarray(labels)
    if table.ndim != 2 or len(table) == 0 or known.shape != (table.shape[1],) or known.size < 2:
        raise ValueError(
            f"scores must have a row at least and a column for each of two classes or more, got {table.shape} and "
            f"{known.shape}"
        )
    if own.shape != (len(table),):
        raise ValueError(f"labels must be one for each of {len(table)} rows, got shape {own.shape}")
    if not np.isfinite(table).all():
        raise ValueError("scores must be finite")
    mine = own[:, None] == known
    if not (mine.sum(axis=1) == 1).all():
        raise ValueError("each label must be one of the classes, and classes must be distinct")
    margins: FloatArray = table[mine] - np.where(mine, -np.inf, table).max(axis=1)
    return margins


def scaled_confidence(probabilities: ArrayLike, labels: ArrayLike, classes: ArrayLike) -> FloatArray:
    """Logit of the true label's probability, which is near normal over repeated training.

    Parameters
    ----------
    probabilities : array-like of shape (n, n_classes)
        In [0, 1], each row with sum 1.
    labels : array-like of shape (n,)
        True labels.
    classes : array-like of shape (n_classes,)
        Label of each column.

    Returns
    -------
    ndarray of shape (n,)
        log(p / (1 - p)), between -28 and 28; the lowest value where the classifier does not know the label.

    Raises
    ------
    ValueError
        If shapes do not agree or a probability is outside [0, 1].

    Notes
    -----
    1 - p is the sum of the other probabilities, which keeps its digits where p is near 1.

    References
    ----------
    N. Carlini, S. Chien, M. Nasr, S. Song, A. Terzis, F. Tramer: Membership inference attacks from first principles.
    IEEE S&P (2022).
    """
    own, others = _own_and_others(probabilities, labels, classes)
    own, others = np.clip(own, SMALLEST_PROBABILITY, 1.0), np.clip(others, SMALLEST_PROBABILITY, 1.0)
    return np.log(own) - np.log(others)


def shadow_halves(n_rows: int, n_shadow: int, labels: ArrayLike, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which rows each shadow model learns from: random halves, each followed by its complement.

    Parameters
    ----------
    n_rows : int
    n_shadow : int
        At least 2. Of an even number, every row is in exactly one half.
    labels : array-like of shape (n_rows,)
    rng : numpy Generator

    Returns
    -------
    ndarray of bool, shape (n_shadow, n_rows)
        In every half, the number of rows of each label is half of all up to 1/2, and so is the total. A label with two
        rows or more is in every half.

    Raises
    ------
    ValueError
        If `n_shadow` is below 2 or `labels` does not fit.
    """
    classes = np.asarray(labels)
    if classes.shape != (n_rows,) or n_rows < 1:
        raise ValueError(f"labels must be one for each of n_rows={n_rows} rows, at least one, got {classes.shape}")
    if n_shadow < 2:
        raise ValueError(f"n_shadow must be at least 2, got n_shadow={n_shadow}")
    _, codes = np.unique(classes, return_inverse=True)
    halves = np.zeros((n_shadow, n_rows), dtype=bool)
    for first in range(0, n_shadow, 2):
        # Label after label, shuffled within: every other row keeps the balance of each label and of the whole.
        order = np.lexsort((rng.random(n_rows), codes))
        halves[first, order[rng.integers(2) :: 2]] = True
        if first + 1 < n_shadow:
            halves[first + 1] = ~halves[first]
    return halves


def likelihood_ratio_scores(
    target_confidence: ArrayLike, shadow_confidence: ArrayLike, trained_with: ArrayLike
) -> FloatArray:
    """Offline LiRA: how much surer the target is of a row than models that never saw it.

    Parameters
    ----------
    target_confidence : array-like of shape (n,)
        Scaled confidence of the attacked classifier, finite.
    shadow_confidence : array-like of shape (n_shadow, n)
        The same of each shadow model.
    trained_with : array-like of bool, shape (n_shadow, n)
        Whether the shadow model learned from the row. Only the others are looked at.

    Returns
    -------
    ndarray of shape (n,)
        (phi - mu_out) / sigma_out. The paper's score is the normal distribution function of this number; both put rows
        in the same order, but the function is 1 in doubles from 8.3 on and would tie the rows that are most exposed.

    Raises
    ------
    ValueError
        If shapes do not agree, a confidence is not finite, or every shadow model learned from some row.

    Notes
    -----
    A row has a variance of its own if at least 32 shadow models did not learn from each row; otherwise all rows share
    the mean of their variances, as the paper advises for few models. A spread of 0 counts as 1 % of the shared one.

    References
    ----------
    N. Carlini, S. Chien, M. Nasr, S. Song, A. Terzis, F. Tramer: Membership inference attacks from first principles.
    IEEE S&P (2022), the offline attack.
    """
    target, shadow = np.asarray(target_confidence, dtype=np.float64), np.asarray(shadow_confidence, dtype=np.float64)
    learned = np.asarray(trained_with)
    if target.ndim != 1 or target.size == 0 or shadow.ndim != 2 or shadow.shape[1] != target.size:
        raise ValueError(
            f"target_confidence must be (n,) and shadow_confidence (n_shadow, n), got {target.shape} and {shadow.shape}"
        )
    if learned.shape != shadow.shape or learned.dtype != np.bool_:
        raise ValueError(f"trained_with must be bool of shape {shadow.shape}, got {learned.dtype} {learned.shape}")
    if not (np.isfinite(target).all() and np.isfinite(shadow).all()):
        raise ValueError("target_confidence and shadow_confidence must be finite")
    out = ~learned
    count = out.sum(axis=0)
    if (count == 0).any():
        raise ValueError(f"trained_with: every shadow model learned from {int(np.count_nonzero(count == 0))} rows")
    mean = np.where(out, shadow, 0.0).sum(axis=0) / count
    squares = np.where(out, (shadow - mean) ** 2, 0.0).sum(axis=0)
    freedom = int((count - 1).sum())
    shared = float(np.sqrt(squares.sum() / freedom)) if freedom else 0.0
    if shared == 0:
        return target - mean  # no spread at all: any unit gives the same order
    if count.min() < MODELS_FOR_OWN_VARIANCE:
        return (target - mean) / shared
    return (target - mean) / np.maximum(np.sqrt(squares / (count - 1)), _SMALLEST_SPREAD * shared)
