"""How often categories occur in the fabricated column and in the real one, without the exact share of a rare one."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.measures import FEWEST_ROWS, NotComputed
from schemas.utility import CategoryUtility

_MOST_NAMES = 4
"""Joined categories that are named one by one."""


def _to_join(counts: list[int]) -> list[int]:
    """Places of the categories that are shown as one: the rare ones, and of the others as many as hide them.

    Shares add up to 1, so that the joined categories' rows are known together: there must be enough of them.
    """
    joined = [place for place, count in enumerate(counts) if 0 < count < FEWEST_ROWS]
    held = sum(counts[place] for place in joined)
    others = sorted((count, place) for place, count in enumerate(counts) if count >= FEWEST_ROWS)
    if joined and held < FEWEST_ROWS and others:
        joined.append(others[0][1])
    return sorted(joined)


def join_rare(real: ArrayLike, fabricated: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Codes in which the categories that `compare_categories` would show as one are one.

    Parameters
    ----------
    real, fabricated : array-like of int, shape (n,) and (m,)
        Codes from 0, a missing value having one of its own.

    Returns
    -------
    real, fabricated : ndarray of int64, of the same shapes
    """
    codes = [np.asarray(column, dtype=np.int64) for column in (real, fabricated)]
    size = 1 + max(int(own.max(initial=0)) for own in codes)
    place_of = np.arange(size)
    joined = _to_join(np.bincount(codes[0], minlength=size).tolist())
    if joined:
        place_of[joined] = joined[0]
    return place_of[codes[0]], place_of[codes[1]]


def _joined_name(names: list[str]) -> str:
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[: _MOST_NAMES - 1])} and {len(names) - _MOST_NAMES + 1} others"


def compare_categories(
    real: ArrayLike,
    fabricated: ArrayLike,
    categories: Sequence[str],
    *,
    nullable: bool,
    name: str,
    not_computed: list[NotComputed] | None = None,
) -> CategoryUtility:
    """How often each category occurs in a fabricated column and in the real one.

    Parameters
    ----------
    real, fabricated : array-like of int, shape (n,) and (m,)
        At least one row each. Places among `categories`, -1 where a value is missing.
    categories : sequence of str
    nullable : bool
        Whether missing values count as one more category.
    name : str
    not_computed : list of NotComputed, default=None
        What is missing, and why, is appended here.

    Returns
    -------
    CategoryUtility
        Categories with 1 to 9 real rows are joined to one entry, after the others and before `missing`; if together
        they have fewer than `FEWEST_ROWS` rows, the rarest of the other categories is joined as well, since what the
        shares leave of 1 would tell their rows. `total_variation` is over the entries that are shown, so it is at most
        that of all categories.

    Raises
    ------
    ValueError
        If a table has no row.
    """
    codes = [np.asarray(column, dtype=np.int64) for column in (real, fabricated)]
    if not all(own.size for own in codes):
        raise ValueError(f"real and fabricated must hold at least one row, got {codes[0].size} and {codes[1].size}")
    n_shown = len(categories) + nullable
    counts = [
        np.bincount(np.where(own < 0, len(categories), own), minlength=n_shown)[:n_shown].tolist() for own in codes
    ]
    names = [*categories, *(["missing"] if nullable else [])]
    joined = _to_join(counts[0])
    alone = [place for place in range(n_shown) if place not in joined]
    entries = [[place] for place in alone if place < len(categories)]
    entries += [joined] if joined else []
    entries += [[place] for place in alone if place >= len(categories)]
    shares = [
        [sum(own[place] for place in entry) / size for entry in entries]
        for own, size in zip(counts, (codes[0].size, codes[1].size), strict=True)
    ]
    if joined and not_computed is not None:
        not_computed.append(
            NotComputed(
                what=f"each category's own share in column `{name}`",
                reason=f"some have fewer than {FEWEST_ROWS} real rows; {len(joined)} categories are shown as one",
            )
        )
    return CategoryUtility(
        name=name,
        categories=[_joined_name([names[place] for place in entry]) for entry in entries],
        shares_real=shares[0],
        shares_fabricated=shares[1],
        total_variation=min(1.0, float(np.abs(np.subtract(shares[0], shares[1])).sum()) / 2),
    )
