"""One direction of one recurrent layer over all steps, and back; see `recurrent`.

Rows are samples. Steps lie one after the other and may have fewer and fewer rows, those of
the longest sequences first. The state of all samples is kept in one place, so rows of a
sequence that has ended, or that has not begun when read backwards, keep theirs.
"""

from __future__ import annotations

import functools

from rushlight.codegen.language import select, sigmoid, tanh
from rushlight.codegen.loops import A, T, loops, vectorized
from rushlight.core.roles import host
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.kernels.matmul.matmul_kernel_registry import width_of
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import brief, expect, filled, fresh, name_of, run
from rushlight.operators.matmul import linear_packed

product_into = host.matmul.product_into


@loops
def lstm_kernel(
    gates: "T*", hidden: "T*", cell: "T*", out: "T*", cells: "T*", recurrent: "T*",
    size: int, begin: int, end: int,
):  # fmt: skip
    """A step: what enters the gates becomes their values, the states go on."""
    for row in range(begin, end):
        at, first = row * size, 4 * row * size
        at_g, at_o = first + 2 * size, first + 3 * size
        for j in vectorized(size):
            i = sigmoid(A(gates[first + j]) + A(recurrent[first + j]))
            f = sigmoid(A(gates[first + size + j]) + A(recurrent[first + size + j]))
            g = tanh(A(gates[at_g + j]) + A(recurrent[at_g + j]))
            o = sigmoid(A(gates[at_o + j]) + A(recurrent[at_o + j]))
            c = f * A(cell[at + j]) + i * g
            h = o * tanh(c)
            gates[first + j] = T(i)
            gates[first + size + j] = T(f)
            gates[at_g + j] = T(g)
            gates[at_o + j] = T(o)
            cell[at + j] = T(c)
            cells[at + j] = T(c)
            hidden[at + j] = T(h)
            out[at + j] = T(h)


@loops
def lstm_back_kernel(
    slopes: "T*", d_cell: "T*", states: "T*", gates: "T*", cells: "T*", before: "T*",
    grad: "T*", d_hidden: "T*", size: int, begin: int, end: int,
):  # fmt: skip
    """A step back: slopes of what entered the gates and of the cell before; the state."""
    for row in range(begin, end):
        at, first = row * size, 4 * row * size
        for j in vectorized(size):
            i = A(gates[first + j])
            f = A(gates[first + size + j])
            g = A(gates[first + 2 * size + j])
            o = A(gates[first + 3 * size + j])
            bent = tanh(A(cells[at + j]))
            dh = A(grad[at + j]) + A(d_hidden[at + j])
            dc = A(d_cell[at + j]) + dh * o * (A(1) - bent * bent)
            slopes[first + j] = T(dc * g * ((A(1) - i) * i))
            slopes[first + size + j] = T(dc * A(before[at + j]) * ((A(1) - f) * f))
            slopes[first + 2 * size + j] = T(dc * i * (A(1) - g * g))
            slopes[first + 3 * size + j] = T(dh * bent * ((A(1) - o) * o))
            d_cell[at + j] = T(dc * f)
            states[at + j] = T(o * bent)


@loops
def gru_kernel(
    gates: "T*", hidden: "T*", out: "T*", states: "T*", given: "T*", recurrent: "T*",
    size: int, begin: int, end: int,
):  # fmt: skip
    """A step: the values of three gates, the state's share of the last, and the state."""
    for row in range(begin, end):
        at, first, wide = row * size, 3 * row * size, 4 * row * size
        for j in vectorized(size):
            r = sigmoid(A(given[first + j]) + A(recurrent[first + j]))
            z = sigmoid(A(given[first + size + j]) + A(recurrent[first + size + j]))
            share = A(recurrent[first + 2 * size + j])
            n = tanh(A(given[first + 2 * size + j]) + r * share)
            h = n + z * (A(hidden[at + j]) - n)
            gates[wide + j] = T(r)
            gates[wide + size + j] = T(z)
            gates[wide + 2 * size + j] = T(n)
            gates[wide + 3 * size + j] = T(share)
            hidden[at + j] = T(h)
            states[at + j] = T(h)
            out[at + j] = T(h)


