"""Checkpoints that keep the results of some operators: which, a policy says."""

from __future__ import annotations

import enum
from typing import Any

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_map

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]


class CheckpointPolicy(enum.Enum):
    """What becomes of an operator's result: ``MUST`` counts when programs are compiled.

    Args:
        value: the number.

    >>> CheckpointPolicy.MUST_SAVE.value
    0
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_KEPT = {
    CheckpointPolicy.MUST_SAVE,
    CheckpointPolicy.PREFER_SAVE,
    CheckpointPolicy.MUST_CPU_OFFLOAD,
    CheckpointPolicy.PREFER_CPU_OFFLOAD,
}
_OFFLOADED = {CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD}

# Operators that cost nothing and are never kept.
SAC_IGNORED_OPS: set[Any] = set()


class SelectiveCheckpointContext:
    """What a policy is told of a call beside the operator and its arguments.

    Attributes:
        is_recompute: whether the part is being run again.
        op_output: the operator's result.
    """

    def __init__(self, *, is_recompute, op_output=None):
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Kept:
    """A tensor that is kept, and the version it had."""

    __slots__ = ("home", "tensor", "version")

    def __init__(self, tensor, offload):
        self.version = tensor._version
        self.home = tensor.device if offload else None
        self.tensor = tensor.detach().cpu() if offload else tensor.detach()

    def take(self, may_change):
        """The tensor.

        Raises:
            RuntimeError: it has been written to.
        """
        if self.home is None and not may_change:
            if self.tensor._version != self.version:
                raise RuntimeError(
                    "Tensor cached during selective activation checkpoint has been mutated"
                )
        return self.tensor if self.home is None else self.tensor.to(self.home)


_AGAIN = object()


def _ignored(func):
    if not SAC_IGNORED_OPS:
        SAC_IGNORED_OPS.add(rl.ops.aten.detach.default)
    return func in SAC_IGNORED_OPS


class _Keeping(TorchDispatchMode):
    """The first run: every operator's result is kept, or is noted not to be."""

    def __init__(self, policy, store):
        super().__init__()
        self.policy, self.store = policy, store

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if _ignored(func):
            return result
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        chosen = self.policy(context, func, *args, **kwargs)
        if isinstance(chosen, bool):
            chosen = CheckpointPolicy(0 if chosen else 3)
        entry: Any = _AGAIN
        if chosen in _KEPT:
            offload = chosen in _OFFLOADED
            entry = tree_map(
                lambda leaf: _Kept(leaf, offload) if isinstance(leaf, Tensor) else leaf,
                result,
            )
        self.store.setdefault(func, []).append(entry)
        return result


class _Giving(TorchDispatchMode):
    """The second run: results that were kept are given in place of computing them."""

    def __init__(self, store, may_change):
        super().__init__()
        self.store, self.may_change = store, may_change

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if _ignored(func):
            return func(*args, **kwargs)
        entries = self.store.get(func)
        if not entries:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once "
                "on any region computed under selective activation checkpoint."
            )
        entry = entries.pop(0)
        if entry is _AGAIN:
            return func(*args, **kwargs)
        return tree_map(
            lambda leaf: (
                leaf.take(self.may_change) if isinstance(leaf, _Kept) else leaf
            ),
            entry,
        )


def create_selective_checkpoint_contexts(
    policy_fn_or_list, allow_cache_entry_mutation=False
):
    """The two contexts of a checkpoint that keeps the results of some operators.

    Args:
        policy_fn_or_list: a function of a ``SelectiveCheckpointContext``, the operator
            and its arguments that gives a ``CheckpointPolicy``; or a list of operators
            whose results are kept.
        allow_cache_entry_mutation: whether what is kept may be written to.

    Raises:
        TypeError: the policy is neither.
        ValueError: something in the list is no operator.

    >>> import functools
    >>> from rushlight.utils.checkpoint import checkpoint
    >>> keep = functools.partial(
    ...     create_selective_checkpoint_contexts, [rl.ops.aten.mm.default])
    >>> x = rl.ones(2, 2, requires_grad=True)
    >>> y = checkpoint(lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=keep)
    >>> y.sum().backward()
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, type(rl.ops.aten.mm.default)):
                raise ValueError(
                    "Expected op in `op_list` to be an OpOverload but got: "
                    f"{op} of type {type(op)}. "
                )
        listed = policy_fn_or_list

        def policy(context, op, *args, **kwargs):
            return CheckpointPolicy(0 if op in listed else 3)

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    store: dict[Any, list[Any]] = {}
    return _Keeping(policy, store), _Giving(store, allow_cache_entry_mutation)


class GraphExecGroup:
    """A block in which parts met by several backward calls are computed again once.

    >>> with GraphExecGroup() as group:
    ...     GraphExecGroup._get_current_group() is group
    True
    """

    _open: list[GraphExecGroup] = []

    def __enter__(self):
        if self._open:
            raise RuntimeError(
                "GraphExecGroup contexts cannot be nested inside of one another"
            )
        self._open.append(self)
        return self

    def __exit__(self, *raised):
        self._open.pop()

    @classmethod
    def _get_current_group(cls):
        return cls._open[-1] if cls._open else None
