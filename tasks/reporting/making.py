"""The part of the audit page that says how a release was made: noise, smoothing, and their figures."""

from collections import Counter

from schemas.audit import AuditReport
from schemas.guarantee import ComparedMechanism, MechanismRecord
from tasks.reporting import figures
from tasks.reporting.figure import Figure
from tasks.reporting.numbers import (
    NBSP,
    percent,
    plural,
    significant,
)
from tasks.reporting.words import (
    stop_rule,
)


def noise_figure(report: AuditReport) -> Figure:
    """How large the noise on a value is, beside its range."""
    heading = "Noise on a cell beside the range of its column"
    size = report.mechanism.expected_magnitude
    if size is None and report.mechanism.name != "private-moments":
        return Figure(heading, None, "The features are categories: random responses took their places.")
    if size is None:
        reading = "No cell got noise of its own: rows were drawn from noisy sums over all rows (private moments)."
        return Figure(heading, None, reading)
    reading = (
        f"On average the noise moved a cell by {significant(100 * size, 3)}{NBSP}% of its column's whole range, before "
        "smoothing."
    )
    description = "Two bars: the whole range of a column, which is 1, and the expected size of the noise on one cell. "
    return Figure(heading, figures.noise_size(size, "noise", heading, description + reading), reading)


_PARAMETERS = {
    "mu": "Parameter mu of Gaussian differential privacy",
    "radius_steps": "Largest length of a standardised row, in grid steps",
    "covariance_by_class": "Covariances by class",
    "sums_noise": "Noise on a column's sum, in lattice steps (standard deviation, as below)",
    "squares_noise": "Noise on a column's sum of squares, in squared lattice steps",
    "counts_noise": "Noise on a class's size, in rows",
    "class_sums_noise": "Noise on a column's sum in a class, in grid steps",
    "diagonal_noise": "Noise on a variance's sum, in squared grid steps",
    "above_diagonal_noise": "Noise on a covariance's sum, in squared grid steps",
    "spacing": "Lattice spacing, in scaled units",
    "sensitivity": "How far a value may move, in lattice steps",
    "sampling_bias": "Sampler's distance from its law, at most (total variation)",
}


def _parameter_name(key: str) -> str:
    return _PARAMETERS.get(key, f"Parameter {key.replace('_', ' ')}")


def _parameter(value: bool | float | list[float] | list[int]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plural(len(value), "number") if isinstance(value, list) else significant(value, 6)


def _compared(row: ComparedMechanism) -> str:
    if row.expected_magnitude is None:
        return f"not computed ({row.reason})"
    return f"{significant(row.expected_magnitude)} (the whole range of a column is 1)"


def _part_rows(mechanism: MechanismRecord) -> list[tuple[str, str]]:
    """What was run on which columns, where that was not the same for all."""
    if len(mechanism.parts) < 2:
        return []
    rows = []
    for part in mechanism.parts:
        columns = plural(len(part.columns), "column") if len(part.columns) > 3 else ", ".join(part.columns)
        if part.change_probability is None:
            effect = f"E|v| {significant(part.expected_magnitude or 0.0)}"
        else:
            effect = f"another answer in {percent(part.change_probability)} of the rows"
        what = {"value": "Values", "category": "Categories", "missing": "Whether values are missing"}[part.what]
        rows.append((f"{what} of {columns}", f"{part.name}, {effect}"))
    return rows


def fabrication_rows(report: AuditReport) -> list[tuple[str, str]]:
    """What was run and with which numbers, name and value."""
    fabrication, mechanism = report.fabrication, report.mechanism
    rows = [
        ("Mechanism", mechanism.name),
        *((_parameter_name(key), _parameter(value)) for key, value in mechanism.parameters.items()),
        *((f"E|v| of {row.name}", _compared(row)) for row in mechanism.compared),
        *_part_rows(mechanism),
        ("Dimension of the affine hull machines", str(fabrication.components)),
        ("Smoothing stops after", stop_rule(fabrication.stop)),
        ("Shards", f"{fabrication.shards}, of some {fabrication.shard_rows} rows, twice that at most"),
    ]
    if fabrication.steps:
        tally = sorted(Counter(fabrication.steps).items())
        rows.append(
            ("Smoothing steps taken", ", ".join(f"{plural(s, 'step')} in {plural(n, 'shard')}" for s, n in tally))
        )
    else:
        rows.append(("Smoothing steps taken", "not computed (no shard was smoothed)"))
    restored = fabrication.marginals == "restored"
    shown = "given back as the noise-added data show them" if restored else "as smoothing left them"
    rows.append(("Distributions of the values, within classes", shown))
    if fabrication.rows_projected:
        rows.append(("Fabricated rows moved to obey the constraints", str(fabrication.rows_projected)))
    if fabrication.shards_unsettled:
        rows.append(("Shards in which the stop rule was not met", str(fabrication.shards_unsettled)))
    errors = fabrication.first_errors
    rows.append(
        (
            "Modeling error of the noise-added shards (summed distance, scaled units)",
            "not computed (no shard was smoothed)"
            if not errors
            else significant(errors[0])
            if len(errors) == 1
            else f"{significant(min(errors))} to {significant(max(errors))}",
        )
    )
    return rows
