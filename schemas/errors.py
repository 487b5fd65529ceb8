"""Errors that people see: one class for each thing a person can do about it, each with its exit code.

The text of such an error says what went wrong, where (file, column, row *count*) and what to do. It never holds
a value of a cell, because error texts are kept by orchestrators and terminals. Anything else that is raised is a
fault of ours and ends with exit code 1.
"""


class FabricaError(Exception):
    """Base class of every error that is shown without a traceback."""

    exit_code = 1


class StepFailed(FabricaError):
    """A step broke for a reason that is not the user's; details are held back because they may quote data."""


class RequestRefused(FabricaError):
    """The spec or the command line asks for something that cannot be done (exit code 2)."""

    exit_code = 2


class ValidationFailed(FabricaError):
    """The source does not agree with its declared table (exit code 3)."""

    exit_code = 3


class BudgetRefused(FabricaError):
    """The release would spend more than the data set's budget leaves (exit code 4)."""

    exit_code = 4


class IntegrityFailed(FabricaError):
    """Files, digests or ledger entries do not agree with each other (exit code 5)."""

    exit_code = 5


class ApprovalPending(FabricaError):
    """A candidate waits for approval, or the digest given does not approve it (exit code 6)."""

    exit_code = 6


def first_cause(error: BaseException) -> BaseException:
    """What was raised first, before our errors took its place; its text may quote data."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def error_kinds() -> dict[str, type[FabricaError]]:
    """Every error class by its name; the orchestrator hands on names, and the command line their exit codes."""
    kinds: list[type[FabricaError]] = [FabricaError, *FabricaError.__subclasses__()]
    return {kind.__name__: kind for kind in kinds}
