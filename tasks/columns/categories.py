"""From noisy scores of categories to categories whose frequencies are those that the noise-added data show."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_SINKHORN_ROUNDS = 50
_TEMPERATURE = 0.2  # of the scores' standard deviation


def scores_of(block: FloatArray) -> FloatArray:
    """Scores of all possibilities from a block's coordinates: one column stands for the second of two."""
    return np.column_stack([1.0 - block[:, 0], block[:, 0]]) if block.shape[1] == 1 else block


class ScoreSums:
    """Sums over noise-added rows from which the categories' frequencies within each class are told."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[int, FloatArray, FloatArray]] = {}

    def add(self, estimates: FloatArray, labels: IntArray) -> None:
        """Take in some rows.

        Parameters
        ----------
        estimates : ndarray of float64, shape (n_rows, n_categories)
            Each row's mean is the indicator of its category.
        labels : ndarray of int64, shape (n_rows,)
        """
        for label in np.unique(labels).tolist():
            own = estimates[labels == label]
            count, sums, squares = self._of.get(label, (0, np.zeros(own.shape[1]), np.zeros(own.shape[1])))
            self._of[label] = count + len(own), sums + own.sum(axis=0), squares + np.einsum("ij,ij->j", own, own)

    def shares(self) -> dict[int, FloatArray]:
        """Frequencies of the categories within each class.

        Returns
        -------
        dict from label to ndarray of shape (n_categories,)
            At least 0, in sum 1. A class's frequencies are shrunk toward those of all rows as far as their difference
            may be noise (James and Stein's positive part, with the noise seen in the class itself).
        """
        overall = sum(sums for _, sums, _ in self._of.values()) / sum(count for count, _, _ in self._of.values())
        found = {}
        for label, (count, sums, squares) in sorted(self._of.items()):
            shown = sums / count
            # what the estimates vary more than indicators of such frequencies do
            varies = float(np.sum(squares / count - shown**2))
            noise = max(0.0, varies - float(np.sum(shown * (1.0 - shown)))) / count
            apart = shown - overall
            size = float(apart @ apart)
            kept = max(0.0, 1.0 - noise / size) if size > 0.0 else 0.0
            found[label] = _to_simplex(overall + kept * apart)
        return found


def assign(scores: FloatArray, shares: FloatArray) -> IntArray:
    """One category a row: as often as `shares` says, where the scores speak most for it.

    Parameters
    ----------
    scores : ndarray of float64, shape (n_rows, n_categories)
    shares : ndarray of float64, shape (n_categories,)
        At least 0, in sum 1.

    Returns
    -------
    ndarray of int64, shape (n_rows,)
        Category i stands for `shares[i]` of the rows, to the nearest whole number (largest remainder).

    Notes
    -----
    Without quotas the largest score would win, and smoothed scores would give the most frequent category nearly
    everywhere. Prices of the categories come from Sinkhorn's iteration on exp(score / temperature), whose row
    sums are 1 and whose column sums are the quotas; then rows take their best category, the surest first, until it
    is full. Cost: n_rows n_categories times some 50, and at most n_categories rounds of taking.
    """
    n_rows, n_categories = scores.shape
    quotas = _whole_numbers(shares, n_rows)
    if n_categories == 2:  # the surest rows of the second one
        codes = np.zeros(n_rows, dtype=np.int64)
        codes[np.argsort(scores[:, 0] - scores[:, 1], kind="stable")[: quotas[1]]] = 1
        return codes
    spread = float(scores.std())
    log_kernel = scores / (_TEMPERATURE * spread) if spread > 0.0 else np.zeros_like(scores)
    log_kernel = log_kernel - log_kernel.max(axis=1, keepdims=True)
    kernel = np.exp(np.maximum(log_kernel, -200.0))
    price = np.ones(n_categories)
    wanted = np.maximum(quotas, 1e-9)
    for _ in range(_SINKHORN_ROUNDS):
        price = wanted / ((1.0 / (kernel @ price)) @ kernel)
    gain = np.log(np.maximum(kernel * price, 1e-300))
    gain -= np.log(np.sum(kernel * price, axis=1))[:, None]
    return _take(gain, quotas)


def _take(gain: FloatArray, quotas: IntArray) -> IntArray:
    codes = np.full(len(gain), -1, dtype=np.int64)
    left = quotas.copy()
    gain = np.where(left > 0, gain, -np.inf)
    open_rows = np.arange(len(gain))
    while open_rows.size:
        best = gain[open_rows].argmax(axis=1)
        for category in np.unique(best).tolist():
            asking = open_rows[best == category]
            if asking.size > left[category]:
                surest = np.argsort(-gain[asking, category], kind="stable")
                asking = asking[surest[: left[category]]]
            codes[asking] = category
            left[category] -= asking.size
            if left[category] == 0:
                gain[:, category] = -np.inf
        open_rows = open_rows[codes[open_rows] < 0]
    return codes


def _to_simplex(values: FloatArray) -> FloatArray:
    """The nearest point with entries of at least 0 and sum 1 (Euclidean)."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, values.size + 1)
    return np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)


def _whole_numbers(shares: FloatArray, total: int) -> IntArray:
    """Whole numbers of sum `total` in proportion to the shares, by largest remainder."""
    wanted = shares * (total / float(shares.sum()))
    whole = np.floor(wanted + 1e-9).astype(np.int64)
    order = np.argsort(whole - wanted, kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole
