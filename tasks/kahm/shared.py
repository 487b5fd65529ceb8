"""Settings of the whole process that hold while any thread needs them."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits


class SharedContext:
    """A context that several threads may be in at once: the first one enters it, the last one leaves it.

    Parameters
    ----------
    enter : callable
        Gets the stack that is unwound when the last thread leaves.

    Notes
    -----
    `threadpool_limits` and `warnings.catch_warnings` change the process. Of two threads whose contexts overlap, each
    would put back what the other had set.
    """

    def __init__(self, enter: Callable[[ExitStack], None]) -> None:
        self._enter = enter
        self._lock = threading.Lock()
        self._inside = 0
        self._stack = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._enter(self._stack)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._stack.close()


def _one_blas_thread(stack: ExitStack) -> None:
    stack.enter_context(threadpool_limits(1))


def _no_convergence_warnings(stack: ExitStack) -> None:
    stack.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore", ConvergenceWarning)


#: Sums are the same to the last bit only with the same number of threads.
ONE_BLAS_THREAD = SharedContext(_one_blas_thread)

#: Where rows coincide k-means leaves clusters empty, which its callers expect.
NO_CONVERGENCE_WARNINGS = SharedContext(_no_convergence_warnings)
