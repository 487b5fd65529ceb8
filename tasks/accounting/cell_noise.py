"""The guarantee of noise on every cell, at element and at record level.

Element level is exact: the hockey-stick divergence of the discrete law that is sampled. Record level composes the
cells of a row by basic composition, which is valid but not tight, and says so in its proof method.
"""

import math
from dataclasses import dataclass

from schemas.guarantee import BASIC_COMPOSITION_PROOF, ELEMENT_PROOF, Guarantee, Guarantees, MechanismRecord
from schemas.spec import Privacy
from tasks.accounting.lattice import LATTICE_STEPS, SPACING, lattice_distance
from tasks.noise import LatticeDiracLaplace


@dataclass(frozen=True)
class CellNoise:
    """The noise law that every cell gets, and the guarantees that follow from it.

    Attributes
    ----------
    law : LatticeDiracLaplace
        In lattice steps.
    guarantees : Guarantees
    """

    law: LatticeDiracLaplace
    guarantees: Guarantees

    def record(self, cells: int | None) -> MechanismRecord:
        """The mechanism as plans, manifests and reports state it, for a table of `cells` cells if that is known."""
        return MechanismRecord(
            name="dirac-laplace",
            chosen_from=["dirac-laplace"],
            parameters={
                "epsilon": self.law.epsilon,
                "delta": self.law.delta,
                "spacing": SPACING,
                "sensitivity_steps": self.law.sensitivity,
                "sampling_bias": self.law.sampling_bias,
            },
            expected_magnitude=self.law.expected_magnitude() * SPACING,
            expected_unperturbed_cells=None if cells is None else cells * self.law.delta,
        )


def cell_noise(privacy: Privacy, n_features: int) -> CellNoise:
    """The noise law for the guarantee that a spec asks for.

    Parameters
    ----------
    privacy : Privacy
        For `unit: element`, epsilon and delta are those of one cell that moves by at most `distance`; for
        `unit: record` they are shared out equally over the row's cells.
    n_features : int
        Number p of cells in a row.

    Returns
    -------
    CellNoise

    Notes
    -----
    Element level: neighbours differ in one cell by at most D lattice steps, D = ceil(distance / spacing). The law's
    own delta at epsilon is claimed, rounded upwards.

    Record level: a whole row is replaced, so each of its p cells may move by the full range of R steps. One cell is
    (epsilon R / D, delta_R)-indistinguishable with delta_R the law's exact delta for that epsilon at shift R; the
    row is (p epsilon R / D, p delta_R)-indistinguishable by basic composition (Dwork, Roth 2014, theorem 3.16).
    """
    if privacy.unit == "record":
        epsilon, delta = _share(privacy.epsilon, n_features), _share(privacy.delta, n_features)
        distance = LATTICE_STEPS
    else:
        epsilon, delta, distance = privacy.epsilon, privacy.delta, lattice_distance(privacy.distance)
    law = LatticeDiracLaplace(epsilon, delta, distance)
    full_range_epsilon = (
        epsilon if distance == LATTICE_STEPS else math.nextafter(epsilon * LATTICE_STEPS / distance, math.inf)
    )
    return CellNoise(
        law=law,
        guarantees=Guarantees(
            element=Guarantee(
                unit="element",
                epsilon=epsilon,
                delta=law.delta_at(epsilon),
                distance=distance * SPACING,
                neighbouring="replace_one_cell",
                labels="public",
                proof=ELEMENT_PROOF,
            ),
            record=Guarantee(
                unit="record",
                epsilon=n_features * full_range_epsilon,
                delta=min(1.0, n_features * law.delta_at(full_range_epsilon, LATTICE_STEPS)),
                distance=1.0,
                neighbouring="replace_one_record",
                labels="public",
                proof=BASIC_COMPOSITION_PROOF,
            ),
        ),
    )


def _share(total: float, parts: int) -> float:
    """The largest double near total / parts whose `parts`-fold does not exceed `total`."""
    share = total / parts
    while parts * share > total:
        share = math.nextafter(share, 0.0)
    return share
