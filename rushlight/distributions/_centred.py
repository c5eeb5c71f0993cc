"""Laws that are symmetric around their location."""

from __future__ import annotations


class Centred:
    """The mean and the mode are the location."""

    @property
    def mean(self):
        """The location."""
        return self.loc

    @property
    def mode(self):
        """The location."""
        return self.loc
