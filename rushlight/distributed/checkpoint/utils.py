"""Steps that all ranks of a checkpoint take together, and that fail together."""

import builtins
import traceback

import rushlight as rl
from rushlight.distributed.checkpoint import _codec
from rushlight.distributed.checkpoint.api import CheckpointException
from rushlight.distributed.octet_collectives import (
    broadcast_octets,
    gather_octets,
    scatter_octets,
)
from rushlight.distributed.world import get_global_rank, get_rank, get_world_size

__all__ = ["Together"]


def _described(error):
    """An exception as ranks send it: its type's name, its text, its stack."""
    stack = traceback.extract_tb(error.__traceback__)
    lines = [(each.filename, each.lineno, each.name, each.line) for each in stack]
    return {"failure": (type(error).__name__, str(error), lines)}


def _remade(description):
    """The exception of a description; of a type that Python has, or RuntimeError."""
    name, text, lines = description["failure"]
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind, text = RuntimeError, f"{name}: {text}"
    try:
        made = kind(text)
    except TypeError:  # of those that want more than a text
        made = RuntimeError(f"{name}: {text}")
    return made, traceback.StackSummary.from_list(lines)


def _has_failed(value):
    return isinstance(value, dict) and set(value) == {"failure"}


def open_storage(given, kind, checkpoint_id):
    """A reader or writer for a checkpoint: the given one, or one of a kind for its folder."""
    if given is None:
        if checkpoint_id is None:
            raise RuntimeError(
                "`checkpoint_id` must be specified if storage_reader/storage_writer is "
                "None."
            )
        given = kind(checkpoint_id)
    given.reset(checkpoint_id)
    return given


class Together:
    """Steps that all ranks take: what fails on one is raised on each.

    Args:
        group: the processes; all without it.
        use_dist: whether there are others at all.
        coordinator_rank: the rank, among all processes, that decides.
    """

    def __init__(self, group=None, use_dist=True, coordinator_rank=0):
        self.group, self.use_dist = group, use_dist
        self.rank = get_rank(group) if use_dist else 0
        self.size = get_world_size(group) if use_dist else 1
        self.root = 0
        if use_dist and group is not None and coordinator_rank:
            ranks = [get_global_rank(group, i) for i in range(self.size)]
            self.root = ranks.index(coordinator_rank)
        elif use_dist:
            self.root = coordinator_rank
        self.coordinator_rank = coordinator_rank
        self.is_coordinator = self.rank == self.root

    def _attempt(self, function, *arguments):
        try:
            return function(*arguments)
        except Exception as error:
            if not self.use_dist or self.size == 1:
                stack = traceback.extract_tb(error.__traceback__)
                failures = {self.rank: (error, stack)}
                raise CheckpointException("a step failed", failures) from error
            self.own = error
            return _described(error)

    def _collect(self, step, value):
        """All ranks' values on the coordinator; or a failure in place of all."""
        found = gather_octets(_codec.dumps(value), self.root, self.group)
        if found is None:
            return None, None
        values = [_codec.loads(each) for each in found]
        failures = {i: each for i, each in enumerate(values) if _has_failed(each)}
        return values, {"failures": failures, "step": step} if failures else None

    def _raise(self, failure):
        failures = {rank: _remade(each) for rank, each in failure["failures"].items()}
        raise CheckpointException(failure["step"], failures)

    def _is_failure(self, failure):
        return isinstance(failure, dict) and set(failure) == {"failures", "step"}

    def reduce_scatter(self, step, map_fun, reduce_fun):
        """Each rank's value to the coordinator, which gives every rank one.

        Args:
            step: its name.
            map_fun: makes a rank's value.
            reduce_fun: makes a list, one for each rank, of the list of all values.
        """
        own = self._attempt(map_fun)
        if self.size == 1:
            return self._attempt(reduce_fun, [own])[0]
        values, failure = self._collect(step, own)
        parts = None
        if self.is_coordinator:
            if failure is None:
                parts = self._attempt(reduce_fun, values)
                if _has_failed(parts):
                    failure = {"failures": {self.rank: parts}, "step": step}
            parts = [failure] * self.size if failure is not None else parts
            parts = [_codec.dumps(each) for each in parts]
        found = _codec.loads(scatter_octets(parts, self.root, self.group))
        if self._is_failure(found):
            self._raise(found)
        return found

    def all_reduce(self, step, map_fun, reduce_fun):
        """Each rank's value to the coordinator, which gives all ranks one.

        Args:
            step: its name.
            map_fun: makes a rank's value.
            reduce_fun: makes one of the list of all values.
        """
        own = self._attempt(map_fun)
        if self.size == 1:
            return self._attempt(reduce_fun, [own])
        values, failure = self._collect(step, own)
        result = None
        if self.is_coordinator:
            result = (
                failure if failure is not None else self._attempt(reduce_fun, values)
            )
            if _has_failed(result):
                result = {"failures": {self.rank: result}, "step": step}
        octets = None if result is None else _codec.dumps(result)
        found = _codec.loads(broadcast_octets(octets, self.root, self.group))
        if self._is_failure(found):
            self._raise(found)
        return found

    def all_gather(self, step, map_fun):
        """Each rank's value to all.

        Args:
            step: its name.
            map_fun: makes a rank's value.
        """
        return self.all_reduce(step, map_fun, list)

    def barrier(self):
        """Wait until every rank has come."""
        if self.use_dist and self.size > 1:
            rl.distributed.barrier(self.group)
