"""What the coordinates of an encoded row stand for, block by block, and what a replaced row can move.

First release.  Let v = index - K in [-K, K], K = 2^15.  Noise of s1 is put on the sums of v and of s1 K / sqrt 2 on
those of v^2, so a coordinate that moves from v to v' counts, squared and in units of noise,

    ((v - v')^2 + 2 (v^2 - v'^2)^2 / K^2) / s1^2.

*Value.*  With D = |v - v'|, |v + v'| <= 2K - D, so this is at most D^2 (1 + 2 (2K - D)^2 / K^2) / s1^2 <= 4 K^2 / s1^2.
(In x = 2 - D/K the bound reads (2 - x)^2 (1 + 2x^2) <= 4; equality at x = 0, derivative -2 (2 - x)(2x - 1)^2.)
Attained from one end to the other.  So the squares are free.

*Binary.*  v is -K or K, v^2 never moves: at most 4 K^2 / s1^2.

*One-hot.*  Another category takes one coordinate from K to -K and one back, the others stay and no square moves:
2 * 4 K^2 / s1^2, whatever the number of categories.

*Nullable.* A flag f in {-K, K} and a value v, which is 0 where f = K.  Between two present values f stays: 4 K^2 as
above.  Between two missing ones nothing moves.  Between a present value v and a missing one f moves by 2K and its
square not at all, 4 K^2; the value moves from v to 0, v^2 + 2 v^4 / K^2 <= 3 K^2 as |v| <= K.  So at most 7 K^2 /
s1^2, attained between missing and either end.

The squares of coordinates of two values are K^2 n without noise, which everyone knows; what is released of them says
nothing and is not used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tasks.noise.moments.released import HALF_RANGE

__all__ = ["Block", "Layout", "layout_of", "level_points"]

IntArray = NDArray[np.int64]
Kind = Literal["value", "binary", "one-hot", "nullable"]

ONE_HOT_WEIGHT = 1.0
"""Expected squared norm of a standardised one-hot block, where a value has 1."""

_HIGHEST = 2 * HALF_RANGE
_WIDTHS = {"value": 1, "binary": 1, "nullable": 2}
_LEAST_CATEGORIES = 3
_MOST_LEVELS = 1025
_FIRST_COSTS = {"value": 4, "binary": 4, "one-hot": 8, "nullable": 7}


@dataclass(frozen=True)
class Block:
    """Consecutive coordinates of a row that encode one column of the source.

    Parameters
    ----------
    kind : {"value", "binary", "one-hot", "nullable"}
        A coordinate anywhere in [0, 2^16]; one that is 0 or 2^16; `width` of which exactly one is 2^16 and the others
        0; a missing flag (0 or 2^16) and a value in [0, 2^16], which is 2^15 where the flag is set.
    width : int
        Number of coordinates: 1, 1, at least 3, and 2.
    levels : int, default=0
        Of a value, also a nullable one: 0 for any cell, or k in [2, 1025] for the lattice points round(j 2^16 / (k -
        1)), j = 0, ..., k - 1 (`level_points`), and no others.

    Raises
    ------
    ValueError
        If there is no such kind, or not of that width, or it cannot have those levels.
    """

    kind: Kind
    width: int
    levels: int = 0

    def __post_init__(self) -> None:
        if self.kind not in _FIRST_COSTS:
            raise ValueError(f"kind must be one of {', '.join(_FIRST_COSTS)}, got kind={self.kind!r}")
        if isinstance(self.width, bool) or not isinstance(self.width, int | np.integer):
            raise ValueError(f"width must be a whole number, got width={self.width!r}")
        object.__setattr__(self, "width", int(self.width))
        if self.kind == "one-hot" and self.width < _LEAST_CATEGORIES:
            raise ValueError(f"a one-hot block has at least {_LEAST_CATEGORIES} coordinates, got width={self.width}")
        if self.kind != "one-hot" and self.width != _WIDTHS[self.kind]:
            raise ValueError(f"a {self.kind} block has width {_WIDTHS[self.kind]}, got width={self.width}")
        if isinstance(self.levels, bool) or not isinstance(self.levels, int | np.integer):
            raise ValueError(f"levels must be a whole number, got levels={self.levels!r}")
        object.__setattr__(self, "levels", int(self.levels))
        if self.levels and self.kind not in {"value", "nullable"}:
            raise ValueError(f"a {self.kind} block has no levels, got levels={self.levels}")
        if self.levels and not 2 <= self.levels <= _MOST_LEVELS:
            raise ValueError(f"levels must be 0 or from 2 to {_MOST_LEVELS}, got levels={self.levels}")

    @property
    def first_cost(self) -> int:
        """Most that a replaced row moves this block's sums of v and sqrt 2 v^2 / K: squared, in units of K^2."""
        return _FIRST_COSTS[self.kind]

    @property
    def weight(self) -> float:
        """Expected squared norm of the standardised block."""
        return ONE_HOT_WEIGHT if self.kind == "one-hot" else float(self.width)

    @property
    def dimension(self) -> int:
        """Dimension of the space that the block's differences span."""
        return self.width - 1 if self.kind == "one-hot" else self.width


