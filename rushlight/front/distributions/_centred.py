"""Laws with a location and a scale, and those that are symmetric around the location."""

from rushlight.distributions import constraints
from rushlight.distributions.utils import broadcast_all


class Placed:
    """What is kept: where the law lies on the line, and how wide it is."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _expandable: tuple[str, ...] = ("loc", "scale")

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)


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
