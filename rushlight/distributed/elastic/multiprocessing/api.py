"""Processes of a launcher, how they fail, and where their output goes."""

from enum import IntFlag

from rushlight.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
    record,
)

__all__ = [
    "ChildFailedError",
    "ProcessFailure",
    "SignalException",
    "Std",
    "record",
    "to_map",
]


class SignalException(Exception):
    """A signal has ended the launcher.

    Args:
        msg: what is to be said.
        sigval: the signal.
    """

    def __init__(self, msg, sigval):
        super().__init__(msg)
        self.sigval = sigval


class Std(IntFlag):
    """Streams of a process: none, output, errors, or both.

    >>> Std.from_str("3"), Std.from_str("0:1,1:2")
    (<Std.ALL: 3>, {0: <Std.OUT: 1>, 1: <Std.ERR: 2>})
    """

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm):
        """Streams from the text of ``--redirects``.

        Args:
            vm: ``3`` for all processes, or ``0:1,1:3`` for some.

        Returns:
            The streams, or local rank -> streams.

        Raises:
            ValueError: the text is neither.
        """
        try:
            if ":" not in vm:
                return cls(int(vm))
            pairs = [each.split(":") for each in vm.split(",")]
            return {int(rank): cls(int(streams)) for rank, streams in pairs}
        except ValueError:
            raise ValueError(
                f"vm: <{vm}> does not match any of: '0', '1', '2', '3' or '0:1,1:3'"
            ) from None


def to_map(val_or_map, local_world_size):
    """Local rank -> streams, of all local ranks.

    Args:
        val_or_map: streams of all, or local rank -> streams.
        local_world_size: the number of processes.

    >>> to_map({0: Std.OUT}, 2)
    {0: <Std.OUT: 1>, 1: <Std.NONE: 0>}
    """
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}