@loops
def gru_back_kernel(
    slopes: "T*", shares: "T*", d_hidden: "T*", gates: "T*", before: "T*", grad: "T*",
    size: int, begin: int, end: int,
):  # fmt: skip
    """A step back: slopes of what the input and of what the state gave the gates."""
    for row in range(begin, end):
        at, first, wide = row * size, 3 * row * size, 4 * row * size
        for j in vectorized(size):
            r = A(gates[wide + j])
            z = A(gates[wide + size + j])
            n = A(gates[wide + 2 * size + j])
            dh = A(grad[at + j]) + A(d_hidden[at + j])
            dn = dh * (A(1) - z) * (A(1) - n * n)
            dr = dn * A(gates[wide + 3 * size + j]) * ((A(1) - r) * r)
            dz = dh * (A(before[at + j]) - n) * ((A(1) - z) * z)
            slopes[first + j] = T(dr)
            slopes[first + size + j] = T(dz)
            slopes[first + 2 * size + j] = T(dn)
            shares[first + j] = T(dr)
            shares[first + size + j] = T(dz)
            shares[first + 2 * size + j] = T(dn * r)
            d_hidden[at + j] = T(dh * z)


@loops
def rnn_kernel(
    out: "T*", hidden: "T*", states: "T*", recurrent: "T*", size: int, relu: int,
    begin: int, end: int,
):  # fmt: skip
    """A step: what enters the gate becomes the state."""
    for row in range(begin, end):
        at = row * size
        for j in vectorized(size):
            x = A(out[at + j]) + A(recurrent[at + j])
            h = select(x > A(0), x, select(x <= A(0), A(0), x)) if relu else tanh(x)
            out[at + j] = T(h)
            states[at + j] = T(h)
            hidden[at + j] = T(h)


@loops
def rnn_back_kernel(
    slopes: "T*", states: "T*", grad: "T*", d_hidden: "T*", size: int, relu: int,
    begin: int, end: int,
):  # fmt: skip
    """A step back: the slope of what entered the gate."""
    for row in range(begin, end):
        at = row * size
        for j in vectorized(size):
            h = A(states[at + j])
            dh = A(grad[at + j]) + A(d_hidden[at + j])
            slopes[at + j] = T(
                select(h <= A(0), A(0), dh) if relu else dh * (A(1) - h * h)
            )


class Steps:
    """How the rows of a sequence are cut into steps, and in which order they are read."""

    def __init__(self, counts, reverse):
        self.counts = list(counts)
        order = range(len(self.counts))
        self.order = list(reversed(order)) if reverse else list(order)

    def cut(self, tensor):
        """The steps of a tensor of rows."""
        return tensor.split(self.counts)

    def first(self, tensor, rows):
        """As many rows of all samples."""
        return tensor if rows == tensor.shape[0] else tensor[:rows]

    def before(self, initial, states):
        """The state that each step began with, from the one after each step."""
        pieces, previous = [None] * len(self.counts), None
        for time, state in zip(
            self.order, map(self.cut(states).__getitem__, self.order)
        ):
            rows = self.counts[time]
            begun = 0 if previous is None else min(rows, previous.shape[0])
            piece = [previous[:begun]] if begun else []
            pieces[time] = [*piece, initial[begun:rows]] if begun < rows else piece
            previous = state
        return ops.cat([part for piece in pieces for part in piece])


def launch(kernel, tensors, size, **flags):
    """Runs a step's kernel, made for its flags, over the rows of its first tensor."""
    first, ints = tensors[0], [size, *flags.values()]
    run(
        kernel,
        tensors,
        ints,
        first.shape[0],
        16 * size,
        T=name_of(first.dtype),
        **flags,
    )


