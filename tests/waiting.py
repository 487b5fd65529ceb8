"""Waiting for what other processes do, in their own time."""

import time
from collections.abc import Callable


def comes_true(look: Callable[[], object], within_s: float = 300) -> bool:
    """Whether `look` gives something true at last; the limit is only there so that nobody waits forever."""
    end = time.monotonic() + within_s
    while not (found := bool(look())) and time.monotonic() < end:
        time.sleep(0.05)
    return found
