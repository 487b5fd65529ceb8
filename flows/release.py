"""The Prefect flows: thin wrappers around the bodies in `flows/pipeline.py`.

What the orchestrator may see is settled here, once for all tasks: parameters are names, paths and digests; no result is
persisted or cached; nothing is retried by the orchestrator, since a step may have spent budget; a failing flow returns
a failed state with our value-free text instead of raising, because a raised exception is pickled to disk.
"""

import os
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.states import Completed, Failed, State

from flows import artifacts, pipeline
from schemas.errors import FabricaError, StepFailed, first_cause
from schemas.release import Candidate, Publication, PublishRequest
from schemas.spec import ReleaseRequest
from tasks.step import Step, executed_by


def run_as_task(step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a step as a Prefect task of the current flow run."""
    failures: list[FabricaError] = []

    def run() -> Any:
        try:
            return step.run(*args, **kwargs)
        except FabricaError as error:
            failures.append(error)
            return Failed(message=str(error), name=type(error).__name__)

    run_step = task(
        name=step.title,
        task_run_name=step.title,
        persist_result=False,
        cache_policy=NO_CACHE,
        retries=0,
        log_prints=False,
    )(run)
    state = run_step(return_state=True)
    if failures:
        raise failures[0]
    if not state.is_completed():
        raise StepFailed(f"step `{step.title}` ended as {state.name}")
    return state.result()


def _outcome(body: Callable[[], Candidate | Publication]) -> State[Any]:
    """The state a flow ends with: completed with what the body gave, or failed with a value-free text."""
    try:
        with executed_by(run_as_task):
            result = body()
    except FabricaError as error:
        _show_if_debugging(error)
        return Failed(message=str(error), name=type(error).__name__)
    except Exception as error:
        _show_if_debugging(error)
        failed = StepFailed(f"the release failed with {type(error).__name__}; details are held back")
        return Failed(message=str(failed), name="StepFailed")
    text = f"{result.dataset}/{result.release_id}: {result.guarantee.element.sentence()}"
    get_run_logger().info(text)
    if isinstance(result, Publication) or result.needs_approval:
        artifacts.show(result)
    return Completed(message=text, data=result)


@flow(name="propose", persist_result=False, retries=0, log_prints=False, validate_parameters=True)
def propose(request: ReleaseRequest) -> Any:
    """Make a release up to a staged candidate with its digest and report."""
    release_id = request.release_id or _release_id()
    return _outcome(lambda: pipeline.propose(Path(request.spec), release_id))


@flow(name="publish", persist_result=False, retries=0, log_prints=False, validate_parameters=True)
def publish(request: PublishRequest) -> Any:
    """Publish a staged candidate under the digest that was approved."""
    return _outcome(lambda: pipeline.publish(Path(request.spec), request.release_id, request.digest))


@flow(name="release", persist_result=False, retries=0, log_prints=False, validate_parameters=True)
def release(request: ReleaseRequest) -> Any:
    """Make a release; publish it at once where the spec asks for no approval."""
    named = request.model_copy(update={"release_id": request.release_id or _release_id()})
    proposed = cast(State[Any], propose(named, return_state=True))
    if not proposed.is_completed():
        return _as_own(proposed)
    candidate: Candidate = proposed.result()
    if candidate.needs_approval:
        return Completed(message=candidate.approval_text(request.spec), name="AwaitingApproval", data=candidate)
    approved = PublishRequest(spec=request.spec, release_id=candidate.release_id, digest=candidate.digest)
    return _as_own(cast(State[Any], publish(approved, return_state=True)))


def _show_if_debugging(error: BaseException) -> None:
    """With --debug: the first cause's traceback on this process's stderr; it never reaches the orchestrator."""
    if os.environ.get("FABRICA_DEBUG"):
        traceback.print_exception(first_cause(error))


def _as_own(state: State[Any]) -> State[Any]:
    """The state of a flow called here, as this flow's own; returned as it is, Prefect would only count it."""
    if state.is_completed():
        return Completed(message=state.message, data=state.result())
    return Failed(message=state.message, name=state.name)


def _release_id() -> str:
    """A release id that a flow run keeps when it is started again."""
    started = flow_run.scheduled_start_time
    return f"{started:%Y%m%dt%H%M%Sz}-{re.sub('[^0-9a-f]', '', str(flow_run.id))[-8:]}"
