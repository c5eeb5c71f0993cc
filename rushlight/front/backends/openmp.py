"""OpenMP, which is not used."""


def is_available():
    """Whether it is used: no, threads are Rushlight's own pool."""
    return False
