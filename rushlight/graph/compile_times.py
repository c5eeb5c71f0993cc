"""How long compiling took: `rushlight._dynamo.utils.compile_times` shows it."""

import contextlib
import time
from collections import defaultdict

seconds: defaultdict = defaultdict(list)  # of each compilation, by what it was for


@contextlib.contextmanager
def timed(key):
    """A block whose seconds are written down under a key."""
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[key].append(time.perf_counter() - start)
