"""What must be the same on every machine for results to be the same to the last bit."""

import platform
from functools import cache

import numpy
import scipy
from threadpoolctl import threadpool_info

from tasks.provenance import code_version

Versions = dict[str, str]


@cache
def versions() -> Versions:
    """Versions of the code and the libraries that compute, and the kernels that BLAS chose for this processor."""
    kernels = {f"{library['internal_api']} {library.get('architecture', '')}" for library in threadpool_info()
               if library["user_api"] == "blas"}  # fmt: skip
    return {
        "fabrica": code_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "BLAS kernel": " and ".join(sorted(kernels)),
    }


def difference(theirs: Versions, ours: Versions) -> str | None:
    """What a worker has that is not as it is here, in words; None if nothing is."""
    differing = [f"{name} {theirs.get(name)} (here {here})" for name, here in ours.items() if theirs.get(name) != here]
    return ", ".join(differing) or None
