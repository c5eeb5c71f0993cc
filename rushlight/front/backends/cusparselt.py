"""cuSPARSELt, which is not used."""

__all__ = ["is_available", "version"]


def version():
    """The version of the library: None, as there is none."""
    return None


def is_available():
    """Whether the library is there: no."""
    return False
