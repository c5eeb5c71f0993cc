"""Training where ranks have different numbers of inputs."""

import warnings
from abc import ABC, abstractmethod
from typing import NamedTuple

import rushlight as rl

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a rank without input does in each iteration of the others, and at the end."""

    def main_hook(self):
        """Called for each iteration of others, to answer their collectives."""

    def post_hook(self, is_last_joiner):
        """Called once all ranks have no more input.

        Args:
            is_last_joiner: whether this rank was among the last.
        """


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config():
        return _JoinConfig(False, False, False)


class Joinable(ABC):
    """What can be in a block of ``Join``."""

    @abstractmethod
    def __init__(self):
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs):
        """A ``JoinHook``."""

    @property
    @abstractmethod
    def join_device(self):
        """The device of its collectives."""

    @property
    @abstractmethod
    def join_process_group(self):
        """The group of its collectives."""


class Join:
    """A block in which ranks may have different numbers of iterations.

    Args:
        joinables: what takes part, each a ``Joinable``.
        enable: whether the block does anything.
        throw_on_early_termination: whether all raise when one has no more input.
        kwargs: handed to each ``join_hook``.
    """

    def __init__(
        self, joinables, enable=True, throw_on_early_termination=False, **kwargs
    ):
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable = joinables, enable
        self._throws = throw_on_early_termination
        self._hooks = [each.join_hook(**kwargs) for each in joinables]
        for index, each in enumerate(joinables):
            each._join_config = _JoinConfig(enable, self._throws, index == 0)
        self._group = joinables[0].join_process_group
        if any(each.join_process_group is not self._group for each in joinables):
            raise ValueError("Using join context manager with multiple process groups")

    def __enter__(self):
        return self

    def __exit__(self, type, value, traceback):
        if not self._enable or type:
            return
        is_last = True
        for count in iter(self._active_ranks, 0):
            if count and is_last:
                is_last = False
            for hook in self._hooks:
                hook.main_hook()
            self._warn_if_long()
        for hook in self._hooks:
            hook.post_hook(is_last)
        for each in self._joinables:
            each._join_config = _JoinConfig.construct_disabled_join_config()

    def _active_ranks(self):
        """How many ranks have input; this one has none."""
        count = rl.zeros(1, device=self._group._coordination_device())
        self._group._all_reduce([count])
        if self._throws:
            ends = rl.ones_like(count)
            self._group._all_reduce([ends])
            raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")
        return int(count)

    def _warn_if_long(self):
        self._iterations = getattr(self, "_iterations", 0) + 1
        if self._iterations == 1000:
            warnings.warn(
                "Detected uneven input skew of greater than 1000. This means that rank "
                f"{self._group.rank()} has at least 1000 fewer inputs than other "
                "currently-active ranks.",
                stacklevel=3,
            )

    @staticmethod
    def notify_join_context(joinable):
        """Say, before an iteration's collectives, that this rank has input.

        Args:
            joinable: what runs the iteration.

        Raises:
            RuntimeError: a rank has none, and the block asks for that.
        """
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return None
        group = joinable.join_process_group
        one = rl.ones(1, device=group._coordination_device())
        group._all_reduce([one])
        if config.throw_on_early_termination:
            ends = rl.zeros_like(one)
            group._all_reduce([ends])
            if int(ends):
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across "
                    "all ranks."
                )
        return None
