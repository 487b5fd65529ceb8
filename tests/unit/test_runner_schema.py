"""How a runner is written in a spec."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from schemas.runner import Cluster, Dask, Pool, Processes, Runner, Threads

RUNNER: TypeAdapter[Any] = TypeAdapter(Runner)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("threads", "threads"),
        ("processes", "processes"),
        ("dask", "dask"),
        ({"threads": {"workers": 2}}, Threads(threads=Pool(workers=2))),
        ({"processes": {"workers": 1024}}, Processes(processes=Pool(workers=1024))),
        ({"processes": {}}, Processes(processes=Pool())),
        ({"dask": {"workers": 2}}, Dask(dask=Cluster(workers=2))),
        ({"dask": {"scheduler": "tcp://host:8786"}}, Dask(dask=Cluster(scheduler="tcp://host:8786"))),
        ({"dask": {"scheduler": "tls://[::1]:8786"}}, Dask(dask=Cluster(scheduler="tls://[::1]:8786"))),
    ],
)
def test_forms(written: Any, read: Any) -> None:
    assert RUNNER.validate_python(written) == read
    assert RUNNER.validate_python(RUNNER.dump_python(read)) == read
    assert RUNNER.validate_json(RUNNER.dump_json(read)) == read


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("cluster", "runner must be `threads`"),
        (None, "runner must be `threads`"),
        (2, "runner must be `threads`"),
        (["threads"], "runner must be `threads`"),
        ({}, "runner must be `threads`"),
        ({"threads": None}, "runner must be `threads`"),
        ({"threads": 2}, "runner must be `threads`"),
        ({"threads": {}, "dask": {}}, "runner must be `threads`"),
        ({"threads": {"workers": 0}}, "greater than or equal to 1"),
        ({"processes": {"workers": 1025}}, "less than or equal to 1024"),
        ({"threads": {"workers": "2"}}, "valid integer"),
        ({"threads": {"workers": True}}, "valid integer"),
        ({"threads": {"scheduler": "tcp://host:8786"}}, "Extra inputs"),
        ({"dask": {"worker": 2}}, "Extra inputs"),
        ({"dask": {"scheduler": "host:8786"}}, "should match pattern"),
        ({"dask": {"scheduler": "tcp://user:word@host:8786"}}, "should match pattern"),
        ({"dask": {"scheduler": "tcp://host:8786", "workers": 2}}, "give workers or scheduler, not both"),
    ],
)
def test_refusals(written: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        RUNNER.validate_python(written)


def test_json_schema_knows_every_form() -> None:
    options = RUNNER.json_schema()["anyOf"]
    assert options[0]["enum"] == ["threads", "processes", "dask"]
    assert [option["$ref"].rpartition("/")[2] for option in options[1:]] == ["Threads", "Processes", "Dask"]