class Shares:
    """What states give the gates, in memory that all steps share.

    Of several rows the weights are turned, or in panels, once for all steps; a lone row goes
    beside them as they lie.
    """

    def __init__(self, hidden, w_hh, b_hh):
        self.weight, self.across, self.panels = w_hh, None, None
        self.bias, self.made = b_hh, fresh(hidden, (hidden.shape[0], w_hh.shape[0]))
        self.width = width_of(name_of(hidden.dtype))
        self.positions = {}

    def of(self, hidden):
        """Of the states of one step."""
        rows = hidden.shape[0]
        found = self.positions.get(rows)
        if found is None:
            found = self.positions[rows] = self.place(rows)
        multiply, made, *rest = found
        multiply(made, hidden, *rest)
        return made

    def place(self, rows):
        """How so many rows are multiplied, where sums go, the weights, and what is added."""
        made, (columns, depth) = self.made[:rows], self.weight.shape
        if rows > 1 and columns >= self.width:
            if self.panels is None:
                self.panels = linear_packed.pack_weight(self.width, self.weight)
            sizes, biased = (rows, columns, depth), self.bias is not None
            plan = linear_packed.planned(name_of(made.dtype), sizes, (depth, 1), biased)
            multiply = functools.partial(linear_packed.launch, plan)
            return multiply, made, self.panels, self.bias
        across = self.weight.t()
        if rows > 1:
            if self.across is None:
                self.across = across.contiguous()
            across = self.across
        added = None if self.bias is None else self.bias.expand(made.shape)
        return product_into, made, across, added


# Whether one operator takes all steps on a device.
has_sequence_kernel = KernelTable(
    cpu=lambda _: True, cuda=lambda _: False, meta=lambda _: False
)


def check(operator, gates, input, states, w_ih, w_hh, b_ih, b_hh, counts):
    """Refuses operands of all steps that don't go together.

    Args:
        gates: how many rows of the weights each element of a state has.
        states: the states to begin with, by their names.

    Raises:
        RuntimeError: a size, a type or a count isn't right.
    """
    fits = input.ndim == w_hh.ndim == 2 and has_sequence_kernel(input.device)
    fits = fits and name_of(input.dtype) in ("float32", "float64")
    if not fits or not w_hh.shape[1]:
        raise RuntimeError(
            f"{operator}: expected rows of float32 or float64 in memory, and weights "
            f"for each of them\n  input: {brief(input)}\n  w_hh: {brief(w_hh)}"
        )
    if not counts or min(counts) < 0 or sum(counts) != input.shape[0]:
        raise RuntimeError(
            f"{operator}: expected counts of rows that sum up to {input.shape[0]}\n"
            f"  counts: {list(counts)}\n  input: {brief(input)}"
        )
    size, dtype = w_hh.shape[1], input.dtype
    wide = gates * size
    rows = {name: (t, (max(counts), size), dtype) for name, t in states.items()}
    expect(
        operator, **rows, w_ih=(w_ih, (wide, input.shape[1]), dtype),
        w_hh=(w_hh, (wide, size), dtype), b_ih=(b_ih, (wide,), dtype),
        b_hh=(b_hh, (wide,), dtype),
    )  # fmt: skip


def lstm_sequence(input, hidden, cell, w_ih, w_hh, b_ih, b_hh, counts, reverse, keep):
    """The hidden states, both last ones, and what the way back needs: gates, cells."""
    given = input, {"hidden": hidden, "cell": cell}, w_ih, w_hh, b_ih, b_hh, counts
    check("_lstm_sequence", 4, *given)
    steps, size = Steps(counts, reverse), w_hh.shape[1]
    hidden, cell = row_major(hidden), row_major(cell)
    gates, shares = ops.linear(input, w_ih, b_ih), Shares(hidden, w_hh, b_hh)
    out = fresh(input, (input.shape[0], size))
    cells = fresh(input, out.shape if keep else (0,))
    parts = [steps.cut(each) for each in (gates, out)]
    after = steps.cut(cells) if keep else None
    for time in steps.order:
        gate, result = [part[time] for part in parts]
        h, c = [steps.first(each, gate.shape[0]) for each in (hidden, cell)]
        kept = after[time] if keep else c
        launch(lstm_kernel, [gate, h, c, result, kept, shares.of(h)], size)
    return out, hidden, cell, gates if keep else fresh(input, (0,)), cells


