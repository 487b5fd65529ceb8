"""The three risks of anonymisation (Giomi et al. 2023): how often an attacker is right, beyond what holds of everyone.

Each attack is run on members and, in the same way, on control rows that had no part in the release. What is right of
control rows as well is what the data teach about everyone; the risk is what is left, as a part of what could be left.
As many control rows as members are attacked, and singling out is tried on tables of equal size, since a predicate that
matches exactly one row of 300 may match two of 700.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

import numpy as np

from schemas.attacks import PrivacyRisk, PrivacyRisks, RiskName
from schemas.measures import FEWEST_ROWS, Interval, NotComputed, TrainedOn
from tasks.audit.attribute_inference import (
    is_right,
    naive_guesses,
    nearest_by_others,
    secret_columns,
    span_tolerance,
)
from tasks.audit.columns_table import BoolArray, ColumnsTable, check_same_columns
from tasks.audit.linkability import linked, linked_at_random
from tasks.audit.proportion import wilson_interval
from tasks.audit.singling_out import (
    TRIES,
    predicates_of_one_column,
    predicates_of_several_columns,
    random_predicates,
    singles_out,
)

ONE_COLUMN, SEVERAL_COLUMNS = "one column", "several columns"
_METHOD = "MOVER-R for a ratio, from the Wilson intervals of both failure rates"


def risk_beyond_controls(members: Interval, controls: Interval) -> Interval:
    """What members risk beyond control rows, (members - controls) / (1 - controls), with its confidence interval.

    Parameters
    ----------
    members, controls : Interval
        Wilson intervals of the success rates, of independent samples and equal confidence.

    Returns
    -------
    Interval
        At most 1; negative where control rows fare worse. It has width also where a rate is 0 or 1.

    Raises
    ------
    ValueError
        If every guess about control rows was right, which leaves no room, or the confidences differ.

    Notes
    -----
    The risk is one minus a ratio of failure rates, (1 - members) / (1 - controls). Its interval propagates the errors
    of both, each taken as the distance of the Wilson limit from the estimate on the side that matters, where the paper
    propagates one symmetric error and cuts what is beyond 1. Exact coverage at nominal 95 %, over all pairs of 16
    rates from 0 to 1, is 0.946 or more for 500 guesses of each kind. For 100 guesses it is 0.936 or more, and for 30
    guesses 0.922, up to a rate of 0.95; above it is lower (0.82 at the least), as the few samples of control rows that
    leave anything to compute are not typical ones.

    References
    ----------
    M. Giomi et al.: Proceedings on Privacy Enhancing Technologies 2023 (2) 312-328, the residual risk.
    A. Donner, G. Y. Zou: Closed-form confidence intervals for functions of the normal mean and standard deviation.
    Statistical Methods in Medical Research 21 (2012) 347-359, the ratio, called MOVER-R by Newcombe.
    """
    if controls.estimate >= 1:
        raise ValueError("controls must be below 1, got 1: there is nothing beyond control rows")
    if members.confidence != controls.confidence:
        raise ValueError(f"confidences must be equal, got {members.confidence} and {controls.confidence}")
    p, p_low, p_high = 1 - members.estimate, 1 - members.upper, 1 - members.lower
    q, q_low, q_high = 1 - controls.estimate, 1 - controls.upper, 1 - controls.lower
    below = max(0.0, (p * q) ** 2 - p_low * (2 * p - p_low) * q_high * (2 * q - q_high))
    above = max(0.0, (p * q) ** 2 - p_high * (2 * p - p_high) * q_low * (2 * q - q_low))
    # the lower limit with its root in the denominator, as 2 q - q_high may be 0
    low = p_low * (2 * p - p_low) / (p * q + float(np.sqrt(below))) if p > 0 else 0.0
    high = (p * q + float(np.sqrt(above))) / (q_low * (2 * q - q_low))
    estimate = (members.estimate - controls.estimate) / (1 - controls.estimate)
    return Interval(
        estimate=estimate,
        lower=min(1 - high, estimate),
        upper=max(1 - low, estimate),
        confidence=members.confidence,
        method=_METHOD,
    )


class _Attack(NamedTuple):
    """Which guesses of one attack were right, or why there were none."""

    risk: RiskName
    variant: str
    right: tuple[BoolArray, BoolArray, BoolArray] | str
    """About members, about control rows, and naive."""


_WORDS: dict[RiskName, str] = {
    "singling-out": "singling out by {}",
    "linkability": "linkability by {}",
    "attribute-inference": "attribute inference of {}",
}


def _measured(attack: _Attack, trained_on: TrainedOn) -> PrivacyRisk | NotComputed:
    what = f"{_WORDS[attack.risk].format(attack.variant)} from {trained_on} rows"
    if isinstance(attack.right, str):
        return NotComputed(what=what, reason=attack.right)
    n = attack.right[0].size
    members, controls, naive = (wilson_interval(int(np.count_nonzero(right)), n) for right in attack.right)
    if controls.estimate == 1:
        reason = "every guess about control rows was right, so that nothing can be beyond them"
        return NotComputed(what=what, reason=reason)
    return PrivacyRisk(
        risk=attack.risk,
        variant=attack.variant,
        trained_on=trained_on,
        attacked=n,
        members=members,
        controls=controls,
        naive=naive,
        risk_beyond_controls=risk_beyond_controls(members, controls),
    )


def _singling_out(
    held: ColumnsTable, members: ColumnsTable, controls: ColumnsTable, n_wanted: int, seed: Sequence[int]
) -> Iterator[_Attack]:
    """Both kinds of predicates, on members and control rows of equal number."""
    for place, (variant, find) in enumerate(
        [(ONE_COLUMN, predicates_of_one_column), (SEVERAL_COLUMNS, predicates_of_several_columns)]
    ):
        several = variant == SEVERAL_COLUMNS
        if several and len(held.names) < 2:
            yield _Attack("singling-out", variant, "the table has a single column")
            continue
        generator = np.random.default_rng([*seed, place])
        predicates = find(held, n_wanted, generator)
        if len(predicates) < FEWEST_ROWS:
            reason = f"fewer than {FEWEST_ROWS} predicates were found that match exactly one held row"
            yield _Attack("singling-out", variant, reason)
            continue
        naive = random_predicates(held, len(predicates), several=several, generator=generator)
        hits = (singles_out(predicates, members), singles_out(predicates, controls), singles_out(naive, members))
        yield _Attack("singling-out", variant, hits)


def _linkability(
    held: ColumnsTable, members: ColumnsTable, controls: ColumnsTable, seed: Sequence[int]
) -> Iterator[_Attack]:
    if len(held.names) < 2:
        yield _Attack("linkability", "the nearest row", "the table has a single column, which cannot be split")
        return
    generator = np.random.default_rng(seed)
    right, right_controls = linked(held, members, generator), linked(held, controls, generator)
    for k in right:
        naive = linked_at_random(held.n_rows, k, members.n_rows, generator)
        variant = "the nearest row" if k == 1 else f"the {k} nearest rows"
        yield _Attack("linkability", variant, (right[k], right_controls[k], naive))


def _attribute_inference(
    held: ColumnsTable,
    members: ColumnsTable,
    controls: ColumnsTable,
    secrets: dict[int, float | None],
    seed: Sequence[int],
) -> Iterator[_Attack]:
    """Each secret column, with the tolerance that a guess of it has."""
    names = held.names
    if len(names) < 2:
        yield _Attack("attribute-inference", names[0], "the table has no other column")
        return
    generator = np.random.default_rng(seed)
    nearest = [nearest_by_others(held, rows, list(secrets), generator) for rows in (members, controls)]
    for place, (column, tolerance) in enumerate(secrets.items()):
        known = held.values[column]
        right = [
            is_right(known[near[place]], rows.values[column], tolerance)
            for near, rows in zip(nearest, (members, controls), strict=True)
        ]
        naive = naive_guesses(known, members.values[column], tolerance, generator)
        yield _Attack("attribute-inference", names[column], (right[0], right[1], naive))


def privacy_risks(
    members: ColumnsTable,
    controls: ColumnsTable,
    held: Mapping[TrainedOn, ColumnsTable],
    *,
    label: str,
    n_attacks: int = 500,
    seed: int,
) -> PrivacyRisks:
    """Singling out, linkability and attribute inference by attackers who hold each kind of rows.

    Parameters
    ----------
    members : ColumnsTable
        Rows used for fabrication.
    controls : ColumnsTable
        Rows kept out of it, with the same columns.
    held : mapping of str to ColumnsTable
        What the attacker holds, by kind, with the same columns; the order of its rows does not matter.
    label : str
        The column whose inference is measured in any case.
    n_attacks : int, default=500
        Guesses of each attack, at least `FEWEST_ROWS`; fewer where there are fewer rows or predicates.
    seed : int
        Not negative. It draws the attacked rows, which are the same for every kind of held rows, and all else.

    Returns
    -------
    PrivacyRisks
        Rates over at least `FEWEST_ROWS` guesses, and what could not be computed or only in part.

    Raises
    ------
    ValueError
        If columns differ, `label` is none of them, or a number is outside its range.

    Notes
    -----
    Singling out sees as many members as there are control rows. A predicate that would single out one of the members
    left aside counts as a miss: of a release that copies its members it finds only that part, and says so.
    Costs O(n_attacks n_held n_columns) time for each kind.

    References
    ----------
    M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi: A unified framework for quantifying privacy risk in synthetic data.
    Proceedings on Privacy Enhancing Technologies 2023 (2) 312-328.
    """
    for table in (controls, *held.values()):
        check_same_columns(members, table)
    if label not in members.names:
        raise ValueError(f"label must be one of {members.names}, got label={label!r}")
    if n_attacks < FEWEST_ROWS:
        raise ValueError(f"n_attacks must be at least {FEWEST_ROWS}, got n_attacks={n_attacks}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got seed={seed}")
    size = min(members.n_rows, controls.n_rows)
    if size < FEWEST_ROWS:
        side = "members" if members.n_rows < controls.n_rows else "control rows"
        reason = f"there are fewer than {FEWEST_ROWS} {side}"
        what = "the risk of singling out, linkability and attribute inference"
        return PrivacyRisks(risks=[], not_computed=[NotComputed(what=what, reason=reason)])

    draw = np.random.default_rng([seed, 0])
    same_size = [table.take(draw.permutation(table.n_rows)[:size]) for table in (members, controls)]
    targets = [table.take(np.arange(min(size, n_attacks))) for table in same_size]
    secrets: dict[int, float | None] = {
        column: None
        if members.is_category[column]
        else span_tolerance(np.concatenate([members.values[column], controls.values[column]]))
        for column in secret_columns(len(members.names), members.names.index(label))
    }
    risks: list[PrivacyRisk] = []
    missing: list[NotComputed] = []
    for place, kind in enumerate(get_args(TrainedOn)):
        if kind not in held:
            continue
        rows, seeds = held[kind].in_order(), [seed, 1 + place]
        if rows.n_rows < FEWEST_ROWS:
            what = f"the risk of singling out, linkability and attribute inference from {kind} rows"
            missing.append(NotComputed(what=what, reason=f"there are fewer than {FEWEST_ROWS} {kind} rows"))
            continue
        attacks = [
            *_singling_out(rows, same_size[0], same_size[1], n_attacks, [*seeds, 0]),
            *_linkability(rows, targets[0], targets[1], [*seeds, 1]),
            *_attribute_inference(rows, targets[0], targets[1], secrets, [*seeds, 2]),
        ]
        for attack in attacks:
            measured = _measured(attack, kind)
            if isinstance(measured, NotComputed):
                missing.append(measured)
            else:
                risks.append(measured)
                missing += _in_part(measured, n_attacks)
    if size < members.n_rows and any(risk.risk == "singling-out" for risk in risks):
        what = "singling out among all members"
        reason = (
            f"the comparison needs as many members as control rows: {size} of {members.n_rows} members were drawn, "
            "and singling out one of the others counts as a miss"
        )
        missing.append(NotComputed(what=what, reason=reason))
    return PrivacyRisks(risks=risks, not_computed=missing)


def _in_part(measured: PrivacyRisk, n_attacks: int) -> list[NotComputed]:
    """How many guesses fewer than wanted a figure rests on."""
    if measured.risk != "singling-out" or measured.attacked == n_attacks:
        return []
    what = f"singling out by {measured.variant} from {measured.trained_on} rows with all {n_attacks} guesses"
    reason = (
        f"the figure rests on the {measured.attacked} predicates that were found to match exactly one held row each"
    )
    if measured.variant == SEVERAL_COLUMNS:
        reason += f", in {TRIES * n_attacks} tries at most"
    return [NotComputed(what=what, reason=reason)]
