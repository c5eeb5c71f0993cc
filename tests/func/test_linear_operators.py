"""Operators that call themselves linear are, in all their tensors together."""

import pytest

import rushlight as rl
from rushlight.dispatch.declared import FORWARD
from rushlight.dispatch.library import find_operator
from rushlight.func import jvp
from rushlight.operators.registry import every_operator

I = rl.tensor([2, 0, 1])


def real(*sizes):
    return rl.randn(*sizes, dtype=rl.float64)


def complexes(*sizes):
    return rl.randn(*sizes, dtype=rl.complex128)


def rows(x):
    return x.long().expand(3, 3) * 0 + I


# For each operator: arguments, and which of them are its tensors of numbers.
SAMPLES = {
    "complex": lambda: ([real(3), real(3)], (0, 1)),
    "clone": lambda: ([real(3)], (0,)),
    "_to_copy": lambda: ([real(3)], (0,)),
    "cumsum": lambda: ([real(3, 2), 0], (0,)),
    "index.Tensor": lambda: ([real(3, 2), [None, rl.tensor([1, 0])]], (0,)),
    "index_select": lambda: ([real(3, 2), 0, I], (0,)),
    "index_add": lambda: ([real(3, 2), 0, I, real(3, 2)], (0, 3)),
    "index_copy": lambda: ([real(3, 2), 0, I, real(3, 2)], (0, 3)),
    "gather": lambda: ([real(3, 3), 1, rows(real(3, 3))], (0,)),
    "scatter_add": lambda: ([real(3, 3), 1, rows(real(3, 3)), real(3, 3)], (0, 3)),
    "masked_select": lambda: ([real(3), rl.tensor([True, False, True])], (0,)),
    "take": lambda: ([real(3, 2), I], (0,)),
    "embedding": lambda: ([real(4, 2), I], (0,)),
    "_bag_sum": lambda: ([real(4, 2), I, rl.tensor([0, 1, 3])], (0,)),
    "avg_pool1d": lambda: ([real(1, 2, 6), [2]], (0,)),
    "avg_pool2d": lambda: ([real(1, 2, 4, 4), [2, 2]], (0,)),
    "avg_pool3d": lambda: ([real(1, 2, 4, 4, 4), [2, 2, 2]], (0,)),
    "_adaptive_avg_pool2d": lambda: ([real(1, 2, 5, 4), [2, 2]], (0,)),
    "_adaptive_avg_pool3d": lambda: ([real(1, 2, 5, 4, 4), [2, 2, 2]], (0,)),
    "max_unpool2d": lambda: (
        [real(1, 1, 2, 2), rl.tensor([[[[0, 3], [9, 14]]]]), [4, 4]],
        (0,),
    ),
    "max_unpool3d": lambda: (
        [
            real(1, 1, 1, 1, 2),
            rl.tensor([[[[[0, 7]]]]]),
            [2, 2, 4],
            [2, 2, 2],
            [0, 0, 0],
        ],
        (0,),
    ),
    "sum": lambda: ([real(3, 2)], (0,)),
    "sum.dim_IntList": lambda: ([real(3, 2), [1]], (0,)),
    "mean": lambda: ([real(3, 2)], (0,)),
    "mean.dim": lambda: ([real(3, 2), [0]], (0,)),
    "cat": lambda: ([[real(3, 2), real(1, 2)], 0], (0,)),
    "stack": lambda: ([[real(3), real(3)], 1], (0,)),
    "repeat": lambda: ([real(3), [2, 2]], (0,)),
    "flip": lambda: ([real(3, 2), [0]], (0,)),
    "roll": lambda: ([real(3, 2), [1], [0]], (0,)),
    "tril": lambda: ([real(3, 3)], (0,)),
    "triu": lambda: ([real(3, 3)], (0,)),
    "diag_embed": lambda: ([real(3)], (0,)),
    "as_strided_scatter": lambda: ([real(3, 3), real(2), [2], [3], 1], (0, 1)),
    "im2col": lambda: ([real(1, 1, 4, 4), [2, 2], [1, 1], [0, 0], [1, 1]], (0,)),
    "col2im": lambda: ([real(1, 4, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]], (0,)),
    "_fft_c2c": lambda: ([complexes(4), [0], 0, True], (0,)),
    "_fft_r2c": lambda: ([real(4), [0], 0, True], (0,)),
    "_fft_c2r": lambda: ([complexes(3), [0], 2, 4], (0,)),
    "neg": lambda: ([real(3)], (0,)),
    "select_backward": lambda: ([real(2), [3, 2], 0, 1], (0,)),
    "slice_backward": lambda: ([real(2, 2), [3, 2], 0, 0, 2, 1], (0,)),
    "unfold_backward": lambda: ([real(2, 2), [4], 0, 2, 2], (0,)),
}


