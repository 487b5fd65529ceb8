"""Memory that was freed goes back to the operating system.

The GNU C library keeps freed memory for later, in pieces of which few fit what is asked for next: after 16 pieces of a
table had been validated it held 400 MiB that nothing used. Asked to, it gives that back, within milliseconds.
"""

import ctypes


def give_back() -> None:
    """Give unused memory back; does nothing under another C library."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
