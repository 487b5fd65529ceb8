"""What the noise will do to each column, from public numbers alone: for a plan."""

import math
from collections.abc import Mapping

from schemas.columns import (
    BooleanColumn,
    CategoricalColumn,
    DateColumn,
    DatetimeColumn,
    FeatureColumn,
    IntegerColumn,
    NumericColumn,
    OrdinalColumn,
)
from schemas.errors import RequestRefused
from schemas.plan import PlannedColumn
from schemas.spec import ReleaseSpec, Weights
from tasks.accounting import CellNoise, Mechanism, Moments, Part
from tasks.accounting.groups import CategoryResponse
from tasks.accounting.lattice import SPACING

USELESS_BELOW, DOUBTFUL_BELOW = 0.15, 1.0
"""Signal-to-noise below which classifiers trained on a release were hardly ever, and not always, better than the
largest class (benchmark tables, README)."""

_SIGNAL = 0.1  # of the range or of the frequency, by which two classes are taken to differ
_DEVIATION = 0.2  # of a column within a class, in scaled units; a uniform one has 0.29


def planned_columns(spec: ReleaseSpec, mechanism: Mechanism) -> list[PlannedColumn]:
    """Each feature with the noise it will get."""
    parts = {} if isinstance(mechanism, Moments) else _parts_of(mechanism)
    ratios = _ratios(spec, mechanism)
    drawn = _mean_errors(spec, mechanism) if isinstance(mechanism, Moments) else {}
    shares = _shares(spec)
    return [
        PlannedColumn(
            name=name,
            type=column.type,
            domain=domain_in_words(column),
            unit=_unit(column),
            expected_error=_expected_error(column, parts.get(name, {})),
            expected_change=_change(parts.get(name, {})),
            error=drawn.get(name, "") or _error_in_words(column, parts.get(name, {}), shares.get(name)),
            epsilon=None if name not in shares else shares[name],
            signal_to_noise=ratios.get(name),
        )
        for name, column in spec.table.features.items()
    ]


def table_signal_to_noise(columns: list[PlannedColumn]) -> float | None:
    """The ratio of all columns together: of the root summed squared signals to the root summed squared noises.

    Signals are equal by assumption, so this is the harmonic mean of the squared ratios, rooted. A classifier that
    weighs columns by what it sees of them in the released rows points where it should by cos = r / sqrt(1 + r^2).
    """
    ratios = [column.signal_to_noise for column in columns if column.signal_to_noise is not None]
    if not ratios:
        return None
    return math.sqrt(len(ratios) / math.fsum(1 / max(ratio, 1e-9) ** 2 for ratio in ratios))


def domain_in_words(column: FeatureColumn) -> str:
    """Bounds or the number of categories."""
    if isinstance(column, CategoricalColumn | OrdinalColumn):
        text = f"{len(column.levels)} categories" if len(column.levels) > 1 else "1 category"
    elif isinstance(column, BooleanColumn):
        text = "false or true"
    else:
        lower, upper = (f"{b:g}" if isinstance(b, int | float) else b.isoformat() for b in column.bounds)
        text = f"{lower} to {upper}"
    return text + (", or missing" if column.nullable else "")


def _parts_of(noise: CellNoise) -> dict[str, dict[str, Part]]:
    found: dict[str, dict[str, Part]] = {}
    for part in noise.parts:
        for name in part.columns:
            found.setdefault(name, {})[part.what] = part
    return found


def _unit(column: FeatureColumn) -> str:
    if isinstance(column, DateColumn | DatetimeColumn):
        return "days"
    return "places" if isinstance(column, OrdinalColumn) else column.unit


def _magnitude(parts: Mapping[str, Part]) -> float | None:
    return parts["value"].noise.expected_magnitude() * SPACING if "value" in parts else None  # type: ignore[union-attr]


def _expected_error(column: FeatureColumn, parts: Mapping[str, Part]) -> float | None:
    size = _magnitude(parts)
    if size is None or getattr(column, "log_offset", None) is not None:
        return None
    match column:
        case OrdinalColumn():
            return size * (len(column.levels) - 1)
        case DateColumn() | DatetimeColumn():
            return size * (column.bounds[1] - column.bounds[0]).total_seconds() / 86_400
        case CategoricalColumn() | BooleanColumn():
            return None
        case _:
            return size * (column.bounds[1] - column.bounds[0])


