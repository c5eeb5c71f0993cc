"""What stands for an integer, a size, a number or a truth value: as on PyTorch.

Sizes are taken from tensors of one element and from whatever has ``__index__``; other
integers are Python's, NumPy's or tensors' without dimensions; truth values are Python's.
"""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


class Indexed:
    def __index__(self):
        return 1


class Whole(int):
    pass


class Real:
    def __float__(self):
        return 1.0


GIVEN = {
    "1": lambda m: 1,
    "2.0": lambda m: 2.0,
    "True": lambda m: True,
    "None": lambda m: None,
    "tensor(1)": lambda m: m.tensor(1),
    "tensor([1])": lambda m: m.tensor([1]),
    "tensor([[1]])": lambda m: m.tensor([[1]]),
    "tensor([1, 1])": lambda m: m.tensor([1, 1]),
    "tensor(1.0)": lambda m: m.tensor(1.0),
    "tensor(1.0, grad)": lambda m: m.tensor(1.0, requires_grad=True),
    "int64": lambda m: np.int64(1),
    "uint8": lambda m: np.uint8(1),
    "float32": lambda m: np.float32(1),
    "bool_": lambda m: np.bool_(True),
    "array(1)": lambda m: np.array(1),
    "array(1.0)": lambda m: np.array(1.0),
    "array([1])": lambda m: np.array([1]),
    "array([1, 1])": lambda m: np.array([1, 1]),
    "indexed": lambda m: Indexed(),
    "whole": lambda m: Whole(1),
    "real": lambda m: Real(),
}
INTEGERS = {
    "softmax": lambda m, n: m.ones(2, 3).softmax(n),
    "unsqueeze": lambda m, n: m.ones(2).unsqueeze(n),
    "transpose": lambda m, n: m.ones(2, 1, 3).transpose(0, n),
    "cat": lambda m, n: m.cat([m.ones(2, 2, 2)], n),
    "chunk": lambda m, n: m.arange(6).chunk(n),
    "diag": lambda m, n: m.ones(3, 3).diag(n),
    "unfold": lambda m, n: m.ones(4).unfold(0, n, 1),
    "matrix_power": lambda m, n: m.eye(2).matrix_power(n),
    "argmax": lambda m, n: m.ones(2, 3).argmax(n),
    "rot90": lambda m, n: m.ones(2, 3).rot90(n),
    "vander": lambda m, n: m.vander(m.ones(2), n),
}
SIZES = {
    "narrow": lambda m, n: m.ones(5).narrow(0, 0, n),
    "select": lambda m, n: m.ones(5).select(0, n),
    "topk": lambda m, n: tuple(m.arange(5).topk(n)),
    "kthvalue": lambda m, n: tuple(m.arange(5).kthvalue(n)),
    "tril": lambda m, n: m.ones(3, 3).tril(n),
    "bincount": lambda m, n: m.arange(2).bincount(minlength=n),
    "eye": lambda m, n: m.eye(n),
    "vander": lambda m, n: m.linalg.vander(m.ones(2), N=n),
}
LISTS = {
    "zeros": lambda m, n: m.zeros(n),
    "zeros of a list": lambda m, n: m.zeros([n, 2]),
    "zeros of a list's second": lambda m, n: m.zeros([2, n]),
    "view": lambda m, n: m.arange(1).view(n),
    "reshape": lambda m, n: m.arange(2).reshape(n, 2),
    "expand": lambda m, n: m.ones(1).expand(n),
    "repeat": lambda m, n: m.ones(1).repeat(n),
    "new_zeros": lambda m, n: m.ones(1).new_zeros(n),
    "pad": lambda m, n: m.nn.functional.pad(m.ones(1, 3), (n, 0)),
    "layer_norm": lambda m, n: m.nn.functional.layer_norm(m.ones(2, 1), (n,)),
    "as_strided": lambda m, n: m.ones(4).as_strided((n,), (1,)),
    "sum of a list": lambda m, n: m.ones(2, 3).sum([0, n]),
}
NUMBERS = {
    "add": lambda m, n: m.add(m.ones(2, dtype=m.int64), n),
    "mul": lambda m, n: m.ones(2, dtype=m.bool).mul(n),
    "full": lambda m, n: m.full((2,), n),
    "arange": lambda m, n: m.arange(n),
    "clamp": lambda m, n: m.ones(2).clamp(n),
    "allclose": lambda m, n: m.allclose(m.ones(2), m.ones(2), n),
    "dropout": lambda m, n: m.nn.functional.dropout(m.ones(2), n, False),
}
TRUTHS = {
    "amax": lambda m, n: m.ones(2, 3).amax(0, n),
    "sum": lambda m, n: m.ones(2, 3).sum(0, keepdim=n),
    "sort": lambda m, n: tuple(m.ones(2, 3).sort(0, n)),
    "topk": lambda m, n: tuple(m.ones(3).topk(1, 0, n)),
    "dropout": lambda m, n: m.nn.functional.dropout(m.ones(2), 0.0, n),
}
# PyTorch takes the number of a truth value for one, and stumbles over it.
STUMBLES = ("isIntegral", "INTERNAL ASSERT")


def outcome(module, function, given):
    try:
        result = function(module, given(module))
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        stumbled = any(word in str(error) for word in STUMBLES)
        return "stumbles" if stumbled else type(error).__name__
    parts = result if isinstance(result, tuple) else (result,)
    return [
        (str(part.dtype).rpartition(".")[2], part.tolist())
        if hasattr(part, "dtype")
        else part
        for part in parts
    ]


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize(
    "calls",
    [INTEGERS, SIZES, LISTS, NUMBERS, TRUTHS],
    ids="int size list number bool".split(),
)
def test_values_are_taken_for_arguments_as_on_pytorch(calls, given):
    for name, function in calls.items():
        expected = outcome(torch, function, GIVEN[given])
        if expected != "stumbles":
            assert outcome(rl, function, GIVEN[given]) == expected, name


@pytest.mark.parametrize(
    "array",
    [np.ones(2), np.array(1), np.array(["a", "b"]), np.array([1, None])],
    ids=repr,
)
def test_only_equality_is_asked_of_arrays(array):
    for ours, theirs in [
        (rl.ones(2) == array, torch.ones(2) == array),
        (array == rl.ones(2), array == torch.ones(2)),
    ]:
        kinds = [isinstance(ours, rl.Tensor), isinstance(theirs, torch.Tensor)]
        assert kinds[0] == kinds[1]
        if kinds[0]:
            assert ours.tolist() == theirs.tolist()
