"""Recurrent layers whose weights are quantized: numbers in, numbers out."""

from __future__ import annotations

from rushlight.ao._operators import linear
from rushlight.ao._operators.packed import PackedParams
from rushlight.operators import call as ops


class CellParams(PackedParams):
    """The weights of one direction of one layer.

    Args:
        w_ih, w_hh: packed weights for the input and for the state.
        reduce_range: whether inputs are quantized to seven bits.
    """

    kind = "CellParamsBase"

    def __init__(self, w_ih, w_hh, reduce_range=False):
        self.w_ih, self.w_hh, self.reduce_range = w_ih, w_hh, bool(reduce_range)

    def settings(self):
        """What it is made of."""
        return self.w_ih, self.w_hh, self.reduce_range

    def project(self, packed, x):
        """A product with one of the weights."""
        if isinstance(packed, linear.HalfLinearPackedParams):
            return linear.linear_dynamic_half(x, packed)
        return linear.linear_dynamic(x, packed, self.reduce_range)

    def input(self, x):
        """What the input gives the gates."""
        return self.project(self.w_ih, x)

    def state(self, h):
        """What the state gives the gates."""
        return self.project(self.w_hh, h)


def make_dynamic(w_ih, w_hh, b_ih, b_hh, reduce_range=False):
    """The weights of a layer, which hold the biases."""
    return CellParams(w_ih, w_hh, reduce_range)


def make_half(w_ih, w_hh):
    """The weights of a layer in half precision."""
    return CellParams(w_ih, w_hh)


def lstm_step(projected, state, params):
    """The next hidden state and cell state."""
    hidden, cell = state
    gates = params.state(hidden).add_(projected)
    i, f, g, o = ops.unsafe_chunk(gates, 4, 1)
    i, f, g, o = i.sigmoid_(), f.sigmoid_(), g.tanh_(), o.sigmoid_()
    cell = (f * cell).add_(i * g)
    return o * cell.tanh(), cell


def gru_step(projected, state, params):
    """The next state, which one gate mixes with the one before."""
    hidden = state[0]
    r_in, z_in, n_in = ops.unsafe_chunk(projected, 3, 1)
    r, z, n = ops.unsafe_chunk(params.state(hidden), 3, 1)
    r, z = r.add_(r_in).sigmoid_(), z.add_(z_in).sigmoid_()
    n = n_in.add(n.mul_(r)).tanh_()
    return ((hidden - n).mul_(z).add_(n),)


def rnn_step(activation):
    """The next state of a layer without gates."""

    def step(projected, state, params):
        return (activation(params.state(state[0]).add_(projected)),)

    return step


STEPS = {
    "lstm": lstm_step, "gru": gru_step, "tanh": rnn_step(ops.tanh),
    "relu": rnn_step(ops.relu),
}  # fmt: skip


def cell(kind):
    """One step with weights that are packed."""

    def apply(input, hx, w_ih, w_hh, b_ih, b_hh):
        params = CellParams(w_ih, w_hh, True)  # seven bits, as PyTorch
        state = tuple(hx) if kind == "lstm" else (hx,)
        found = STEPS[kind](params.input(input), state, params)
        return found if kind == "lstm" else found[0]

    return apply


def _direction(kind, input, state, params, counts, reverse):
    """All steps of one direction of one layer over rows that lie step after step."""
    step = STEPS[kind]
    projected = ops.split(params.input(input), counts)
    order = range(len(counts) - 1, -1, -1) if reverse else range(len(counts))
    outputs = [None] * len(counts)
    state = tuple(state)
    for time in order:
        rows = counts[time]
        now = step(projected[time], tuple(each[:rows] for each in state), params)
        outputs[time] = now[0]
        if rows == state[0].shape[0]:
            state = now
        else:
            state = tuple(
                ops.cat([fresh, old[rows:]]) for fresh, old in zip(now, state)
            )
    return ops.cat(outputs), state


def layers(kind, input, states, params, counts, bidirectional, dropout, train):
    """All layers over rows that lie step after step.

    Args:
        kind: ``lstm``, ``gru``, ``tanh`` or ``relu``.
        states: each ``[layers * directions, samples, size]``.
        params: `CellParams` of each direction of each layer.
        counts: how many rows each step has, the longest sequences first.
    """
    directions = 2 if bidirectional else 1
    ends = []
    for first in range(0, len(params), directions):
        found = []
        for d in range(directions):
            begun = [each[first + d] for each in states]
            given = kind, input, begun, params[first + d], counts, bool(d)
            out, end = _direction(*given)
            found.append(out)
            ends.append(end)
        input = found[0] if directions == 1 else ops.cat(found, 1)
        if dropout and train and first + directions < len(params):
            input = ops.dropout(input, dropout, True)
    return input, tuple(ops.stack(each) for each in zip(*ends))
