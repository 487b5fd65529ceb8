"""What people see on the terminal: progress while a release runs, plans, ledgers, outcomes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from schemas.guarantee import ComparedMechanism
from schemas.ledger import Balance, LedgerEntry
from schemas.plan import MOST_RELEASES_COUNTED, Plan
from schemas.release import Publication

_MOST_COLUMNS_SHOWN = 40


class Terminal:
    """Progress on stderr, outcomes on stdout.

    Parameters
    ----------
    quiet : bool, default=False
        Show no progress and no notes.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.out = Console(highlight=False, soft_wrap=True)
        self.err = Console(stderr=True, highlight=False, soft_wrap=True)
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Show progress inside: a moving line on a terminal, a line a step elsewhere."""
        if self.quiet or not self.err.is_terminal:
            yield
            return
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.err,
            transient=True,
        ) as self._progress:
            try:
                yield
            finally:
                self._progress = None

    def started(self, step: str) -> None:
        """Begin a line of progress."""
        if self._progress is not None:
            self._task = self._progress.add_task(escape(step), total=None)

    def advanced(self, step: str, done: int, total: int) -> None:
        """Move the line of progress."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def finished(self, step: str, seconds: float) -> None:
        """Leave a line with the step's time."""
        if self._progress is not None and self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
        if not self.quiet:
            self.err.print(f"  {step:<24} {seconds:6.2f} s", markup=False)

    def noted(self, text: str) -> None:
        """Leave a line with something to read."""
        if not self.quiet:
            self.err.print(text, markup=False)

    def show_publication(self, outcome: Publication) -> None:
        """Paths and guarantee of a published release."""
        element, record = outcome.guarantee.element, outcome.guarantee.record
        lines = [f"release    {outcome.release}", f"report     {outcome.report}"]
        if element.labels == "covered":
            lines.append(f"guarantee  {record.sentence()}, by {record.proof}")
        else:
            lines.append(
                f"guarantee  {element.sentence()}; at record level epsilon = {record.epsilon:.6g}, delta = "
                f"{record.delta:.3g} by {record.proof}"
            )
        lines += [f"not covered by the guarantee: {what}" for what in outcome.uncovered]
        if self.quiet:
            lines = [str(outcome.release)]
        for line in lines:
            self.out.print(line, markup=False)

    def show_plan(self, plan: Plan) -> None:
        """A plan, as a person reads it."""
        law = plan.mechanism
        self.out.print(
            f"data set     {plan.dataset} ({len(plan.columns)} features, label `{plan.label}`)", markup=False
        )
        self.out.print(f"mechanism    {law.name}", markup=False)
        if law.name == "private-moments":
            self.out.print("noise        on class sizes and moments, perhaps histograms; rows are drawn from these")
        elif law.expected_magnitude is None:
            self.out.print("noise        random responses in the categories' places")
        else:
            self.out.print(
                f"noise        typically {law.expected_magnitude:.3g} of its column's range in a cell, before smoothing"
            )
        units = [plan.guarantee.element, plan.guarantee.record]
        asked, other = units if plan.unit == "element" else reversed(units)
        self.out.print(f"guarantee    {asked.sentence()}", markup=False)
        self.out.print(f"             {asked.proof}", markup=False)
        self.out.print(f"also         {other.sentence()}", markup=False)
        self.out.print(f"             {other.proof}", markup=False)
        for one in plan.classifiers:
            on = " and on ".join(f"{kind} rows" for kind in one.trained_on)
            cost = "costs nothing"
            if one.epsilon is not None:
                cost = f"released; costs epsilon {one.epsilon:g}, delta {one.delta:.3g} a record"
            self.out.print(f"classifier   {one.name}, trained on {on}; {cost}", markup=False)
        if plan.data_guarantee is not None:
            data = plan.data_guarantee
            self.out.print(
                "the data     alone: "
                + ", ".join(
                    f"{unit.unit} level epsilon = {unit.epsilon:.6g}, delta = {unit.delta:.3g}"
                    for unit in (data.element, data.record)
                ),
                markup=False,
            )
        for what in plan.uncovered:
            self.out.print(f"not covered  {what}", markup=False)
        charge, balance = plan.guarantee.record, plan.balance
        fitting = f"{'at least ' if plan.releases_left == MOST_RELEASES_COUNTED else ''}{plan.releases_left}"
        self.out.print(
            f"budget       epsilon {balance.budget.epsilon:g}, delta {balance.budget.delta:g} at record level; left: "
            f"{balance.remaining_epsilon:.6g}, {balance.remaining_delta:.3g}; this release costs {charge.epsilon:.6g}, "
            f"{charge.delta:.3g}; {fitting} such releases fit, since charges compose tightly"
        )
        if plan.rows_before_warning is not None:
            self.out.print(
                f"no noise     {plan.unperturbed_cells_per_row:.3g} cells a row are expected to get none; warning "
                f"above {plan.rows_before_warning} rows, refusal above {plan.rows_before_refusal}"
            )
        self.show_rows(
            ["column", "type", "domain", "what the noise does to a cell", "signal to noise"],
            [
                [_shown(c.name), c.type, c.domain, c.error, _ratio(c.signal_to_noise)]
                for c in plan.columns[:_MOST_COLUMNS_SHOWN]
            ],
        )
        if len(plan.columns) > _MOST_COLUMNS_SHOWN:
            self.out.print(f"and {len(plan.columns) - _MOST_COLUMNS_SHOWN} more columns (all of them with --json)")
        for what, names in (("as they are", plan.public_columns), ("made up", plan.surrogate_columns)):
            if names:
                self.out.print(f"released {what}: {', '.join(map(_shown, names))}", markup=False)
        if plan.dropped_columns:
            self.out.print(f"left out: {', '.join(map(_shown, plan.dropped_columns))}", markup=False)
        if plan.signal_to_noise is None:
            self.out.print("usefulness   declare the public number of rows (table.rows) to see it foretold")
        else:
            self.out.print(
                f"usefulness   signal-to-noise {plan.signal_to_noise:.2g} for class differences of a tenth of the range"
            )
        if len(law.compared) > 1:
            self.show_rows(["compared", "typical noise", ""], [_compared(row, law.name) for row in law.compared])
        for warning in plan.warnings:
            self.out.print(f"warning      {warning}", markup=False)

    def show_ledger(self, balances: Sequence[Balance], entries: Sequence[LedgerEntry], place: str) -> None:
        """Balances and entries."""
        if not entries:
            self.out.print(f"the ledger at {place} is empty", markup=False)
            return
        self.show_rows(
            ["data set", "budget epsilon", "delta", "spent epsilon", "delta", "left epsilon", "delta", "releases"],
            [
                [
                    b.dataset,
                    f"{b.budget.epsilon:g}",
                    f"{b.budget.delta:g}",
                    "none" if b.spent_epsilon is None else f"{b.spent_epsilon:.6g}",
                    f"{b.spent_delta:.3g}",
                    f"{b.remaining_epsilon:.6g}",
                    f"{b.remaining_delta:.3g}",
                    str(b.releases),
                ]
                for b in balances
            ],
        )
        self.show_rows(
            ["entry", "data set", "kind", "release", "epsilon", "delta", "at"],
            [
                [
                    str(e.sequence),
                    e.dataset,
                    e.kind,
                    e.release_id or "",
                    f"{e.epsilon:.6g}",
                    f"{e.delta:.3g}",
                    f"{e.at:%Y-%m-%d %H:%M:%S} UTC",
                ]
                for e in entries
            ],
        )

    def show_rows(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table in aligned columns, two spaces between them."""
        widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
        for row in [header, *rows]:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.out.print(line.rstrip(), markup=False)


def _shown(name: str) -> str:
    """A name without what would move the cursor."""
    return "".join(character if character.isprintable() else "?" for character in name)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


def _compared(row: ComparedMechanism, chosen: str) -> list[str]:
    size = row.reason if row.expected_magnitude is None else f"{row.expected_magnitude:.5g} of the range"
    return [row.name, size, "taken" if row.name == chosen else ""]
