"""Register every spec as a Prefect deployment and wait for scheduled and triggered runs."""

from pathlib import Path
from typing import cast

from flows.settings import configure, configured_server, require_server
from schemas.errors import RequestRefused
from schemas.spec import ReleaseSpec
from tasks.read_spec import read_spec


def serve_specs(folder: Path) -> None:
    """Register each spec in `folder` as a deployment `release/<spec name>` and run what is asked for.

    Parameters
    ----------
    folder : Path
        Holds `*.yaml` and `*.yml` specs.

    Raises
    ------
    RequestRefused
        There are no specs, one is wrong, or no Prefect server is configured or answering.
    """
    specs = find_specs(folder)
    configure(quiet=False)
    address = configured_server()
    if address is None:
        raise RequestRefused(
            "fabrica serve needs a running Prefect server: start one with `prefect server start`, then set "
            "PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    require_server(address)

    from prefect import serve
    from prefect.deployments.runner import EntrypointType, RunnerDeployment
    from prefect.schedules import Cron

    from flows.release import release

    deployments = [
        release.to_deployment(
            name=path.stem,
            description=f"Releases of data set {spec.dataset} by {path.name}",
            tags=["fabrica", spec.dataset],
            parameters={"request": {"spec": str(path.resolve())}},
            schedules=[Cron(spec.schedule.cron, timezone=spec.schedule.timezone)] if spec.schedule else None,
            concurrency_limit=1,
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        for path, spec in specs.items()
    ]
    for path, spec in specs.items():
        when = f"{spec.schedule.cron} ({spec.schedule.timezone})" if spec.schedule else "when triggered"
        print(f"release/{path.stem}: {when}", flush=True)
    serve(*cast(list[RunnerDeployment], deployments), pause_on_shutdown=True)


def find_specs(folder: Path) -> dict[Path, ReleaseSpec]:
    """Every spec in a folder, by its path.

    Raises
    ------
    RequestRefused
        The folder holds none, one is wrong, or two have the same name but for the ending.
    """
    paths = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    if not paths:
        raise RequestRefused(f"{folder}: holds no specs (*.yaml)")
    stems = [path.stem for path in paths]
    if len(set(stems)) != len(stems):
        raise RequestRefused(f"{folder}: two specs have the same name; deployments are named after their specs")
    return {path: read_spec(path) for path in paths}