def gru_sequence(input, hidden, w_ih, w_hh, b_ih, b_hh, counts, reverse, keep):
    """The hidden states, the last one, and for the way back all once more, and gates."""
    given = input, {"hidden": hidden}, w_ih, w_hh, b_ih, b_hh, counts
    check("_gru_sequence", 3, *given)
    steps, size = Steps(counts, reverse), w_hh.shape[1]
    hidden = row_major(hidden)
    given, shares = ops.linear(input, w_ih, b_ih), Shares(hidden, w_hh, b_hh)
    out = fresh(input, (input.shape[0], size))
    gates = fresh(input, (input.shape[0] if keep else hidden.shape[0], 4 * size))
    states = fresh(input, out.shape if keep else (0,))
    parts = [steps.cut(each) for each in (given, out)]
    kept = [steps.cut(each) for each in (gates, states)] if keep else None
    for time in steps.order:
        entered, result = [part[time] for part in parts]
        h = steps.first(hidden, result.shape[0])
        gate, state = steps.first(gates, result.shape[0]), h
        if keep:
            gate, state = [part[time] for part in kept]
        launch(gru_kernel, [gate, h, result, state, entered, shares.of(h)], size)
    return out, hidden, states, gates if keep else fresh(input, (0,))


def rnn_sequence(input, hidden, w_ih, w_hh, b_ih, b_hh, counts, reverse, keep, relu):
    """The hidden states, the last one, and for the way back all once more."""
    given = input, {"hidden": hidden}, w_ih, w_hh, b_ih, b_hh, counts
    check("_rnn_sequence", 1, *given)
    steps, size = Steps(counts, reverse), w_hh.shape[1]
    hidden = row_major(hidden)
    out, shares = ops.linear(input, w_ih, b_ih), Shares(hidden, w_hh, b_hh)
    states = fresh(input, out.shape if keep else (0,))
    parts = steps.cut(out)
    kept = steps.cut(states) if keep else None
    for time in steps.order:
        result = parts[time]
        h = steps.first(hidden, result.shape[0])
        state = kept[time] if keep else h
        launch(rnn_kernel, [result, h, state, shares.of(h)], size, relu=int(relu))
    return out, hidden, states


# ---- the way back


def row_major(tensor):
    """A row-major copy."""
    return fresh(tensor, tensor.shape).copy_(tensor)


def slope_of(grad, like):
    """A row-major gradient, of zeros where nothing came."""
    return filled(like, like.shape, 0) if grad is None else grad.contiguous()


def sums_of(grad, like):
    """The same to add to."""
    return filled(like, like.shape, 0) if grad is None else row_major(grad)


def check_back(operator, gates, grads, input, states, w_ih, w_hh, counts, values, kept):
    """Refuses operands of the way back that don't go together.

    Args:
        grads: of the hidden states, and of the last of each state.
        values: the gates' values, and how many each element of a state has.
        kept: what else each row of the hidden states has one of.
    """
    check(operator, gates, input, states, w_ih, w_hh, None, None, counts)
    size, dtype = w_hh.shape[1], input.dtype
    rows, first = (input.shape[0], size), (max(counts), size)
    expect(
        operator, grad_output=(grads[0], rows, dtype),
        **{f"grad_{name}": (grad, first, dtype) for name, grad in zip(states, grads[1:])},
        **{name: (t, rows, dtype) for name, t in kept.items()},
    )  # fmt: skip
    if values is not None:
        made, wide = values
        expect(operator, gates=(made, (rows[0], wide * size), dtype))


def lstm_backward(
    grad_output, grad_hidden, grad_cell, input, hidden, cell, w_ih, w_hh, counts, reverse,
    gates, cells, needs,
):  # fmt: skip
    """Gradients of the input, both states, both weights and both biases."""
    grads, states = (
        (grad_output, grad_hidden, grad_cell),
        {"hidden": hidden, "cell": cell},
    )
    check_back(
        "_lstm_sequence_backward", 4, grads, input, states, w_ih, w_hh, counts,
        (gates, 4), {"cells": cells},
    )  # fmt: skip
    gates, cells = gates.contiguous(), cells.contiguous()
    steps, size = Steps(counts, reverse), w_hh.shape[1]
    slopes = fresh(gates, gates.shape)
    grad = slope_of(grads[0], cells)
    d_hidden, d_cell = sums_of(grads[1], hidden), sums_of(grads[2], cell)
    states = fresh(cells, cells.shape)
    rows = states, gates, cells, steps.before(cell, cells), grad
    parts = [steps.cut(each) for each in (slopes, *rows)]
    for time in reversed(steps.order):
        slope, *others = [part[time] for part in parts]
        dh, dc = [steps.first(each, slope.shape[0]) for each in (d_hidden, d_cell)]
        launch(lstm_back_kernel, [slope, dc, *others, dh], size)
        if time != steps.order[0] or needs & 2:
            product_into(dh, slope, w_hh)
    before = steps.before(hidden, states) if needs & 16 else None
    d_input, *d_parameters = of_parameters(
        slopes, slopes, input, before, w_ih, needs & 1 | needs >> 1 & 62
    )
    return d_input, d_hidden, d_cell, *d_parameters


