"""The part of the audit page that says how a release was made: noise, smoothing, and their figures."""

from collections import Counter

from schemas.audit import AuditReport
from schemas.guarantee import ComparedMechanism, MechanismRecord
from tasks.reporting import figures
from tasks.reporting.figure import Figure
from tasks.reporting.numbers import (
    NBSP,
    count,
    percent,
    plural,
    significant,
)
from tasks.reporting.words import (
    stop_rule,
)


def noise_figure(report: AuditReport) -> Figure:
    """How large the noise on a value is, beside its range."""
    heading = "Expected noise on a cell beside the range of its column"
    size = report.mechanism.expected_magnitude
    if size is None and report.mechanism.name != "private-moments":
        return Figure(heading, None, "The features are categories: random responses took their places.")
    if size is None:
        reading = "No cell got noise of its own: rows were drawn from noisy sums over all rows (private moments)."
        return Figure(heading, None, reading)
    moved = f"noise is expected to move a cell by {significant(100 * size, 3)}{NBSP}% of its column's whole range"
    numbers, categories = _columns_of(report.mechanism, "value"), _columns_of(report.mechanism, "category")
    reading = f"{moved[:1].upper()}{moved[1:]}, before smoothing"
    if categories:
        of, got = plural(numbers, "column"), plural(categories, "column")
        reading = (
            f"In {of} of numbers, {moved}, before smoothing; {got} of categories "
            f"{'has' if categories == 1 else 'have'} random responses instead"
        )
    sizes = {part.expected_magnitude for part in report.mechanism.parts if part.what == "value"}
    reading += ". It is a mean over columns with different noise." if len(sizes) > 1 else "."
    reading += " The number follows from the mechanism; it was not measured."
    description = "Two bars: the whole range of a column, which is 1, and the expected size of the noise on one cell. "
    return Figure(heading, figures.noise_size(size, "noise", heading, description + reading), reading)


def _columns_of(mechanism: MechanismRecord, what: str) -> int:
    return sum(len(part.columns) for part in mechanism.parts if part.what == what)


_MECHANISMS = {
    "dirac-laplace": "Laplace noise, but none at all with the small probability delta",
    "staircase": "noise whose law falls in steps",
    "dirac-staircase": "noise whose law falls in steps, but none at all with the small probability delta",
    "truncated-laplace": "Laplace noise, cut off at its ends",
    "gaussian": "Gaussian noise",
    "lattice-optimal": "the noise with the least expected size, found by a linear programme",
    "private-moments": "Gaussian noise on sums over all rows, from which new rows are drawn",
    "randomized-response": "random answers in the categories' places",
    "unary-randomized-response": "random answers, one for each category",
}

_PARAMETERS = {
    "epsilon": "Epsilon of the noise",
    "delta": "Delta of the noise",
    "mu": "Strength of the release as Gaussian differential privacy (mu; smaller is more private)",
    "rows": "Rows that the noise was set for",
    "columns": "Encoded columns",
    "classes": "Classes of the label",
    "value_blocks": "Columns of numbers without missing values",
    "binary_blocks": "Columns with two possibilities",
    "one_hot_blocks": "Columns with three or more categories",
    "nullable_blocks": "Columns of numbers that may be missing",
    "radius_steps": "Largest length of a standardised row, in grid steps; longer ones are shortened",
    "covariance_by_class": "Covariances released for each class",
    "marginals_share": "Share of the privacy budget spent on histograms of the columns (of mu squared)",
    "marginals_bins": "Intervals of a column's histogram",
    "marginals_by_class": "Histograms released for each class",
    "marginals_noise": "Noise on a count in a column's histogram, in rows (standard deviation)",
    "sums_noise": "Noise on a column's sum, in lattice steps (standard deviation, as below)",
    "squares_noise": "Noise on a column's sum of squares, in squared lattice steps",
    "counts_noise": "Noise on a class's size, in rows",
    "class_sums_noise": "Noise on a column's sum in a class, in grid steps",
    "diagonal_noise": "Noise on a variance's sum, in squared grid steps",
    "above_diagonal_noise": "Noise on a covariance's sum, in squared grid steps",
    "spacing": "Lattice step, as a part of a column's whole range",
    "sensitivity": "How far a value may move between adjacent tables, in lattice steps",
    "sensitivity_steps": "How far a value may move between adjacent tables, in lattice steps",
    "rise": "Width of the top step of the noise's law (its rise), in lattice steps",
    "standard_deviation": "Standard deviation of the noise, in lattice steps",
    "bound": "Largest noise that is possible, in lattice steps",
    "ends": "Steps of the noise's law",
    "weights": "Heights of those steps",
    "n_categories": "Possible answers",
    "sampling_bias": "Sampler's distance from its law, at most (total variation)",
}
_COUNT_STEPS = 1024
"""Counts of histograms are released in 2^-10 rows, so their noise is stated in those."""