def _change(parts: Mapping[str, Part]) -> float | None:
    return parts["category"].noise.change_probability if "category" in parts else None  # type: ignore[union-attr]


def _error_in_words(column: FeatureColumn, parts: Mapping[str, Part], epsilon: float | None) -> str:
    if not parts:
        return ""
    texts = []
    error, size, change = _expected_error(column, parts), _magnitude(parts), _change(parts)
    if error is not None:
        texts.append(f"typical error {error:.3g} {_unit(column)}".rstrip())
    elif size is not None and isinstance(column, NumericColumn | IntegerColumn) and column.log_offset is not None:
        lower, upper = (bound + column.log_offset for bound in column.bounds)
        offset = f" (of the value plus {column.log_offset:g})" if column.log_offset else ""
        factor = (
            f"a factor of {math.exp(size * math.log(upper / lower)):.3g}" if size < 1 else "more than the whole range"
        )
        texts.append(f"typically wrong by {factor}{offset}")
    if change is not None:
        texts.append(f"another category in {100 * change:.3g} % of the rows")
    if "missing" in parts:
        wrong = parts["missing"].noise.change_probability  # type: ignore[union-attr]
        texts.append(f"whether missing wrong in {100 * wrong:.3g} %")
    if epsilon is not None:
        texts.append(f"at epsilon {epsilon:.3g}")
    return ", ".join(texts)


def _shares(spec: ReleaseSpec) -> dict[str, float]:
    """Each column's epsilon, where the spec gives them weights for cells."""
    split = spec.privacy.split
    if not isinstance(split, Weights) or spec.privacy.unit != "element":
        return {}
    weights = {name: split.weights.get(name, 1.0) for name in spec.table.features}
    heaviest = max(weights.values())
    return {name: spec.privacy.epsilon * weight / heaviest for name, weight in weights.items()}


def _mean_errors(spec: ReleaseSpec, moments: Moments) -> dict[str, str]:
    """What the noise does to the mean of each column, in words; empty while the number of rows is not declared."""
    if spec.table.rows is None:
        return {}
    members = max(2, round(spec.table.rows * (1 - spec.evaluation.control_fraction)))
    try:
        size = moments.for_rows(members).expected_noise().column_mean
    except RequestRefused:
        return {}
    words = {}
    for name, column in spec.table.features.items():
        match column:
            case CategoricalColumn() | BooleanColumn():
                words[name] = f"each share typically off by {100 * size:.2g} points"
            case OrdinalColumn():
                words[name] = f"mean typically off by {size * (len(column.levels) - 1):.2g} places"
            case DateColumn() | DatetimeColumn():
                days = (column.bounds[1] - column.bounds[0]).total_seconds() / 86_400
                words[name] = f"mean typically off by {size * days:.2g} days"
            case _ if column.log_offset is None:
                error = size * (column.bounds[1] - column.bounds[0])
                words[name] = f"mean typically off by {error:.2g} {column.unit}".rstrip()
            case _:
                words[name] = f"mean of the logarithms typically off by {100 * size:.2g} % of their range"
    return words


def _ratios(spec: ReleaseSpec, mechanism: Mechanism) -> dict[str, float]:
    if spec.table.rows is None:
        return {}
    members = max(2, round(spec.table.rows * (1 - spec.evaluation.control_fraction)))
    class_rows = members / len(spec.table.classes)
    if isinstance(mechanism, Moments):
        try:
            noise = mechanism.for_rows(members).expected_noise()
        except RequestRefused:
            return {}
        # the noise of two class means, and what sampling the rows adds, both in column deviations
        error = math.sqrt(2.0 / noise.class_signal_to_noise**2 + 2.0 / class_rows)
        return dict.fromkeys(spec.table.features, _SIGNAL / _DEVIATION / error)
    ratios = {}
    for name, own in _parts_of(mechanism).items():
        variance, signal = 0.0, 0.0
        for part in own.values():
            if isinstance(part.noise, CategoryResponse):
                k = part.noise.n_categories
                variance += part.noise.estimate_variance + 1.0 - 1.0 / k
                signal += 2.0 * _SIGNAL**2
            else:
                # a law's variance is about twice its squared mean magnitude, as Laplace's is
                variance += 2.0 * (part.noise.expected_magnitude() * SPACING) ** 2 + _DEVIATION**2
                signal += _SIGNAL**2
        ratios[name] = math.sqrt(signal / (2.0 * variance / class_rows))
    return ratios
