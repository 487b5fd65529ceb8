"""Figures of what attackers achieved: ROC curves, densities, risks, and the empirical epsilon."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from schemas.attacks import AnyAttack, DensityDifference, EmpiricalEpsilon, PrivacyRisk, ReleasedClassifierAttack
from schemas.measures import TrainedOn
from tasks.reporting.figures.frame import COLOURS, DASHES, HAIR, INK, MARKS, MUTED, inline, panel, short_name
from tasks.reporting.numbers import fixed
from tasks.reporting.verdict import NO_BETTER, better_than_guessing

_MOST_POINTS = 300
"""Points of a curve; more would not show and make the page heavy."""
_NARROW = 3.35


def densities(
    difference: DensityDifference, trained_on: TrainedOn, name: str, title: str, description: str
) -> Markup | None:
    """Densities of the distances of members and control rows; `None` if the report holds none."""
    density = difference.density
    if len(density.grid) < 2 or not len(density.grid) == len(density.members) == len(density.controls):
        return None
    colour = COLOURS[trained_on]
    with panel(2.6, _NARROW) as (figure, axes):
        axes.fill_between(density.grid, density.members, color=colour, alpha=0.18, linewidth=0)
        axes.plot(density.grid, density.members, color=colour, linewidth=2, label="members")
        axes.plot(density.grid, density.controls, color=INK, linewidth=1.6, linestyle=(0, (4, 2)), label="control rows")
        axes.set_xlim(density.grid[0], density.grid[-1])
        axes.set_ylim(0, 1.3 * max(*density.members, *density.controls, 1e-12))
        axes.set_yticks([])
        axes.locator_params(axis="x", nbins=5)
        axes.set_ylabel("density")
        axes.set_xlabel("distance to the nearest class")
        axes.spines["left"].set_visible(False)
        axes.legend(loc="upper right", handlelength=2.2)
        return inline(figure, name, title, description)


def overlap(difference: DensityDifference) -> float | None:
    """Share of area that the two densities have in common, from the report's grid."""
    density = difference.density
    if len(density.grid) < 2 or not len(density.grid) == len(density.members) == len(density.controls):
        return None
    members, controls = np.asarray(density.members), np.asarray(density.controls)
    areas = [float(np.trapezoid(curve, density.grid)) for curve in (np.minimum(members, controls), members, controls)]
    share = 2 * areas[0] / (areas[1] + areas[2]) if areas[1] + areas[2] > 0 else math.nan
    return min(1.0, share) if math.isfinite(share) else None


def has_curve(attack: AnyAttack) -> bool:
    """Whether the report holds a ROC curve of this attack."""
    return 0 < len(attack.roc_false_positive_rate) == len(attack.roc_true_positive_rate)


def roc(attacks: Sequence[AnyAttack], name: str, title: str, description: str) -> Markup | None:
    """ROC curves of one attack, on each kind of data or on a released classifier; `None` if the report holds none."""
    curves = [attack for attack in attacks if has_curve(attack)]
    if not curves:
        return None
    with panel(3.3, _NARROW) as (figure, axes):
        axes.plot([0, 100], [0, 100], color=MUTED, linewidth=0.9)
        for attack in curves:
            false, true = attack.roc_false_positive_rate, attack.roc_true_positive_rate
            kept = np.unique(np.linspace(0, len(false) - 1, min(len(false), _MOST_POINTS)).round().astype(int))
            style: dict[str, Any] = {"color": INK, "linestyle": "solid", "label": "released classifier"}
            if not isinstance(attack, ReleasedClassifierAttack):
                kind = attack.trained_on
                style = {"color": COLOURS[kind], "linestyle": DASHES[kind], "label": kind}
            axes.plot(
                [0.0, *(100 * false[i] for i in kept)], [0.0, *(100 * true[i] for i in kept)], linewidth=2.2, **style
            )
        axes.set_xlim(-1, 101)
        axes.set_ylim(-1, 101)
        axes.set_aspect("equal")
        axes.set_xticks([0, 25, 50, 75, 100])
        axes.set_yticks([0, 25, 50, 75, 100])
        axes.grid(color=HAIR, linewidth=0.7)
        axes.set_xlabel("wrongly accused, %")
        axes.set_ylabel("members found, %")
        axes.legend(loc="lower right", handlelength=2.4, frameon=True, edgecolor="none", framealpha=0.9)
        return inline(figure, name, title, description)


