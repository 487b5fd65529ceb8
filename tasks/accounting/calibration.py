"""From a wanted record-level guarantee to the least noise on each cell."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from schemas.events import CellNoiseEvent
from tasks.accounting.composition import composed_epsilon
from tasks.accounting.gaussian_profile import gaussian_mu
from tasks.accounting.lattice import LATTICE_STEPS
from tasks.noise import LatticeGaussian, LatticeNoise, law_from_parameters

__all__ = ["PURE_FAMILIES", "Calibrated", "calibrate_cell_noise", "cell_noise_event", "compare_cell_noise"]

PRECISION = 1e-3
"""The composed epsilon of a calibrated law lies between (1 - PRECISION) and 1 times the wanted one."""
PURE_FAMILIES = frozenset({"staircase"})
"""Laws whose only parameter beside the sensitivity is epsilon."""
ATOM_FAMILIES = frozenset({"dirac-laplace", "dirac-staircase"})
"""Laws with delta as the probability of no noise, for which delta = 0 is allowed."""

_SHARES = (0.02, 0.5)
_MOST_STEPS = 60


@dataclass(frozen=True)
class Calibrated:
    """A law, by the name of its family, and what it costs."""

    family: str
    law: LatticeNoise
    expected_magnitude: float
    """In lattice steps."""


def cell_noise_event(law: LatticeNoise, shift_steps: int, count: int = 1) -> CellNoiseEvent:
    """The event of adding a law's noise to `count` cells that move by up to `shift_steps` steps each."""
    return CellNoiseEvent(law=law.name, parameters=law.parameters(), shift_steps=shift_steps, count=count)


def calibrate_cell_noise(
    family: str,
    epsilon: float,
    delta: float,
    dimensions: int,
    *,
    steps: int = LATTICE_STEPS,
    build: Callable[[float, float], LatticeNoise] | None = None,
) -> LatticeNoise:
    """The law of a family with the least expected magnitude that protects a whole row.

    Parameters
    ----------
    family : str
        The law's name, such as `dirac-laplace` or `gaussian`.
    epsilon, delta : float
        What `dimensions` cells, each moving by up to `steps` lattice steps, shall cost together.
    dimensions : int
        Number of cells of a row.
    steps : int, default=LATTICE_STEPS
        How far a cell may move: its whole range.
    build : callable, default=None
        `build(epsilon, delta)` gives the family's law for one cell; None asks `tasks.noise` by the family's name.

    Returns
    -------
    lattice law

    Raises
    ------
    ValueError
        If the family has no law for that guarantee, or it is unknown.

    Notes
    -----
    Gaussian: standard deviation sqrt(dimensions) steps / mu with the mu of (epsilon, delta), in closed form.

    Others have an epsilon per cell, found by a safeguarded secant search on the tight composition (on its safe side,
    to 0.1 %), and some a delta per cell. One cell: its delta is all of delta. Several: shares of delta / dimensions are
    tried, 0 and 2 % where delta is the probability of no noise, else 2 % and 50 %. Such an atom hardly lowers the
    mean magnitude (by a factor 1 - delta), but what it takes of delta is missing for the composition.

    Basic composition is tried as well, so the result is never noisier than equal shares of epsilon and delta.
    """
    if family == "gaussian" and build is None:
        sigma = math.sqrt(dimensions) * steps / gaussian_mu(epsilon, delta) * (1.0 + 1e-12)
        return LatticeGaussian(sigma, steps)
    if build is None:
        build = _builder(family, steps)
    pure = family in PURE_FAMILIES
    candidates = [build(_below(epsilon, dimensions), 0.0 if pure else _below(delta, dimensions))]
    if dimensions > 1 and delta > 0.0:
        shares = [0.0] if pure else [0.0, _SHARES[0]] if family in ATOM_FAMILIES else list(_SHARES)
        for share in shares:
            found = _search(build, epsilon, delta, share, dimensions, steps)
            if found is not None:
                candidates.append(found)
    return min(candidates, key=lambda law: float(law.expected_magnitude()))


def compare_cell_noise(
    families: Iterable[str], epsilon: float, delta: float, dimensions: int, *, steps: int = LATTICE_STEPS
) -> list[Calibrated]:
    """The calibrated laws of several families, least expected magnitude first; impossible ones left out."""
    found = []
    for family in families:
        if delta == 0.0 and family not in PURE_FAMILIES | ATOM_FAMILIES:
            continue
        law = calibrate_cell_noise(family, epsilon, delta, dimensions, steps=steps)
        found.append(Calibrated(family, law, float(law.expected_magnitude())))
    return sorted(found, key=lambda one: one.expected_magnitude)


def _builder(family: str, steps: int) -> Callable[[float, float], LatticeNoise]:
    def build(epsilon: float, delta: float) -> LatticeNoise:
        own = {"epsilon": epsilon, "sensitivity": steps}
        return law_from_parameters(family, own if family in PURE_FAMILIES else {**own, "delta": delta})

    return build


def _search(
    build: Callable[[float, float], LatticeNoise],
    epsilon: float,
    delta: float,
    share: float,
    dimensions: int,
    steps: int,
) -> LatticeNoise | None:
    """The law with the given share of delta whose composed epsilon is just below the wanted one."""
    cell_delta = share * _below(delta, dimensions)
    least = _below(epsilon, dimensions)  # basic composition already allows this much
    log_wanted = math.log(epsilon * (1.0 - 0.4 * PRECISION))

    def excess(log_cell: float) -> tuple[float, LatticeNoise]:
        law = build(math.exp(log_cell), cell_delta)
        spent = composed_epsilon([cell_noise_event(law, steps, dimensions)], delta)
        return math.log(max(spent, 1e-300)) - log_wanted, law

    # a Laplace cell's loss has about the variance epsilon^2, so many of them are like one Gaussian
    x = math.log(max(least, min(epsilon, gaussian_mu(epsilon, (1.0 - share) * delta) / math.sqrt(dimensions))))
    low, high = math.log(least) - 1e-12, math.inf
    best = None
    slope = 1.3  # between 1 (few or strong cells) and 2 (many strong ones)
    last: tuple[float, float] | None = None
    for _ in range(_MOST_STEPS):
        value, law = excess(x)
        if value <= math.log1p(0.4 * PRECISION):
            best = law if best is None or law.expected_magnitude() < best.expected_magnitude() else best
        if abs(value) <= 0.39 * PRECISION:
            break
        low, high = (max(low, x), high) if value <= 0.0 else (low, min(high, x))
        if last is not None and math.isfinite(value) and abs(x - last[0]) > 1e-9:
            slope = min(4.0, max(0.3, (value - last[1]) / (x - last[0])))
        last = (x, value) if math.isfinite(value) else last
        step = x - value / slope if math.isfinite(value) else -math.inf
        top = high if math.isfinite(high) else max(low, x) + 2.0
        x = step if low < step < top else 0.5 * (low + top)
        if top - low < 0.01 * PRECISION:
            break
    return best


def _below(total: float, parts: int) -> float:
    share = total / parts
    while parts * share > total:
        share = math.nextafter(share, 0.0)
    return share
