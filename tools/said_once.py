"""What is said once in a process counts as said: it would be told to whoever comes first."""

from rushlight.core import warning


class _All:
    """What every warning is in."""

    def __contains__(self, key):
        return True

    def add(self, key):
        """Nothing: it is there."""


def count_as_said():
    """Has no warning come that comes once; ``set_warn_always`` has them come."""
    warning._given = _All()
