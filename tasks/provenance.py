"""Which code and which libraries made a release."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_COMPUTING_PACKAGES = ["numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "great-expectations", "prefect"]


def code_version() -> str:
    """Fabrica's version, with the commit (and `dirty` for uncommitted changes) where it runs from a checkout."""
    try:
        base = version("fabrica")
    except PackageNotFoundError:
        base = "0+unknown"
    folder = Path(__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return base
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude", "*"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return base
    return f"{base}+g{commit.replace('-', '.')}"


def python_version() -> str:
    """The interpreter's version."""
    return platform.python_version()


def package_versions() -> dict[str, str]:
    """Versions of the libraries that compute or check figures."""
    return {name: version(name) for name in _COMPUTING_PACKAGES}
