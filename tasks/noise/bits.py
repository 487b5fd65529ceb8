"""Sources of random bits.

Randomness is an argument of every sampler of this package; nothing here or elsewhere keeps a global
state.  A source has one method, `words`, and a label that goes into the manifest of a release.
"""

from __future__ import annotations

import os
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["BitSource", "OperatingSystemBits", "SeededBits", "draw_below", "draw_half_words", "draw_words"]

HALF_WORD_BITS = 16
_HALF_WORDS_PER_WORD = 64 // HALF_WORD_BITS


@runtime_checkable
class BitSource(Protocol):
    """What a sampler asks of its randomness: independent uniform 64-bit words, and a name for them."""

    @property
    def label(self) -> str:
        """The text that a manifest shows under `randomness`."""
        ...

    def words(self, n_words: int) -> NDArray[np.uint64]:
        """Give `n_words` independent uniform 64-bit words, shape (n_words,)."""
        ...


class OperatingSystemBits:
    """Words from the operating system's cryptographic generator: the source for every release.

    It holds no state, so processes and threads may share or copy it.
    """

    @property
    def label(self) -> str:
        """`os-csprng`."""
        return "os-csprng"

    def words(self, n_words: int) -> NDArray[np.uint64]:
        """Give `n_words` uniform 64-bit words.

        Parameters
        ----------
        n_words : int
            At least 0.

        Returns
        -------
        ndarray of uint64, shape (n_words,)

        Raises
        ------
        ValueError
            If `n_words` is negative.
        """
        _check_count(n_words)
        return np.frombuffer(os.urandom(8 * n_words), dtype="<u8").astype(np.uint64, copy=False)

    def __repr__(self) -> str:
        return "OperatingSystemBits()"


class SeededBits:
    """A repeatable stream, for tests only: whoever knows the seed can take the noise off again.

    The stream is NumPy's PCG64, whose output for a seed is fixed by NumPy's compatibility policy and
    equal on all platforms.  It depends on the seed alone, not on how many words are taken at a time.
    Nothing is drawn from or written to NumPy's global state.

    Parameters
    ----------
    seed : int
        At least 0.

    Raises
    ------
    ValueError
        If `seed` is not an integer or is negative.
    """

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, got seed={seed!r}")
        self._seed = int(seed)
        self._generator = np.random.PCG64(self._seed)

    @property
    def label(self) -> str:
        """`seeded (not private)`; a release that carries it must not be published."""
        return "seeded (not private)"

    def words(self, n_words: int) -> NDArray[np.uint64]:
        """Give the next `n_words` words of the stream, shape (n_words,).

        Raises
        ------
        ValueError
            If `n_words` is negative.
        """
        _check_count(n_words)
        drawn: NDArray[np.uint64] = self._generator.random_raw(n_words)
        return drawn

    def __repr__(self) -> str:
        return f"SeededBits({self._seed})"


def draw_words(bits: BitSource, n_words: int) -> NDArray[np.uint64]:
    """Take words from a source and check that it kept its promise.

    Raises
    ------
    TypeError
        If `bits` is not a bit source.
    ValueError
        If it gave another number of words, or words of another type.
    """
    if not isinstance(bits, BitSource):
        raise TypeError(f"bits must be a bit source with words(n) and label, got {type(bits).__name__}")
    drawn = bits.words(n_words)
    if not isinstance(drawn, np.ndarray) or drawn.dtype != np.uint64 or drawn.shape != (n_words,):
        raise ValueError(
            f"bit source {bits.label!r} must give a uint64 array of shape ({n_words},), "
            f"got {getattr(drawn, 'dtype', type(drawn).__name__)} of shape {getattr(drawn, 'shape', None)}"
        )
    return drawn


def draw_half_words(bits: BitSource, n_half_words: int) -> NDArray[np.uint16]:
    """Take `n_half_words` uniform 16-bit words, four from each 64-bit word, lowest bits first."""
    drawn = draw_words(bits, -(-n_half_words // _HALF_WORDS_PER_WORD))
    return drawn.astype("<u8", copy=False).view("<u2")[:n_half_words]


def draw_below(widths: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
    """Give independent uniform whole numbers in 0, ..., width - 1, one for each entry of `widths` (1 to 2^62).

    As many low bits of a word as the largest of them needs are kept, and drawn again where they are too large.
    """
    width = widths.astype(np.uint64)
    mask = width - np.uint64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    drawn = draw_words(bits, widths.size) & mask
    again = np.flatnonzero(drawn >= width)
    while again.size:
        drawn[again] = draw_words(bits, again.size) & mask[again]
        again = again[drawn[again] >= width[again]]
    return drawn.astype(np.int64)


def _check_count(n_words: int) -> None:
    if n_words < 0:
        raise ValueError(f"n_words must be at least 0, got n_words={n_words}")
