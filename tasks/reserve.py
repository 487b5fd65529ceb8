"""Charge the budget before noise is drawn, and refuse what must not be drawn."""

from schemas.errors import RequestRefused
from schemas.ledger import LedgerEntry
from schemas.spec import ReleaseSpec
from tasks.accounting import Mechanism
from tasks.ledger import Ledger
from tasks.plan import REFUSE_UNPERTURBED_CELLS
from tasks.step import step


def refuse_uncovered(spec: ReleaseSpec) -> None:
    """Refuse a release that the guarantee does not cover, unless the spec accepts it.

    Raises
    ------
    RequestRefused
    """
    if spec.uncovered and not spec.privacy.allow_uncovered:
        raise RequestRefused(
            "the guarantee does not cover this release: " + "; ".join(spec.uncovered) + ". Use stop: {steps: m} or "
            "{relative: rho}, or accept it with `allow_uncovered: true` under privacy. Nothing was spent"
        )


@step("Reserve budget")
def reserve(ledger: Ledger, spec: ReleaseSpec, release_id: str, mechanism: Mechanism, cells: int) -> LedgerEntry:
    """Charge the release at record level.

    Parameters
    ----------
    ledger : Ledger
    spec : ReleaseSpec
    release_id : str
    mechanism : CellNoise or Moments
    cells : int
        Number of cells that will be perturbed.

    Returns
    -------
    LedgerEntry

    Raises
    ------
    RequestRefused
        More than one cell is expected to get no noise and the spec does not accept that.
    BudgetRefused
        The budget does not allow it.
    """
    expected = cells * mechanism.unperturbed_share
    if expected > REFUSE_UNPERTURBED_CELLS and not spec.privacy.allow_unperturbed_cells:
        raise RequestRefused(
            f"{expected:.3g} of {cells} cells would be expected to get no noise at all (cells x delta); use a smaller "
            "delta, or accept it with `allow_unperturbed_cells: true` under privacy. Nothing was spent"
        )
    charge = mechanism.guarantees.record
    return ledger.reserve(spec.dataset, release_id, charge, mechanism.events, spec.privacy.budget)