def combined(args, others, places, scale):
    """The first arguments plus the others times a number, where they are numbers."""
    made = list(args)
    for place in places:
        one, other = args[place], others[place]
        if isinstance(one, list):
            made[place] = [a + scale * b for a, b in zip(one, other, strict=True)]
        else:
            made[place] = one + scale * other
    return made


def test_every_linear_operator_has_a_sample():
    tagged = {
        op.name
        for op in every_operator()
        if op.entry and op.entry[FORWARD] == "linear" and op.form == 0
    }
    assert tagged == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_linear_operator_maps_sums_to_sums(name):
    op = find_operator(f"aten::{name}")
    make = SAMPLES[name]
    args, places = make()
    others, _ = make()
    expected = op(*args) + 2 * op(*others)
    found = op(*combined(args, others, places, 2))
    assert rl.allclose(found, expected)


@pytest.mark.parametrize(
    "function",
    [
        rl.linalg.svdvals,
        lambda a: rl.linalg.eigvalsh(a + a.T),
        lambda a: rl.linalg.eigvals(a + 3 * rl.eye(3, dtype=a.dtype)).real.sort()[0],
        lambda a: rl.linalg.norm(a, "nuc"),
        rl.linalg.cond,
        lambda a: rl.as_strided_scatter(a, a[0, :2] * a[1, 1], (2,), (3,), 1),
    ],
)
def test_factors_that_only_tangents_need_are_kept(function):
    x = rl.tensor(
        [[0.3, 1.2, 2.2], [0.7, -1.0, 0.1], [0.9, 0.2, 1.7]], dtype=rl.float64
    )
    along = rl.tensor(
        [[1.0, -0.5, 0.25], [2.0, 0.1, 0.2], [-1.0, 0.3, 0.6]], dtype=rl.float64
    )
    _, tangent = jvp(function, (x,), (along,))
    step = 1e-6
    difference = (function(x + step * along) - function(x - step * along)) / (2 * step)
    assert rl.allclose(tangent, difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "function",
    [
        rl.tanh, rl.exp, rl.sigmoid, rl.abs, rl.relu, rl.sqrt, rl.atan, rl.erf,
        rl.nn.functional.gelu, rl.nn.functional.softplus, rl.nn.functional.elu,
        lambda x: rl.softmax(x, 0), lambda x: rl.pow(x, 3), lambda x: x * x[0],
        lambda x: rl.where(x > 1, x * x, x), lambda x: x[:, None] / x + x @ x[:, None],
        lambda x: rl.maximum(x, x[1]), lambda x: rl.hypot(x, x[0]) - x[1],
        lambda x: rl.clamp(x, 0.5, 1.5), lambda x: x.outer(x).matmul(x),
    ],
)  # fmt: skip
def test_tangents_are_what_differences_say(function):
    x = rl.tensor([0.3, 1.2, 2.2, 0.7], dtype=rl.float64)
    along = rl.tensor([1.0, -0.5, 0.25, 2.0], dtype=rl.float64)
    _, tangent = jvp(function, (x,), (along,))
    step = 1e-6
    difference = (function(x + step * along) - function(x - step * along)) / (2 * step)
    assert rl.allclose(tangent, difference, rtol=1e-6, atol=1e-8)