def _parameter_name(key: str) -> str:
    return _PARAMETERS.get(key, f"Parameter {key.replace('_', ' ')}")


def _parameter(key: str, value: bool | float | list[float] | list[int]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return plural(len(value), "number")
    if key == "marginals_noise":
        return significant(value / _COUNT_STEPS, 3)
    if key == "spacing" and value > 0 and (1 / value).is_integer():
        return f"1/{count(int(1 / value))}"
    if key == "marginals_share":
        return percent(value)
    if key.endswith("_noise"):
        return significant(value, 3)
    return count(value) if isinstance(value, int) else significant(value, 4)


def _mechanism(name: str) -> str:
    return f"{name} ({_MECHANISMS[name]})" if name in _MECHANISMS else name


def _compared(row: ComparedMechanism) -> str:
    if row.expected_magnitude is None:
        return f"not computed ({row.reason})"
    return f"{significant(row.expected_magnitude)} of a column's whole range"


def _part_rows(mechanism: MechanismRecord) -> list[tuple[str, str]]:
    """What was run on which columns, where that was not the same for all."""
    if len(mechanism.parts) < 2:
        return []
    rows = []
    for part in mechanism.parts:
        columns = plural(len(part.columns), "column") if len(part.columns) > 3 else ", ".join(part.columns)
        if part.change_probability is None:
            effect = (
                "size of the noise not computed"
                if part.expected_magnitude is None
                else f"expected size {significant(part.expected_magnitude)} of the whole range"
            )
        else:
            effect = f"another answer expected in {percent(part.change_probability)} of the rows"
        what = {"value": "Values", "category": "Categories", "missing": "Whether values are missing"}[part.what]
        rows.append((f"{what} of {columns}", f"{part.name}, {effect}"))
    return rows


def fabrication_rows(report: AuditReport) -> list[tuple[str, str]]:
    """What was run and with which numbers, name and value."""
    fabrication, mechanism = report.fabrication, report.mechanism
    rows = [
        ("Mechanism", _mechanism(mechanism.name)),
        *((_parameter_name(key), _parameter(key, value)) for key, value in mechanism.parameters.items()),
        *((f"Expected size of {row.name} noise", _compared(row)) for row in mechanism.compared),
        *_part_rows(mechanism),
        ("Dimension of the affine hull machines", count(fabrication.components)),
        ("Smoothing stops after", stop_rule(fabrication.stop)),
        ("Shards", f"{count(fabrication.shards)}, of some {plural(fabrication.shard_rows, 'row')}, twice that at most"),
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
        moved = percent(fabrication.rows_projected / max(report.rows, 1), 1)
        rows.append(
            (
                "Fabricated rows moved to obey the constraints",
                f"{count(fabrication.rows_projected)}, which is {moved} of the {plural(report.rows, 'released row')}",
            )
        )
    if fabrication.shards_unsettled:
        rows.append(("Shards in which the stop rule was not met", count(fabrication.shards_unsettled)))
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
