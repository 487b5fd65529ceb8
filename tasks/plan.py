"""What a release would do, before anything is read or spent."""

import math

from schemas.plan import Plan, PlannedColumn
from schemas.spec import ReleaseSpec
from tasks.accounting import Mechanism, mechanism_of
from tasks.ledger import Ledger
from tasks.read_spec import spec_sha256

WARN_UNPERTURBED_CELLS = 0.1
REFUSE_UNPERTURBED_CELLS = 1.0
_WEAK_EPSILON = 10.0
_WEAK_DELTA = 1e-2


def make_plan(spec: ReleaseSpec, ledger: Ledger) -> Plan:
    """The plan of a spec: noise for each column, both guarantees, and what is left of the budget.

    Reads the ledger, never the source.
    """
    mechanism = mechanism_of(spec)
    record = mechanism.record(cells=None)
    balance = ledger.balance(spec.dataset, spec.privacy.budget)
    left = ledger.releases_left(spec.dataset, mechanism.events, spec.privacy.budget)
    per_row = mechanism.unperturbed_share * len(spec.table.features)
    warnings = guarantee_warnings(mechanism)
    if balance.budget != spec.privacy.budget:
        warnings.append(
            f"the ledger holds another budget for {spec.dataset} (epsilon {balance.budget.epsilon:g}, delta "
            f"{balance.budget.delta:g}); the release will be refused until the spec says the same"
        )
    if record.expected_magnitude is not None and record.expected_magnitude > 1:
        warnings.append(
            f"the noise on a cell is typically {record.expected_magnitude:.3g} times its column's whole range; little "
            "of the data will be left"
        )
    if spec.uncovered and not spec.privacy.allow_uncovered:
        warnings.append("the release will be refused: it is not covered and `allow_uncovered` is not set")
    if left == 0:
        warnings.append("the release does not fit what is left of the budget; it will be refused")
    return Plan(
        dataset=spec.dataset,
        spec_sha256=spec_sha256(spec),
        columns=[
            PlannedColumn(
                name=name,
                type=column.type,
                bounds=column.bounds,
                unit=column.unit,
                expected_error=_in_own_unit(record.expected_magnitude, column.bounds),
            )
            for name, column in spec.table.features.items()
        ],
        label=spec.table.label,
        mechanism=record,
        guarantee=mechanism.guarantees,
        balance=balance,
        fits_budget=left > 0,
        releases_left=left,
        unperturbed_cells_per_row=per_row,
        rows_before_warning=_rows_before(WARN_UNPERTURBED_CELLS, per_row),
        rows_before_refusal=_rows_before(REFUSE_UNPERTURBED_CELLS, per_row),
        uncovered=spec.uncovered,
        warnings=warnings,
    )


def guarantee_warnings(mechanism: Mechanism) -> list[str]:
    """What a reader must know before trusting the guarantee's numbers."""
    record = mechanism.guarantees.record
    warnings = []
    if record.epsilon > _WEAK_EPSILON or record.delta > _WEAK_DELTA:
        warnings.append(
            f"at record level the guarantee is epsilon {record.epsilon:.6g}, delta {record.delta:.3g}: no meaningful "
            "protection of a whole row; rely on the element level only"
        )
    return warnings


def unperturbed_warning(cells: int, mechanism: Mechanism) -> str | None:
    """A warning if more than 0.1 cells are expected to get no noise at all."""
    expected = cells * mechanism.unperturbed_share
    if expected <= WARN_UNPERTURBED_CELLS:
        return None
    return f"{expected:.3g} of {cells} cells are expected to be passed over by the noise (cells x delta)"


def _rows_before(cells: float, per_row: float) -> int | None:
    """Rows up to which no more than `cells` cells are expected; None if no table is that long."""
    rows = cells / per_row if per_row else math.inf
    return math.floor(rows) if rows < 1e15 else None


def _in_own_unit(expected_magnitude: float | None, bounds: tuple[float, float]) -> float | None:
    return None if expected_magnitude is None else expected_magnitude * (bounds[1] - bounds[0])
