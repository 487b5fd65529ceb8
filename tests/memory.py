"""How much memory a process had at most."""

from pathlib import Path


def peak_mib(process: int | str = "self") -> int:
    """Largest resident set of a process, in MiB.

    Not `ru_maxrss`, which a program that was started from a larger one inherits.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024
