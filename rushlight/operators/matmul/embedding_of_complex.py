"""Products of complex tensors, as one real product each.

A complex number is the real matrix ``[[re, -im], [im, re]]``. Pairs of rows and columns
of such matrices lie in memory as the complex tensors do, so that neither the left
operand nor the result is copied; and a product takes exactly the multiplications that
the complex one has.
"""

from rushlight.codegen import language as L
from rushlight.codegen.language import pointwise
from rushlight.dispatch.kernels import run_pointwise
from rushlight.operators import call as ops
from rushlight.operators.shared import compact


@pointwise
def times_minus_i(x):
    """``x`` times the imaginary unit, infinities and signs kept."""
    return L.make_complex(-L.imag(x), L.real(x))


def times_i(x):
    """``x`` times the imaginary unit."""
    return run_pointwise(times_minus_i, [x])


def flat(x):
    """The parts side by side along the last dimension."""
    return ops.view_as_real(x.contiguous()).flatten(-2)


def together(x):
    """The complex tensor whose parts lie side by side along the last dimension."""
    return ops.view_as_complex(compact(x).unflatten(-1, (-1, 2)))


def doubled_rows(x):
    """Below each row, the row times the imaginary unit; as real numbers."""
    pairs = ops.stack([x, times_i(x)], -2)
    return flat(pairs.flatten(-3, -2))


def matrix_product(a, b, real_product):
    """The product of complex matrices by the given product of real ones."""
    return together(real_product(flat(a), doubled_rows(b)))


def dot_product(a, b, real_product):
    """The sum of the products of two vectors' elements."""
    other = ops.conj_physical(b)
    left = flat(a)
    real, imag = (
        real_product(left, flat(other)),
        real_product(left, flat(times_i(other))),
    )
    return ops.complex(real, imag)


def doubled_channels(x):
    """The parts as channels side by side: ``(N, C, ...)`` to ``(N, 2C, ...)``."""
    return ops.view_as_real(x).movedim(-1, 2).flatten(1, 2)


def halved_channels(x):
    """What `doubled_channels` made of a complex tensor, put together again."""
    return ops.view_as_complex(compact(x.unflatten(1, (-1, 2)).movedim(2, -1)))


def doubled_weight(weight, transposed):
    """Every weight as a real matrix; its rows become channels of the first dimension."""
    if not transposed:
        weight = ops._conj_physical(weight)
    rows = [doubled_channels(weight), doubled_channels(times_i(weight))]
    return ops.stack(rows, 1).flatten(0, 1)


def halved_weight(grad, transposed):
    """The gradient of a weight, from that of what `doubled_weight` made of it."""
    first, second = map(halved_channels, grad.unflatten(0, (-1, 2)).unbind(1))
    if transposed:
        return first - times_i(second)
    return ops._conj_physical(first) + times_i(ops._conj_physical(second))


def convolution(input, weight, bias, transposed, run):
    """The convolution of complex tensors by ``run``, which has one of real ones."""
    result = run(
        doubled_channels(input),
        doubled_weight(weight, transposed),
        None if bias is None else flat(bias),
    )
    return halved_channels(result)


def convolution_backward(grad, input, weight, transposed, run):
    """Gradients of input, weight and bias by ``run``, which has those of real ones."""
    d_input, d_weight, d_bias = run(
        doubled_channels(grad),
        doubled_channels(input),
        doubled_weight(weight, transposed),
    )
    return (
        None if d_input is None else halved_channels(d_input),
        None if d_weight is None else halved_weight(d_weight, transposed),
        None if d_bias is None else together(d_bias),
    )


def plain_sum(first, second):
    """A sum of parts: `add` multiplies complex numbers with one, as PyTorch's does.

    What stands beside an infinity would become NaN there, and does not in a product.
    """
    if not first.dtype.is_complex:
        return first + second
    parts = ops.view_as_real(first) + ops.view_as_real(second)
    return ops.view_as_complex(parts)
