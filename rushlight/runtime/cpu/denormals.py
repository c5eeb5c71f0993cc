"""Whether the processor takes numbers below the normal range for zero.

The switch is a thread's own, as everywhere: threads that were started before keep theirs.
It lies in the floating-point environment that C's ``fenv.h`` reads and sets as a whole.
"""

import ctypes
import platform
import sys

# A processor: where its control word lies in glibc's ``fenv_t``, and the bits that flush
# results and operands.
_WORDS = {"x86_64": (28, 1 << 15 | 1 << 6), "aarch64": (0, 1 << 24)}
_ROOM = 64  # bytes, more than any ``fenv_t`` has


def set_flush(flush):
    """Sets the switch for this thread.

    Args:
        flush: whether numbers below the normal range are zero.

    Returns:
        Whether the processor has the switch, as far as is known.

    >>> set_flush(False) in (True, False)
    True
    """
    word = _WORDS.get(platform.machine())
    if word is None or not sys.platform.startswith("linux"):
        return False
    offset, bits = word
    library = ctypes.CDLL(None)
    environment = (ctypes.c_uint8 * _ROOM)()
    if library.fegetenv(environment):
        return False
    found = ctypes.c_uint32.from_buffer(environment, offset)
    found.value = found.value | bits if flush else found.value & ~bits
    return not library.fesetenv(environment)
