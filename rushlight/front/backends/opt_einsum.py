"""Whether, and how, the opt_einsum package chooses the order of ``einsum``'s products.

With two operands there is nothing to choose, and the package isn't imported. Where it isn't
installed (``pip install rushlight[einsum]``), products are taken from the left.
"""

from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec

STRATEGIES = ("auto", "greedy", "optimal")


@cache
def is_available():
    """Whether the opt_einsum package is installed."""
    return find_spec("opt_einsum") is not None


def get_opt_einsum():
    """The package, or None where it isn't installed."""
    return import_module("opt_einsum") if is_available() else None


enabled = is_available()
strategy = "auto" if enabled else None


def set_flags(_enabled=None, _strategy=None):
    """Sets both switches, where they are given, and returns what they were.

    Args:
        _enabled: whether the package chooses the order.
        _strategy: how: ``"auto"``, ``"greedy"`` or ``"optimal"``.

    Raises:
        ValueError: the package isn't installed, or has no such strategy.
    """
    global enabled, strategy
    before = enabled, strategy if is_available() else None
    if not is_available() and (_enabled or _strategy is not None):
        raise ValueError(
            "opt_einsum is not available, so einsum takes its products from the left\n"
            "  remedy: pip install rushlight[einsum]"
        )
    if _strategy is not None and _strategy not in STRATEGIES:
        raise ValueError(
            f"`strategy` must be one of the following: [{', '.join(STRATEGIES)}] but is "
            f"{_strategy}"
        )
    if _enabled is not None:
        enabled = _enabled
    if _strategy is not None:
        strategy = _strategy
    return before


@contextmanager
def flags(enabled=None, strategy=None):
    """A block with other values of the switches."""
    before = set_flags()
    try:
        set_flags(enabled, strategy)
        yield
    finally:
        set_flags(*before)


def path_of(equation, operands):
    """The order of the products, two numbers for each; None where nobody chooses it.

    The numbers are places in the list of operands, which the two leave, and whose end
    their product joins.
    """
    if len(operands) <= 2 or not enabled or not is_available():
        return None
    chosen = get_opt_einsum().contract_path(equation, *operands, optimize=strategy)[0]
    return [place for pair in chosen for place in pair]
