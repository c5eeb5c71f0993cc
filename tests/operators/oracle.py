"""Carries values between Rushlight and the oracle, and compares their answers."""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

TOLERANCE = {
    "float32": (1e-4, 3e-5),
    "float64": (1e-7, 1e-9),
    "complex64": (1e-4, 3e-5),
    "complex128": (1e-7, 1e-9),
}


def to_rushlight(value, carried=None):
    """A value of the oracle's as Rushlight's, tensors with their strides and flags.

    Args:
        carried: tensors that were carried already, so that one object stays one.
    """
    carried = {} if carried is None else carried
    if isinstance(value, torch.Tensor):
        if id(value) not in carried:
            carried[id(value)] = (_carry(value), value)
        return carried[id(value)][0]
    if isinstance(value, torch.dtype):
        return getattr(rl, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return rl.device(str(value))
    if isinstance(value, (torch.memory_format, torch.layout)):
        return getattr(rl, str(value).removeprefix("torch."))
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, (list, tuple)):
        return type(value)(to_rushlight(item, carried) for item in value)
    if isinstance(value, dict):
        return {key: to_rushlight(item, carried) for key, item in value.items()}
    return value


def _carry(tensor):
    flat = tensor.detach().contiguous().numpy(force=True).copy()
    result = rl.from_numpy(flat)
    if not tensor.is_contiguous():
        result = rl.empty_strided(
            tuple(tensor.shape), tensor.stride(), dtype=result.dtype
        ).copy_(result)
    return result.requires_grad_() if tensor.requires_grad else result


def assert_agrees(result, expected, what="result"):
    """Structure, dtype, shape and values are the oracle's."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(result, rl.Tensor), f"{what}: {type(result).__name__}"
        name = str(expected.dtype).removeprefix("torch.")
        assert result.dtype.name == name, f"{what}: {result.dtype.name}, not {name}"
        assert tuple(result.shape) == tuple(expected.shape), what
        rtol, atol = TOLERANCE.get(name, (0, 0))
        np.testing.assert_allclose(
            result.detach().numpy(force=True), expected.detach().numpy(force=True), rtol=rtol,
            atol=atol, err_msg=what,
        )  # fmt: skip
    elif isinstance(expected, (list, tuple)):
        assert len(result) == len(expected), what
        for number, (mine, theirs) in enumerate(zip(result, expected)):
            assert_agrees(mine, theirs, f"{what}[{number}]")
    elif isinstance(expected, float):
        assert result == pytest.approx(expected, nan_ok=True), what
    else:
        assert result == expected, what


def tensors_in(value):
    """The tensors of a nested value, in order."""
    if isinstance(value, (rl.Tensor, torch.Tensor)):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def gradients(module, result, inputs):
    """Gradients of the inputs that ask for one, for cotangents of fixed numbers."""
    outputs = [t for t in tensors_in(result) if t.requires_grad]
    wanted = [t for t in tensors_in(inputs) if t.requires_grad]
    if not outputs or not wanted:
        return None
    cotangents = []
    for output in outputs:
        count = output.numel()
        numbers = np.cos(np.arange(count, dtype="float64") * 1.7).reshape(output.shape)
        name = str(output.dtype).split(".")[-1]
        cotangents.append(module.from_numpy(np.array(numbers, dtype=name)))
    return module.autograd.grad(outputs, wanted, cotangents, allow_unused=True)


def assert_gradients_agree(mine, theirs):
    """Every gradient is the oracle's; an absent one may be zeros."""
    if theirs is None:
        assert mine is None
        return
    assert mine is not None, "no output requires a gradient"
    for number, (left, right) in enumerate(zip(mine, theirs, strict=True)):
        if left is None or right is None:
            present = left if right is None else right
            assert present is None or not present.numpy(force=True).any()
            continue
        assert_agrees(left, right, f"gradient {number}")
