"""Where independent pieces of CPU work are done, such as the smoothing of a shard.

Any choice gives the same bytes: each piece is computed alone, by the same function, with one BLAS thread.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StrictInt, model_validator

from schemas.base import Model

MOST_WORKERS = 1024
SCHEDULER_PATTERN = r"^(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$"

WorkerCount = Annotated[StrictInt, Field(ge=1, le=MOST_WORKERS)]


class Pool(Model):
    """Workers on this machine."""

    workers: WorkerCount | None = None
    """How many at once. Left out: one for each core that this process may use."""


class Cluster(Model):
    """Workers of a Dask cluster."""

    workers: WorkerCount | None = None
    """Start a cluster of so many workers on this machine. Left out: one for each core that this process may use."""
    scheduler: str | None = Field(default=None, pattern=SCHEDULER_PATTERN, max_length=300)
    """Address of a running scheduler, such as `tcp://host:8786`, whose workers are used as they are."""

    @model_validator(mode="after")
    def _own_or_running(self) -> Self:
        if self.workers is not None and self.scheduler is not None:
            raise ValueError("give workers or scheduler, not both; a running scheduler has its own workers")
        return self


class Threads(Model):
    """Threads of this process."""

    threads: Pool


class Processes(Model):
    """Processes of this machine."""

    processes: Pool


class Dask(Model):
    """A Dask cluster; needs `fabrica[dask]`."""

    dask: Cluster


def _one_runner(runner: Any) -> Any:
    if isinstance(runner, Threads | Processes | Dask) or runner in ("threads", "processes", "dask"):
        return runner
    if isinstance(runner, dict):
        for kind, model in (("threads", Threads), ("processes", Processes), ("dask", Dask)):
            if set(runner) == {kind} and isinstance(runner[kind], dict | Model):
                return model(**runner)
    raise ValueError(
        "runner must be `threads`, `processes`, `dask`, {threads: {workers: N}}, {processes: {workers: N}}, "
        "{dask: {workers: N}} or {dask: {scheduler: ADDRESS}}"
    )


Runner = Annotated[
    Literal["threads", "processes", "dask"] | Threads | Processes | Dask,
    BeforeValidator(_one_runner),
]
"""`threads`, `processes` or `dask`, each with its settings where the defaults do not fit."""
