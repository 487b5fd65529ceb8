"""How the orchestrator is set: where its files lie, what it may write down, and that it calls nobody.

Prefect reads its settings from the environment when it is imported, so `configure` runs before that.
"""

import os
import tomllib
from pathlib import Path

from schemas.errors import RequestRefused
from tasks.workspace import Workspace, make_private

_SETTINGS = {
    # what may be written down: no results, anywhere
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "false",
    "PREFECT_TASKS_DISABLE_CACHING": "true",
    # nobody is called
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "GX_ANALYTICS_ENABLED": "false",
    # a slow machine may take longer than the default 20 s to start a temporary server
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_RUNNER_POLL_FREQUENCY": "2",
}


def configure(*, quiet: bool = True) -> None:
    """Set the orchestrator's environment, leaving alone what the user has set.

    Parameters
    ----------
    quiet : bool, default=True
        Keep the orchestrator's own log lines off the terminal.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    if quiet:
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
        os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "true")


def keep_orchestrator_files_in(workspace: Workspace) -> None:
    """Keep the temporary server's files in the workspace, unless the user has named a place."""
    if "PREFECT_HOME" not in os.environ:
        make_private(workspace.prefect_home)
        os.environ["PREFECT_HOME"] = str(workspace.prefect_home)


def configured_server() -> str | None:
    """Address of the Prefect server that the environment or the active Prefect profile names, if any."""
    if address := os.environ.get("PREFECT_API_URL"):
        return address
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    try:
        profiles = tomllib.loads((home / "profiles.toml").read_text())
    except (OSError, tomllib.TOMLDecodeError):
        return None
    active = os.environ.get("PREFECT_PROFILE", profiles.get("active"))
    profile = profiles.get("profiles", {}).get(active, {})
    address = profile.get("PREFECT_API_URL")
    return str(address) if address else None


def require_server(address: str) -> None:
    """Refuse to go on when the configured server does not answer, before anything is spent.

    Raises
    ------
    RequestRefused
    """
    import httpx

    try:
        httpx.get(f"{address.rstrip('/')}/health", timeout=10).raise_for_status()
    except httpx.HTTPError:
        raise RequestRefused(
            f"the configured Prefect server at {address} does not answer; start it, or unset PREFECT_API_URL (or the "
            "profile that sets it) to run in process. Nothing was spent"
        ) from None
