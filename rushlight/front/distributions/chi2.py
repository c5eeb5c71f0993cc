"""The chi-squared law."""

from rushlight.distributions import constraints
from rushlight.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The chi-squared law: that of a sum of ``df`` squared standard normal numbers.

    Args:
        df: degrees of freedom, positive; a number or a tensor of the batch's shape.
    """

    arg_constraints = {"df": constraints.positive}
    _expandable = Gamma._expandable

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self):
        """Degrees of freedom."""
        return self.concentration * 2
