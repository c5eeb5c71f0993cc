"""Intel's MKL, which is not used."""

VERBOSE_OFF = 0
VERBOSE_ON = 1


def is_available():
    """Whether the library is used: no, products are Rushlight's own kernels."""
    return False


class verbose:
    """Has the library print its calls in a block: there are none to print."""

    def __init__(self, enable):
        self.enable = enable

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return False
