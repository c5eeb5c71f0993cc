"""Copies of states, which are written while the program goes on."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import rushlight as rl
from rushlight.distributed.tensor import DTensor

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


def copied(value, cache=None):
    """A state with tensors of its own, on the host.

    Args:
        value: nested dicts, lists and tuples of values.
        cache: a copy of the same state from before, whose memory is used again.
    """
    if isinstance(value, DTensor):
        before = cache.to_local() if isinstance(cache, DTensor) else None
        own = copied(value.to_local(), before)
        return DTensor.from_local(
            own,
            value.device_mesh,
            value.placements,
            run_check=False,
            shape=value.shape,
            stride=value.stride(),
        )
    if isinstance(value, rl.Tensor):
        value = value.detach()
        if isinstance(cache, rl.Tensor) and cache.shape == value.shape:
            return cache.copy_(value)
        return value.cpu().clone() if value.device.type == "cpu" else value.cpu()
    if isinstance(value, dict):
        old = cache if isinstance(cache, dict) else {}
        return {key: copied(inner, old.get(key)) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        old = cache if isinstance(cache, (list, tuple)) else ()
        olds = [*old, *[None] * len(value)]
        made = [copied(inner, before) for inner, before in zip(value, olds)]
        if hasattr(value, "_fields"):
            return type(value)(*made)
        return made if isinstance(value, list) else tuple(made)
    return value


@runtime_checkable
class AsyncStager(Protocol):
    """Makes the copy of a state that is written later."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether the copy must be whole before the program goes on."""
        return self._synchronize_after_execute

    def stage(self, state_dict):
        """The copy, or a future of it.

        Args:
            state_dict: the state.
        """

    def synchronize_staging(self) -> None:
        """Wait until the copy is whole."""

    def close(self) -> None:
        """Let go of what the copies needed."""


@dataclass
class StagingOptions:
    """How copies are made; here each is made at once, in plain memory."""

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies a state, at once or on a thread.

    Args:
        config: a ``StagingOptions``.
    """

    def __init__(self, config=None):
        self._config = config or StagingOptions()
        self._future = None

    def stage(self, state_dict, **kwargs):
        """The copy, or a future of it where the options ask for one."""
        if not self._config.use_async_staging:
            return copied(state_dict)
        self._future = Future()
        self._future.set_result(copied(state_dict))
        return self._future

    def synchronize_staging(self):
        """Wait until the copy is whole."""
        if self._future is not None:
            self._future.result()

    def close(self):
        """Let go of the last copy."""
        self._future = None


class BlockingAsyncStager(AsyncStager):
    """Copies a state before the program goes on.

    Args:
        cache_staged_state_dict: whether the memory of a copy serves for the next.
        type_check: without effect here.
    """

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict=False, type_check=False):
        self.cache_staged_state_dict = cache_staged_state_dict
        self.state_dict_cache = None

    def stage(self, state_dict):
        """The copy."""
        cache = self.state_dict_cache if self.cache_staged_state_dict else None
        made = copied(state_dict, cache)
        if self.cache_staged_state_dict:
            self.state_dict_cache = made
        return made

    def synchronize_staging(self):
        """Nothing is on its way."""

    def close(self):
        """Let go of the memory."""
        self.state_dict_cache = None
