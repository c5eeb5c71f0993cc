"""Which function computes an operator of nested tensors: it says so where it stands."""


class Rules(dict):
    """Functions by the names of the operators that they compute.

    >>> rules = Rules()
    >>> @rules("view", "reshape")
    ... def reshaped(op, nested, size):
    ...     pass
    >>> list(rules)
    ['view', 'reshape']
    """

    def __call__(self, *names):
        """A decorator for the function of some operators."""

        def declare(function):
            self.update(dict.fromkeys(names, function))
            return function

        return declare
