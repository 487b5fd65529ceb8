"""One release from the command line: in this process, or as a Prefect flow."""

from pathlib import Path
from typing import cast

from pydantic import ValidationError

from flows.settings import configure, configured_server, keep_orchestrator_files_in, require_server
from flows.terminal import Terminal
from schemas.errors import ApprovalPending, StepFailed, error_kinds
from schemas.release import Candidate, Publication, PublishRequest
from schemas.spec import ReleaseRequest
from tasks.read_spec import read_spec, request_refused
from tasks.staging import new_release_id
from tasks.step import observed_by
from tasks.workspace import Workspace


def release_or_approve(
    spec: Path, *, release_id: str | None, approve: str | None, orchestrated: bool, terminal: Terminal
) -> Publication:
    """Make and publish a release, or publish the staged candidate that `approve` names.

    Raises
    ------
    ApprovalPending
        The spec asks for approval and none was given; the text says how to give it.
    FabricaError
        Anything else that went wrong.
    """
    configure()
    server = configured_server()
    try:
        request: ReleaseRequest | PublishRequest
        if approve is None:
            request = ReleaseRequest(spec=str(spec), release_id=release_id or new_release_id())
        else:
            request = PublishRequest(spec=str(spec), release_id=release_id or "unknown", digest=approve)
            if release_id is None:
                from flows.pipeline import find_candidate

                request = request.model_copy(update={"release_id": find_candidate(spec, approve)})
    except ValidationError as error:
        raise request_refused(error) from None
    with observed_by(terminal), terminal.progress():
        if orchestrated or server is not None:
            if server is not None:
                require_server(server)
                terminal.noted(f"running as a Prefect flow on the server at {server}")
            else:
                read_spec(spec)  # a wrong spec need not wait for the server
                keep_orchestrator_files_in(Workspace.find(spec))
                terminal.noted("running as a Prefect flow on a temporary server, which takes a while to start")
            outcome = _orchestrated(request)
        else:
            terminal.noted("no Prefect server is configured: running the same steps in this process")
            outcome = _in_process(request)
    if isinstance(outcome, Candidate):
        raise ApprovalPending(outcome.approval_text(str(spec)))
    return outcome


def _in_process(request: ReleaseRequest | PublishRequest) -> Candidate | Publication:
    from flows import pipeline

    path = Path(request.spec)
    if isinstance(request, PublishRequest):
        return pipeline.publish(path, request.release_id, request.digest)
    assert request.release_id is not None
    candidate = pipeline.propose(path, request.release_id)
    if candidate.needs_approval:
        return candidate
    return pipeline.publish(path, candidate.release_id, candidate.digest)


def _orchestrated(request: ReleaseRequest | PublishRequest) -> Candidate | Publication:
    from prefect.states import State

    from flows.release import publish, release

    run = (
        publish(request, return_state=True)
        if isinstance(request, PublishRequest)
        else release(request, return_state=True)
    )
    state = cast(State[Candidate | Publication], run)
    if state.is_completed():
        return state.result()
    raise error_kinds().get(state.name or "", StepFailed)(state.message or f"the flow ended as {state.name}")