@dataclass(frozen=True)
class Layout:
    """All blocks of a row, and where they are."""

    blocks: tuple[Block, ...]

    @cached_property
    def first_cost(self) -> int:
        """Of all blocks together: the squared sensitivity of the first release in units of K^2."""
        return sum(block.first_cost for block in self.blocks)

    @cached_property
    def weight(self) -> float:
        """Expected squared norm of a standardised row."""
        return math.fsum(block.weight for block in self.blocks)

    @cached_property
    def dimension(self) -> int:
        """Dimension of the space in which standardised rows differ, at least 1."""
        return sum(block.dimension for block in self.blocks)

    @cached_property
    def starts(self) -> dict[Block, IntArray]:
        """First coordinate of each block, by kind and width."""
        ends = np.cumsum([block.width for block in self.blocks])
        starts = ends - [block.width for block in self.blocks]
        kinds = dict.fromkeys(self.blocks)
        return {
            kind: np.array([s for s, block in zip(starts, self.blocks, strict=True) if block == kind], dtype=np.int64)
            for kind in kinds
        }

    def _starts(self, kind: Kind) -> IntArray:
        found = [starts for block, starts in self.starts.items() if block.kind == kind]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    @cached_property
    def values(self) -> IntArray:
        """Coordinates that are numbers."""
        return np.sort(np.concatenate([self._starts("value"), self._starts("nullable") + 1]))

    @cached_property
    def flag_of(self) -> list[int]:
        """For each of `values` the coordinate that says whether it is missing, or -1."""
        flags = set(self.flags.tolist())
        return [column - 1 if column - 1 in flags else -1 for column in self.values.tolist()]

    @cached_property
    def levels(self) -> list[int]:
        """For each of `values` the number of its levels, or 0."""
        return [block.levels for block in self.blocks if block.kind in {"value", "nullable"}]

    @cached_property
    def binaries(self) -> IntArray:
        """Coordinates of binary blocks."""
        return self._starts("binary")

    @cached_property
    def flags(self) -> IntArray:
        """Coordinates that say whether the next one is missing."""
        return self._starts("nullable")

    @cached_property
    def one_hots(self) -> list[slice]:
        """The one-hot blocks."""
        return [
            slice(int(start), int(start) + block.width)
            for block, starts in self.starts.items()
            if block.kind == "one-hot"
            for start in starts
        ]

    @cached_property
    def numeric(self) -> bool:
        """Whether there is nothing but values."""
        return all(block.kind == "value" for block in self.blocks)

    def broken(self, lattice: IntArray) -> list[int]:
        """Numbers of the blocks of which some row, in [0, 2^16], breaks the rule."""
        ends = np.cumsum([block.width for block in self.blocks])
        found = []
        for number, (block, end) in enumerate(zip(self.blocks, ends.tolist(), strict=True)):
            cells = lattice[:, end - block.width : end]
            if block.levels:
                present = cells[cells[:, 0] == 0, 1] if block.kind == "nullable" else cells[:, 0]
                if not np.all(np.isin(present, level_points(block.levels))):
                    found.append(number)
                    continue
            if block.kind == "value":
                continue
            two_valued = cells[:, :1] if block.kind == "nullable" else cells
            kept = np.all((two_valued == 0) | (two_valued == _HIGHEST))
            if block.kind == "one-hot":
                kept = kept and np.all(np.count_nonzero(cells, axis=1) == 1)
            elif block.kind == "nullable":
                kept = kept and np.all((cells[:, 0] == 0) | (cells[:, 1] == HALF_RANGE))
            if not kept:
                found.append(number)
        return found


@lru_cache(maxsize=64)
def level_points(levels: int) -> IntArray:
    """The lattice points round(j 2^16 / (levels - 1)); never halfway between two, as levels - 1 has no factor 2^17."""
    steps = levels - 1
    return (np.arange(levels, dtype=np.int64) * 2 * _HIGHEST + steps) // (2 * steps)


@lru_cache(maxsize=64)
def layout_of(blocks: tuple[Block, ...] | None, n_features: int) -> Layout:
    """The layout of a row of `n_features` coordinates; without blocks each is a value."""
    return Layout(blocks if blocks is not None else (Block("value", 1),) * n_features)
