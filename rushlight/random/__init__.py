"""The default generator of random numbers: seeding it, its state."""

import threading

from rushlight.random.generator import (
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def thread_safe_generator():
    """The generator of this thread, where it loads data; else None, for the default one.

    >>> thread_safe_generator() is None
    True
    """
    return getattr(_own, "generator", None)


_own = threading.local()  # a loader's threads keep their generator here
