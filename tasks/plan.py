"""What a release would do, before anything is read or spent."""

import math

from schemas.columns import DroppedColumn, IdentifierColumn
from schemas.errors import RequestRefused
from schemas.plan import Plan, PlannedClassifier
from schemas.spec import ReleaseSpec
from tasks.accounting import Mechanism, mechanism_of
from tasks.columns.layout import layout_of
from tasks.foresee import DOUBTFUL_BELOW, USELESS_BELOW, planned_columns, table_signal_to_noise
from tasks.ledger import Ledger
from tasks.read_spec import spec_sha256

WARN_UNPERTURBED_CELLS = 0.1
REFUSE_UNPERTURBED_CELLS = 1.0
_WEAK_EPSILON = 10.0
_WEAK_DELTA = 1e-2


def make_plan(spec: ReleaseSpec, ledger: Ledger) -> Plan:
    """The plan of a spec: noise for each column, both guarantees, what each private classifier costs, and what is
    left of the budget.

    Reads the ledger, never the source.
    """
    mechanism = mechanism_of(spec)
    refuse_contradiction(spec)
    if spec.table.rows is not None:  # else it is seen when the rows are counted, before anything is charged
        from tasks.private_classifiers import refuse_untrainable

        refuse_untrainable(spec, round(spec.table.rows * (1.0 - spec.evaluation.control_fraction)))
    record = mechanism.record(rows=None)
    columns = planned_columns(spec, mechanism)
    ratio = table_signal_to_noise(columns)
    balance = ledger.balance(spec.dataset, spec.privacy.budget)
    left = ledger.releases_left(spec.dataset, mechanism.events, spec.privacy.budget)
    per_row = mechanism.unperturbed_per_row
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
    if ratio is not None and ratio < DOUBTFUL_BELOW:
        how = "are hardly ever" if ratio < USELESS_BELOW else "are often not"
        warnings.append(
            f"the expected signal-to-noise is {ratio:.2g} for classes that differ by a tenth of the columns' ranges: "
            f"classifiers trained on such releases {how} better than always answering the largest class; use a larger "
            "epsilon, more rows, fewer columns, or another mechanism"
        )
    if record.expected_magnitude is not None and record.expected_magnitude > 1 and spec.privacy.unit == "record":
        warnings.append(
            "for a guarantee about whole rows mechanism: private-moments usually keeps far more of the data"
        )
    if spec.table.rows is not None:
        members = round(spec.table.rows * (1.0 - spec.evaluation.control_fraction))
        if few_unperturbed := unperturbed_warning(members, mechanism):
            warnings.append(few_unperturbed)
    if spec.uncovered and not spec.privacy.allow_uncovered:
        warnings.append("the release will be refused: it is not covered and `allow_uncovered` is not set")
    if left == 0:
        warnings.append("the release does not fit what is left of the budget; it will be refused")
    return Plan(
        dataset=spec.dataset,
        spec_sha256=spec_sha256(spec),
        columns=columns,
        label=spec.table.label,
        unit=spec.privacy.unit,
        public_columns=list(spec.table.public),
        surrogate_columns=[n for n, c in spec.table.columns.items() if isinstance(c, IdentifierColumn)],
        dropped_columns=[n for n, c in spec.table.columns.items() if isinstance(c, DroppedColumn)],
        encoded_columns=layout_of(spec.table).width,
        mechanism=record,
        guarantee=mechanism.guarantees,
        data_guarantee=mechanism.data_guarantees if mechanism.classifiers else None,
        classifiers=[
            PlannedClassifier(
                name=entry.classifier, trained_on=entry.trained_on, epsilon=entry.epsilon, delta=entry.delta
            )
            for entry in spec.evaluation.private_classifiers
        ],
        balance=balance,
        fits_budget=left > 0,
        releases_left=left,
        unperturbed_cells_per_row=per_row,
        rows_before_warning=_rows_before(WARN_UNPERTURBED_CELLS, per_row),
        rows_before_refusal=_rows_before(REFUSE_UNPERTURBED_CELLS, per_row),
        signal_to_noise=ratio,
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


def refuse_contradiction(spec: ReleaseSpec) -> None:
    """Refuse constraints that cannot hold together in any row of the declared domain.

    Raises
    ------
    RequestRefused
    """
    if spec.table.constraints:
        from tasks.columns.witness import contradiction

        if (fault := contradiction(spec.table)) is not None:
            raise RequestRefused(f"table.constraints: {fault}")


def unperturbed_warning(rows: int, mechanism: Mechanism) -> str | None:
    """A warning if more than 0.1 cells are expected to get no noise at all."""
    expected = rows * mechanism.unperturbed_per_row
    if expected <= WARN_UNPERTURBED_CELLS:
        return None
    return f"{expected:.3g} of the cells of {rows} rows are expected to be passed over by the noise (cells x delta)"


def _rows_before(cells: float, per_row: float) -> int | None:
    """Rows up to which no more than `cells` cells are expected; None if no table is that long."""
    rows = cells / per_row if per_row else math.inf
    return math.floor(rows) if rows < 1e15 else None
