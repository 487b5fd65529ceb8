"""Exact drawing from a finite law: one table look-up for most values, more bits only where they matter."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tasks.noise.bits import HALF_WORD_BITS, BitSource, draw_half_words, draw_words
from tasks.noise.exact import THRESHOLD_BITS

__all__ = ["ExactCategorical"]

_UNDECIDED = np.uint16(0xFFFF)
_N_FIRST = 2**HALF_WORD_BITS


class ExactCategorical:
    """A law on 0, 1, ..., m given by its cumulative 128-bit thresholds, drawn without any rounding.

    With U uniform on the integers of [0, 2^128) the drawn category is the number of thresholds that
    are at most U, so category i has probability (c_i - c_(i-1)) / 2^128 exactly, where c_(-1) = 0,
    c_i is `thresholds[i]` and c_m = 2^128.

    U is read from its top.  Its first 16 bits decide the category unless a threshold lies inside their
    interval, which happens for at most m of the 65536 intervals.  The values left open get 48 further
    bits and a binary search; those that then equal the top half of a threshold get the last 64 bits.
    The outcome is the one that all 128 bits would give, since bits that are not drawn cannot change it.

    Parameters
    ----------
    thresholds : sequence of int, shape (m,)
        Non-decreasing, in [0, 2^128]; m between 0 and 65534.

    Raises
    ------
    ValueError
        If the thresholds are too many, decrease or leave [0, 2^128].

    Notes
    -----
    Mean cost of a value: 2 bytes, and 8 more with probability at most m / 65536.  How long a call takes
    depends on the values drawn, by that share.
    """

    def __init__(self, thresholds: Sequence[int]) -> None:
        ordered = [int(c) for c in thresholds]
        if len(ordered) >= int(_UNDECIDED):
            raise ValueError(f"thresholds must be fewer than 65535, got {len(ordered)}")
        if any(not 0 <= c <= 2**THRESHOLD_BITS for c in ordered):
            raise ValueError("thresholds must lie in [0, 2^128]")
        if any(left > right for left, right in pairwise(ordered)):
            raise ValueError("thresholds must not decrease")
        self.thresholds: tuple[int, ...] = tuple(ordered)
        # A threshold of 2^128 is never reached, and its top half would not fit in 64 bits.
        self._reachable = [c for c in ordered if c < 2**THRESHOLD_BITS]
        self._top_halves = np.array([c >> 64 for c in self._reachable], dtype=np.uint64)
        self._first = _first_table(self._reachable)

    def draw(self, n_values: int, bits: BitSource) -> NDArray[np.uint16]:
        """Draw independent categories.

        Parameters
        ----------
        n_values : int
        bits : BitSource

        Returns
        -------
        ndarray of uint16, shape (n_values,)
        """
        first_words = draw_half_words(bits, n_values)
        drawn = self._first[first_words]
        undecided = np.flatnonzero(drawn == _UNDECIDED)
        if undecided.size:
            drawn[undecided] = self._refine(first_words[undecided], bits)
        return drawn

    def _refine(self, first_words: NDArray[np.uint16], bits: BitSource) -> NDArray[np.int64]:
        """The categories of values whose first 16 bits left them open."""
        further = draw_words(bits, first_words.size) >> np.uint64(HALF_WORD_BITS)
        words = (first_words.astype(np.uint64) << np.uint64(64 - HALF_WORD_BITS)) | further
        category = np.searchsorted(self._top_halves, words, side="right").astype(np.int64)
        tied = np.flatnonzero((category > 0) & (self._top_halves[category - 1] == words))
        for i in tied:
            last = int(draw_words(bits, 1)[0])
            category[i] = bisect_right(self._reachable, (int(words[i]) << 64) | last)
        return category


def _first_table(thresholds: list[int]) -> NDArray[np.uint16]:
    """For each 16-bit word the category of all U that begin with it, or `_UNDECIDED` where they differ."""
    shift = THRESHOLD_BITS - HALF_WORD_BITS
    word = np.arange(_N_FIRST)
    at_first = np.searchsorted([-(-c >> shift) for c in thresholds], word, side="right")
    at_last = np.searchsorted([c >> shift for c in thresholds], word, side="right")
    return np.where(at_first == at_last, at_first, _UNDECIDED).astype(np.uint16)
