"""Exact drawing from a symmetric law on the integers that is cut into buckets of neighbouring magnitudes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.noise.bits import HALF_WORD_BITS, BitSource, draw_half_words, draw_words
from tasks.noise.categorical import ExactCategorical
from tasks.noise.exact import THRESHOLD_BITS

__all__ = ["BucketSampler", "Decay"]

_BLOCK = 1 << 16  # values per pass: the buffers stay in the cache and bound the memory
_MAX_WIDTH = 2**62  # an offset takes the low bits of one word, the sign its highest


class Decay(Protocol):
    """How the law falls inside its buckets, relative to each bucket's most likely magnitude."""

    def least(self, bucket: NDArray[np.int64]) -> NDArray[np.float64]:
        """Give a lower bound of the ratio over each bucket."""
        ...

    def estimate(
        self, bucket: NDArray[np.int64], offset: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the ratio at each place and a bound of the estimate's error."""
        ...

    def threshold(self, bucket: int, offset: int) -> int:
        """Give the ratio at one place, times 2^128 and rounded to the nearest whole number."""
        ...


class BucketSampler:
    """A symmetric law on the integers: zero by itself, and buckets of magnitudes 1 and above.

    Bucket b holds the magnitudes starts[b], ..., starts[b] + widths[b] - 1.  A draw has three parts, each exact:
    which bucket (`ExactCategorical`), which place in it (uniform, or uniform and then kept with a probability
    proportional to the law there: von Neumann's rejection, where only the place is drawn again), and a fair sign.

    Parameters
    ----------
    thresholds : sequence of int, shape (n_buckets,)
        Cumulative 128-bit thresholds of zero and all buckets but the last; a bucket counts both signs.
    starts, widths : sequence of int, shape (n_buckets,)
        The first magnitude and the number of magnitudes of each; at least 1 and at most 2^62.
    decay : Decay, default=None
        The law inside a bucket; None where it is uniform.

    Notes
    -----
    Whether a place is kept is decided by comparing 128 uniform bits with a threshold, read from the top: 16 bits
    against a bound for the whole bucket, which is enough for most; 64 bits against a float with a proven error bound;
    and only if those bits lie within that bound all 128 against a threshold computed in as many digits as it needs.  So
    the outcome is the one of 128 bits, and floats decide nothing that they do not know.
    """

    def __init__(
        self,
        thresholds: Sequence[int],
        starts: Sequence[int],
        widths: Sequence[int],
        decay: Decay | None = None,
    ) -> None:
        if not len(thresholds) == len(starts) == len(widths):
            raise ValueError(f"need as many starts and widths as thresholds, got {len(starts)} and {len(widths)}")
        if any(not 1 <= width <= _MAX_WIDTH for width in widths) or any(start < 1 for start in starts):
            raise ValueError("buckets must start at 1 or later and hold 1 to 2^62 magnitudes")
        self._category = ExactCategorical(thresholds)
        self._starts = np.array([0, *starts], dtype=np.int64)
        self._widths = np.array([1, *widths], dtype=np.int64)
        self._masks = np.array([(1 << (int(width) - 1).bit_length()) - 1 for width in self._widths], dtype=np.uint64)
        self._decay = decay
        self._single = bool(np.all(self._widths == 1))
        self._every_offset_fits = bool(np.all(self._masks == (self._widths - 1).astype(np.uint64)))
        if decay is not None:
            least = np.append(1.0, decay.least(np.arange(len(starts), dtype=np.int64)))
            # The first 16 bits u keep a place for sure if (u + 1) 2^-16 <= ratio.
            sure = np.floor(np.clip(least - 2.0**-40, 0.0, 1.0) * 2.0**HALF_WORD_BITS)
            sure[0] = 2.0**HALF_WORD_BITS
            self._sure = sure.astype(np.uint32)
            self._least = float(np.min(least))
        self.max_magnitude = int(np.max(self._starts + self._widths)) - 1

    @property
    def rounding_bias(self) -> float:
        """A bound of the total variation distance between what is drawn and the law before its rounding.

        In units of 2^-128: 1/2 for each threshold of a bucket, as drawn from the same bits the two differ only
        between a threshold and its rounding; inside a bucket the kept shares are off by 1/2 in their
        numerators, which are at least `least` 2^128, so the law there is off by at most 1/least.
        """
        inside = 0.0 if self._decay is None else 1.0 / self._least
        return math.ldexp(0.5 * len(self._category.thresholds) + inside + 1.0, -THRESHOLD_BITS)

    def draw(self, n_values: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw independent values, shape (n_values,)."""
        values = np.empty(n_values, dtype=np.int64)
        for start in range(0, n_values, _BLOCK):
            self.fill(values[start : start + _BLOCK], bits)
        return values

    def fill(self, block: NDArray[np.int64], bits: BitSource) -> None:
        """Write independent values over `block`."""
        category = self._category.draw(block.size, bits)
        if self._single:
            negative = (draw_half_words(bits, block.size) & np.uint16(1)).astype(np.bool_)
            block[...] = self._starts[category]
        else:
            words = draw_words(bits, block.size)
            negative = (words >> np.uint64(63)).astype(np.bool_)
            offsets = (words & self._masks[category]).view(np.int64)
            block[...] = self._starts[category]
            block += offsets
            again = self._refused(category, offsets, bits)
            while again.size:
                places = category[again]
                fresh = (draw_words(bits, again.size) & self._masks[places]).view(np.int64)
                block[again] = self._starts[places] + fresh
                again = again[self._refused(places, fresh, bits)]
        np.negative(block, out=block, where=negative)

    def _refused(self, category: NDArray[np.uint16], offsets: NDArray[np.int64], bits: BitSource) -> NDArray[np.intp]:
        """Indices of the places that are not kept."""
        if self._decay is None:
            if self._every_offset_fits:
                return np.empty(0, dtype=np.intp)
            return np.flatnonzero(offsets >= self._widths[category])
        first = draw_half_words(bits, category.size)
        open_ = first >= self._sure[category]
        if not self._every_offset_fits:
            open_ |= offsets >= self._widths[category]
        undecided = np.flatnonzero(open_)
        if not undecided.size:
            return undecided
        kept = self._keeps(category[undecided].astype(np.int64) - 1, offsets[undecided], first[undecided], bits)
        return undecided[~kept]

    def _keeps(
        self,
        bucket: NDArray[np.int64],
        offset: NDArray[np.int64],
        first: NDArray[np.uint16],
        bits: BitSource,
    ) -> NDArray[np.bool_]:
        """Whether the 128-bit number that begins with `first` lies below the ratio at each place."""
        assert self._decay is not None
        further = draw_words(bits, first.size) >> np.uint64(HALF_WORD_BITS)
        words = (first.astype(np.uint64) << np.uint64(64 - HALF_WORD_BITS)) | further
        fits = offset < self._widths[bucket + 1]
        ratio, error = self._decay.estimate(bucket, offset)
        error = error + 2.0**-50  # of the float conversion of the word, and of what is below it
        level = words.astype(np.float64) * 2.0**-64
        kept = fits & (level < ratio - error)
        for i in np.flatnonzero(fits & (np.abs(level - ratio) <= error)):
            number = (int(words[i]) << 64) | int(draw_words(bits, 1)[0])
            kept[i] = number < self._decay.threshold(int(bucket[i]), int(offset[i]))
        return kept
