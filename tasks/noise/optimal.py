"""Which mechanism adds the least: the family compared, on the line and on the lattice, and laws by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tasks.noise.dirac_laplace import DiracLaplace
from tasks.noise.dirac_staircase import DiracStaircase
from tasks.noise.gaussian import Gaussian
from tasks.noise.lattice_dirac_laplace import LatticeDiracLaplace
from tasks.noise.lattice_dirac_staircase import LatticeDiracStaircase
from tasks.noise.lattice_gaussian import LatticeGaussian
from tasks.noise.lattice_optimal import LatticeOptimal
from tasks.noise.lattice_staircase import LatticeStaircase
from tasks.noise.lattice_truncated_laplace import LatticeTruncatedLaplace
from tasks.noise.parameters import check_delta, check_epsilon, check_positive, check_steps
from tasks.noise.protocol import LatticeNoise
from tasks.noise.staircase import Staircase
from tasks.noise.truncated_laplace import TruncatedLaplace

__all__ = [
    "MECHANISMS",
    "Candidate",
    "ContinuousLaw",
    "comparison",
    "law_from_parameters",
    "optimal",
    "optimal_on_lattice",
]

ContinuousLaw: TypeAlias = DiracLaplace | Staircase | DiracStaircase | TruncatedLaplace | Gaussian

_PROGRAMME_FROM = 2e-5
"""Least delta at which the linear programme takes part: below, the best closed form is within 0.1 % of the limit."""

_ON_THE_LINE: tuple[Callable[[float, float, float], ContinuousLaw], ...] = (
    DiracStaircase,
    DiracLaplace,
    Staircase,
    TruncatedLaplace,
    Gaussian,
)


class Candidate(NamedTuple):
    """One row of a comparison."""

    name: str
    expected_magnitude: float | None
    """E|K| in lattice steps; None where the mechanism is not available."""
    reason: str | None
    """Why it is not."""


def _programme(epsilon: float, delta: float, sensitivity: int) -> LatticeOptimal:
    if delta < _PROGRAMME_FROM:
        raise ValueError(f"not solved for delta below {_PROGRAMME_FROM:g}: a closed form is within 0.1 % of the limit")
    return LatticeOptimal.solve(epsilon, delta, sensitivity)


_ON_THE_LATTICE: dict[str, Callable[[float, float, int], LatticeNoise]] = {
    "dirac-staircase": LatticeDiracStaircase,
    "dirac-laplace": LatticeDiracLaplace,
    "staircase": lambda epsilon, delta, sensitivity: LatticeStaircase(epsilon, sensitivity),
    "truncated-laplace": LatticeTruncatedLaplace,
    "gaussian": LatticeGaussian.calibrated,
    "lattice-optimal": _programme,
}

MECHANISMS = tuple(_ON_THE_LATTICE)
"""The names of all lattice laws; where two are equally good, the earlier one is taken."""


def optimal(
    epsilon: float, delta: float, sensitivity: float, unit: str = "element", dimensions: int = 1
) -> ContinuousLaw | LatticeNoise:
    """Give the member of the family with the least expected magnitude.

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    delta : float
        In [0, 1).
    sensitivity : float
        d, the largest distance by which one cell may move, in the unit of the data; for `unit="record"` in whole
        lattice steps.
    unit : {"element", "record"}, default="element"
        Whether (epsilon, delta) is about one cell, or about a whole row, each of whose cells moves by `sensitivity`.
    dimensions : int, default=1
        Cells of a row; for `unit="record"` only.

    Returns
    -------
    DiracLaplace, Staircase, DiracStaircase, TruncatedLaplace or Gaussian
        For one cell. For a whole row a lattice law, calibrated by tight composition over the row.

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """
    if unit == "record":
        from tasks.accounting.calibration import compare_cell_noise

        families = ("dirac-laplace", "staircase", "truncated-laplace", "gaussian")
        law: LatticeNoise = compare_cell_noise(
            families, epsilon, delta, check_steps("dimensions", dimensions, 2**20), steps=int(sensitivity)
        )[0].law
        return law
    if unit != "element":
        raise ValueError(f"unit must be 'element' or 'record', got {unit!r}")
    check_epsilon(epsilon), check_delta(delta), check_positive("sensitivity", sensitivity)
    laws, reasons = [], []
    for build in _ON_THE_LINE:
        try:
            laws.append(build(epsilon, delta, sensitivity))
        except ValueError as error:
            reasons.append(str(error))
    if not laws:
        raise ValueError(f"no mechanism of the family is available: {'; '.join(reasons)}")
    return min(laws, key=lambda law: law.expected_magnitude())


def optimal_on_lattice(
    epsilon: float, delta: float, sensitivity_steps: int, candidates: Sequence[str] | None = None
) -> LatticeNoise:
    """Give the lattice law with the least expected magnitude.

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    delta : float
        In [0, 1).
    sensitivity_steps : int
        D, the number of lattice steps by which one cell may differ.
    candidates : sequence of str, default=None
        Names from `MECHANISMS`; None means all.

    Returns
    -------
    LatticeNoise

    Raises
    ------
    ValueError
        If a parameter is outside its range, a name is unknown, or no candidate is available (the text says why).

    Notes
    -----
    Cost: some milliseconds for the closed forms, about 0.2 s (at most about 1 s) where the linear programme takes part.
    It does for delta of at least 2e-5 unless its support would be too large, see `LatticeOptimal.solve`.
    """
    rows, laws = _compared(epsilon, delta, sensitivity_steps, candidates)
    if not laws:
        raise ValueError("no mechanism is available: " + "; ".join(f"{row.name}: {row.reason}" for row in rows))
    return min(laws, key=lambda law: law.expected_magnitude())


def comparison(
    epsilon: float, delta: float, sensitivity_steps: int, candidates: Sequence[str] | None = None
) -> list[Candidate]:
    """Give the expected magnitude of each lattice law, or why there is none; parameters as `optimal_on_lattice`.

    Returns
    -------
    list of Candidate
        In the order of the candidates.
    """
    return _compared(epsilon, delta, sensitivity_steps, candidates)[0]


def _compared(
    epsilon: float, delta: float, sensitivity_steps: int, candidates: Sequence[str] | None
) -> tuple[list[Candidate], list[LatticeNoise]]:
    check_epsilon(epsilon), check_delta(delta), check_steps("sensitivity_steps", sensitivity_steps, 2**61)
    rows: list[Candidate] = []
    laws: list[LatticeNoise] = []
    for name in MECHANISMS if candidates is None else candidates:
        build = _ON_THE_LATTICE.get(name)
        if build is None:
            raise ValueError(f"unknown mechanism {name!r}; known are {', '.join(MECHANISMS)}")
        try:
            law = build(epsilon, delta, sensitivity_steps)
        except ValueError as error:
            rows.append(Candidate(name, None, str(error)))
        else:
            laws.append(law)
            rows.append(Candidate(name, law.expected_magnitude(), None))
    return rows, laws


def law_from_parameters(name: str, parameters: Mapping[str, Any]) -> LatticeNoise:
    """Build the lattice law again that gave `name` and `parameters()`, for instance from a manifest.

    Raises
    ------
    ValueError
        If the name is unknown, a parameter is missing, unknown or outside its range, or (for `lattice-optimal`)
        the weights do not have the guarantee that they come with.
    """
    classes: dict[str, Callable[..., LatticeNoise]] = {
        "dirac-laplace": LatticeDiracLaplace,
        "staircase": LatticeStaircase,
        "dirac-staircase": LatticeDiracStaircase,
        "truncated-laplace": LatticeTruncatedLaplace,
        "gaussian": LatticeGaussian,
        "lattice-optimal": LatticeOptimal,
    }
    if name not in classes:
        raise ValueError(f"unknown mechanism {name!r}; known are {', '.join(MECHANISMS)}")
    try:
        return classes[name](**parameters)
    except TypeError:
        raise ValueError(
            f"parameters of {name} are not what it takes: got {', '.join(sorted(map(str, parameters)))}"
        ) from None
