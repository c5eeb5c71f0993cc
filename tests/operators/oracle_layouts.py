"""Carries sparse and nested values from the oracle, and holds results to its results."""

import inspect
import types

import pytest

import rushlight as rl
from tests.operators import oracle
from tests.operators.oracle import torch

if torch is None:  # pragma: no cover
    pytest.skip("the oracle is not installed", allow_module_level=True)

COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


WIDER = {"bfloat16": "float32", "complex32": "complex64"}  # of types NumPy lacks


def carried(value, known):
    """A value of the oracle's as Rushlight's; what was carried before is the same object."""
    if isinstance(value, torch.Tensor) and id(value) not in known:
        found = _made(value, known)
        if found is not None:
            known[id(value)] = (found.requires_grad_(value.requires_grad), value)
    if isinstance(value, (list, tuple)):
        return type(value)(carried(each, known) for each in value)
    if isinstance(value, dict):
        return {key: carried(each, known) for key, each in value.items()}
    return oracle.to_rushlight(value, known)


def _made(tensor, known):
    """A tensor of parts, which are carried; None of a dense one."""
    bare = tensor.detach()
    if tensor.is_nested:
        lengths = None if tensor._lengths is None else carried(tensor._lengths, known)
        return rl.nested.nested_tensor_from_jagged(
            carried(tensor._values.detach(), {}), carried(tensor._offsets, known),
            lengths, jagged_dim=tensor._ragged_idx, min_seqlen=tensor._maybe_min_seqlen,
            max_seqlen=tensor._maybe_max_seqlen,
        ).detach()  # fmt: skip
    if tensor.layout is torch.sparse_coo:
        parts = carried((bare._indices(), bare._values()), {})
        made = rl.sparse_coo_tensor(*parts, tuple(tensor.shape))
        return made._coalesced_(tensor.is_coalesced())
    if tensor.layout in COMPRESSED:
        parts = [getattr(bare, name)() for name in COMPRESSED[tensor.layout]]
        layout = getattr(rl, str(tensor.layout).removeprefix("torch."))
        return rl.sparse_compressed_tensor(
            *carried([*parts, bare.values()], {}), tuple(tensor.shape), layout=layout
        )
    return None


def told(value):
    """A result as dense parts, with what is said of their layout."""
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    if not isinstance(value, (rl.Tensor, torch.Tensor)):
        return value
    value = value.detach()
    if value.is_nested:
        return [value._ragged_idx, *map(told, value.unbind())]
    layout = str(value.layout).rpartition(".")[2]
    name = str(value.dtype).rpartition(".")[2]
    if name in WIDER:
        library = rl if isinstance(value, rl.Tensor) else torch
        return [name, told(value.to(getattr(library, WIDER[name])))]
    if layout == "strided":
        return value.resolve_conj().resolve_neg()
    return [layout, value.to_dense()]


def function_of(info):
    """What plays the part of a database entry's function, for both sides."""
    function = info.op
    if inspect.isfunction(function) and function.__module__.startswith("torch.testing"):
        return tuple(_rebound(function, library) for library in (torch, rl))
    mine = rl.Tensor if info.name.startswith("__") else rl
    for name in info.name.split("."):
        mine = getattr(mine, name, None)
    if isinstance(mine, rl.dtype):  # `cdouble`, `long`: a type's name, and a method's
        mine = getattr(rl.Tensor, info.name)
    return function, mine


def _rebound(function, library):
    """A helper of the database in which ``torch`` is a library, and no seed is set."""
    names = dict(function.__globals__) | {
        "torch": library,
        "wrapper_set_seed": lambda call, *args, **kwargs: call(*args, **kwargs),
    }
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def outcome(library, function, args, keywords):
    """A result and nothing, or nothing and how the call was refused."""
    library.manual_seed(0)
    try:
        return function(*args, **keywords), None
    except Exception as error:
        return None, error


def is_refused(info, sample):
    """Whether the oracle refuses a sample."""
    function, _ = function_of(info)
    args = sample.input, *sample.args
    return outcome(torch, function, args, dict(sample.kwargs))[1] is not None


def difference(info, sample):
    """How a sample of an entry ends otherwise than on the oracle, in words; None if alike.

    What the oracle refuses says nothing.
    """
    theirs, mine = function_of(info)
    args, keywords = (sample.input, *sample.args), dict(sample.kwargs)
    known = {}
    my_args, my_keywords = carried((args, keywords), known)
    expected, refused = outcome(torch, theirs, args, keywords)
    if refused is not None:
        return None
    found, error = outcome(rl, mine, my_args, my_keywords)
    if error is not None:
        return f"{type(error).__name__}: {error}"
    try:
        oracle.assert_agrees(told(found), told(expected))
    except AssertionError as fault:
        return str(fault)
    return None