def risks(groups: Sequence[tuple[str, Sequence[PrivacyRisk]]], name: str, title: str, description: str) -> Markup:
    """Risk beyond controls with its interval, and the rates that it is made of, a group of lines for each attack.

    Parameters
    ----------
    groups : sequence of (label, risks)
        The risks of a group are of different kinds of data.
    """
    rows = sum(len(each) for _, each in groups) + 0.95 * len(groups)
    rows += 0.85 * sum(not better_than_guessing(risk) for _, each in groups for risk in each)
    with panel(1.35 + 0.27 * rows) as (figure, axes):
        position = 0.0
        back = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}
        ticks: list[tuple[float, str]] = []
        lowest = min(0.0, *(risk.risk_beyond_controls.lower for _, each in groups for risk in each))
        left = max(-100.0, 100 * lowest) - 2  # what lies further left gets an arrow at the edge, and its number
        for label, each in groups:
            axes.text(
                left, position, short_name(label, 34), ha="left", va="center", fontweight="bold", fontsize=10, bbox=back
            )
            position += 0.95
            for risk in each:
                colour, beyond = COLOURS[risk.trained_on], risk.risk_beyond_controls
                axes.plot([100 * beyond.lower, 100 * beyond.upper], [position] * 2, color=colour, linewidth=2.2)
                style: dict[str, Any] = {"color": colour, "markersize": 7, "zorder": 3}
                if not better_than_guessing(risk):
                    style |= {"markerfacecolor": "white", "markeredgewidth": 1.6}
                axes.plot(100 * beyond.estimate, position, MARKS[risk.trained_on], **style)
                cut = beyond.estimate if 100 * beyond.estimate < left else beyond.lower
                if 100 * cut < left:
                    ends = "" if cut == beyond.estimate else "to "
                    axes.text(
                        left,
                        position,
                        f"◂ {ends}{fixed(100 * cut, 0)} %",
                        ha="left",
                        va="center",
                        color=colour,
                        fontsize=10,
                        bbox=back,
                        zorder=4,
                    )
                for rate, mark in ((risk.members, "|"), (risk.controls, "x"), (risk.naive, "+")):
                    axes.plot(
                        100 * rate.estimate, position, mark, color=MUTED, markersize=7, markeredgewidth=1.5, zorder=2
                    )
                ticks.append((position, risk.trained_on))
                position += 1
                if not better_than_guessing(risk):
                    said = f"↑ {NO_BETTER}"
                    axes.text(
                        left,
                        position - 0.1,
                        said,
                        ha="left",
                        va="center",
                        color=MUTED,
                        fontsize=10,
                        bbox=back,
                        zorder=4,
                    )
                    position += 0.85
        axes.axvline(0, color=INK, linewidth=1)
        for mark, words in (("|", "members"), ("x", "control rows"), ("+", "naive")):
            axes.plot([], [], mark, color=MUTED, markersize=7, markeredgewidth=1.5, label=words)
        axes.plot([], [], "o-", color=INK, markersize=6, linewidth=2, label="risk, interval")
        axes.set_ylim(position - 0.4, -0.6)
        axes.set_xlim(left, 102)
        axes.set_xticks([t for t in (-100, -50, 0, 25, 50, 75, 100) if t >= left])
        axes.set_yticks([t for t, _ in ticks], [words for _, words in ticks])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x", color=HAIR, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.set_xlabel("right guesses, and risk beyond control rows, %")
        figure.legend(loc="outside upper left", ncols=2, handlelength=1.6, columnspacing=1.4)
        return inline(figure, name, title, description)


def epsilons(empirical: EmpiricalEpsilon, name: str, title: str, description: str) -> Markup:
    """What canaries prove about epsilon, beside what is claimed, on one axis."""
    bars = [(bound.seen, bound.epsilon_lower_bound) for bound in empirical.bounds]
    reach = max(empirical.claimed_epsilon, *(value for _, value in bars), 1e-9)
    with panel(1.35 + 0.42 * len(bars)) as (figure, axes):
        for position, (seen, value) in enumerate(bars):
            axes.barh(position, value, height=0.5, color=COLOURS[seen], alpha=0.82, linewidth=0)
            axes.plot(value, position, MARKS[seen], color=COLOURS[seen], markersize=8)
        axes.axvline(empirical.claimed_epsilon, color=INK, linewidth=1.6, linestyle=(0, (4, 2)))
        right = empirical.claimed_epsilon > 0.6 * reach
        axes.text(
            empirical.claimed_epsilon,
            -0.55,
            "claimed " if right else " claimed",
            ha="right" if right else "left",
            va="bottom",
            fontsize=10.5,
        )
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_xlim(-0.02 * reach, reach * 1.06)
        axes.set_yticks(range(len(bars)), [seen for seen, _ in bars])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel("epsilon: proved to be at least this")
        return inline(figure, name, title, description)
