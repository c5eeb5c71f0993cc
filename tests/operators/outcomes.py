"""What a call gives here and on PyTorch: kinds of results, or of refusals."""

import warnings

import pytest

import rushlight as rl


def outcome(module, call):
    """What a call gives: the kinds of its results, or the kind of its refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(module)
        except Exception as error:
            return type(error).__name__.lstrip("_")
    if not isinstance(result, tuple):
        return kind(result)
    return type(result).__name__, [kind(part) for part in result]


def kind(tensor):
    dtype = str(tensor.dtype).rpartition(".")[2]
    return dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad


def goes_as_on_pytorch(call):
    torch = pytest.importorskip("torch")
    assert outcome(rl, call) == outcome(torch, call)