def gru_backward(
    grad_output, grad_hidden, input, hidden, w_ih, w_hh, counts, reverse, states, gates,
    needs,
):  # fmt: skip
    """Gradients of the input, the state, both weights and both biases."""
    grads = grad_output, grad_hidden
    check_back(
        "_gru_sequence_backward", 3, grads, input, {"hidden": hidden}, w_ih, w_hh, counts,
        (gates, 4), {"states": states},
    )  # fmt: skip
    gates, states = gates.contiguous(), states.contiguous()
    steps, size = Steps(counts, reverse), w_hh.shape[1]
    slopes = fresh(input, (input.shape[0], 3 * size))
    shares = fresh(input, slopes.shape)
    grad, d_hidden = slope_of(grads[0], states), sums_of(grads[1], hidden)
    before = steps.before(hidden, states)
    parts = [steps.cut(each) for each in (slopes, shares, gates, before, grad)]
    for time in reversed(steps.order):
        slope, share, gate, state, given = [part[time] for part in parts]
        dh = steps.first(d_hidden, slope.shape[0])
        launch(gru_back_kernel, [slope, share, dh, gate, state, given], size)
        if time != steps.order[0] or needs & 2:
            product_into(dh, share, w_hh, dh)
    d_input, *d_parameters = of_parameters(slopes, shares, input, before, w_ih, needs)
    return d_input, d_hidden, *d_parameters


def rnn_backward(
    grad_output, grad_hidden, input, hidden, w_ih, w_hh, relu, counts, reverse, states,
    needs,
):  # fmt: skip
    """Gradients of the input, the state, both weights and both biases."""
    grads = grad_output, grad_hidden
    check_back(
        "_rnn_sequence_backward", 1, grads, input, {"hidden": hidden}, w_ih, w_hh, counts,
        None, {"states": states},
    )  # fmt: skip
    states = states.contiguous()
    steps, size = Steps(counts, reverse), w_hh.shape[1]
    slopes = fresh(states, states.shape)
    grad, d_hidden = slope_of(grads[0], states), sums_of(grads[1], hidden)
    parts = [steps.cut(each) for each in (slopes, states, grad)]
    for time in reversed(steps.order):
        slope, result, given = [part[time] for part in parts]
        dh = steps.first(d_hidden, slope.shape[0])
        launch(rnn_back_kernel, [slope, result, given, dh], size, relu=int(relu))
        if time != steps.order[0] or needs & 2:
            product_into(dh, slope, w_hh)
    before = steps.before(hidden, states) if needs & 8 else None
    d_input, *d_parameters = of_parameters(slopes, slopes, input, before, w_ih, needs)
    return d_input, d_hidden, *d_parameters


def of_parameters(slopes, shares, input, before, w_ih, needs):
    """Gradients of the input, both weights and both biases, where they are needed.

    Args:
        slopes: of what inputs gave the gates.
        shares: of what states gave them.
        before: the state that each step began with.
        needs: a bit for the input, the state, the weights and the biases.
    """
    return (
        ops.mm(slopes, w_ih) if needs & 1 else None,
        ops.mm(slopes.t(), input) if needs & 4 else None,
        ops.mm(shares.t(), before) if needs & 8 else None,
        slopes.sum(0) if needs & 16 else None,
        shares.sum(0) if needs & 32 else None,
    )
