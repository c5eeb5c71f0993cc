"""What is asked of the compiler of captured programs: its texts, its caches."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

from rushlight._dynamo.decorators import reset
from rushlight.graph import debug_trace
from rushlight.runtime.cpu import code_cache

__all__ = ["fresh_cache", "fresh_inductor_cache", "maybe_profile", "run_and_get_code"]


def run_and_get_code(fn, *args, **kwargs):
    """A function's result, and the texts of the programs that were built meanwhile.

    It is called three times: the first call notes what is called, of which the second one
    has programs built; those of sweeps back are a call later.

    Args:
        fn: calls a compiled function.
        args: its arguments.

    Returns:
        the last call's result, and a list of Python's texts.

    >>> import rushlight as rl
    >>> compiled = rl.compile(lambda x: (x * 2).sin())
    >>> result, texts = run_and_get_code(compiled, rl.zeros(4))
    >>> "fused_mul_sin" in texts[0]
    True
    """
    reset()
    texts: list = []
    debug_trace.kept.append(texts)
    try:
        for _ in range(2):
            fn(*args, **kwargs)
        result = fn(*args, **kwargs)
    finally:
        debug_trace.kept.remove(texts)
    return result, texts


@contextlib.contextmanager
def fresh_cache(cache_entries=None, dir=None, delete=True):
    """A block in which kernels are kept in an empty folder, and none is known.

    Args:
        cache_entries: a dict, which takes the names of the files and their sizes.
        dir: where the folder is made.
        delete: whether it is deleted at the end.
    """
    folder = tempfile.mkdtemp(dir=dir)
    before = os.environ.get("RUSHLIGHT_CACHE")
    try:
        os.environ["RUSHLIGHT_CACHE"] = folder
        code_cache.forget()
        reset()
        yield
        if cache_entries is not None:
            cache_entries.update(
                (one.name, one.stat().st_size) for one in os.scandir(folder)
            )
    finally:
        os.environ.pop("RUSHLIGHT_CACHE")
        if before is not None:
            os.environ["RUSHLIGHT_CACHE"] = before
        code_cache.forget()
        reset()
        if delete:
            shutil.rmtree(folder, ignore_errors=True)


fresh_inductor_cache = fresh_cache


@contextlib.contextmanager
def maybe_profile(should_profile, *args, **kwargs):
    """A block that is profiled, or not.

    Args:
        should_profile: whether it is.
        args: as of ``torch.profiler.profile``.
    """
    if not should_profile:
        yield None
        return
    from rushlight.profiler import profile

    with profile(*args, **kwargs) as found:
        yield found
