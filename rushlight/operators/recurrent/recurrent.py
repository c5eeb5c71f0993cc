"""Recurrent layers: a direction of a layer is one operator, or steps over others.

A step takes what a layer's input gives it, the state so far and the recurrent weights
``(w_hh, b_hh, w_hr)``; the inputs of all steps go through their weight in one product.
Where somebody wants to see the steps (a mode, a transformation, a program that is being
recorded), or the type is no float of four or eight bytes, they are taken one by one.
"""

from typing import NamedTuple

from rushlight.core.dtypes import float32, float64
from rushlight.core.state import included_keys, is_grad_enabled, is_recording
from rushlight.dispatch.guard import GradMode
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.python_key import listening
from rushlight.operators import call as ops
from rushlight.operators.recurrent import recurrent_kernels as kernels
from rushlight.operators.shared import readable


def rnn_step(activation):
    """The step of a layer with one gate."""

    def step(projected, state, weights):
        return (activation(projected + ops.linear(state[0], weights[0], weights[1])),)

    return step


def lstm_step(projected, state, weights):
    """The step of a layer with a cell."""
    hidden, cell = state
    gates = projected + ops.linear(hidden, weights[0], weights[1])
    i, f, g, o = gates.chunk(4, 1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    hidden = o.sigmoid() * cell.tanh()
    if weights[2] is not None:  # project to a smaller hidden state
        hidden = ops.linear(hidden, weights[2], None)
    return hidden, cell


def gru_step(projected, state, weights):
    """The step of a layer with a gate for the state."""
    hidden = state[0]
    recurrent = ops.linear(hidden, weights[0], weights[1])
    r_in, z_in, n_in = projected.chunk(3, 1)
    r_hid, z_hid, n_hid = recurrent.chunk(3, 1)
    r, z = (r_in + r_hid).sigmoid(), (z_in + z_hid).sigmoid()
    n = (n_in + r * n_hid).tanh()
    return (n + z * (hidden - n),)


_TANH, _RELU = rnn_step(lambda x: x.tanh()), rnn_step(lambda x: x.relu())


# What PyTorch takes a step apart into: sums and gates are written in place.


def seen_rnn(activation):
    """The step of a layer with one gate."""

    def step(projected, state, weights):
        return (activation(ops.linear(state[0], *weights[:2]).add_(projected)),)

    return step


def seen_lstm(projected, state, weights):
    """The step of a layer with a cell."""
    hidden, cell = state
    gates = ops.linear(hidden, *weights[:2]).add_(projected)
    i, f, g, o = ops.unsafe_chunk(gates, 4, 1)
    i, f, g, o = i.sigmoid_(), f.sigmoid_(), g.tanh_(), o.sigmoid_()
    cell = (f * cell).add_(i * g)
    hidden = o * cell.tanh()
    if weights[2] is not None:
        hidden = ops.linear(hidden, weights[2], None)
    return hidden, cell


def seen_gru(projected, state, weights):
    """The step of a layer with a gate for the state."""
    hidden = state[0]
    r_in, z_in, n_in = ops.unsafe_chunk(projected, 3, 1)
    r, z, n = ops.unsafe_chunk(ops.linear(hidden, *weights[:2]), 3, 1)
    r, z = r.add_(r_in).sigmoid_(), z.add_(z_in).sigmoid_()
    n = n_in.add(n.mul_(r)).tanh_()
    return ((hidden - n).mul_(z).add_(n),)


lstm_sequence = kernels.lstm_sequence
gru_sequence = kernels.gru_sequence
rnn_sequence = kernels.rnn_sequence
lstm_sequence_backward = kernels.lstm_backward
gru_sequence_backward = kernels.gru_backward
rnn_sequence_backward = kernels.rnn_backward


# ---- single steps


def _check_cell(gates, input, state, w_ih, w_hh):
    """Refuses operands of one step that don't go together.

    Raises:
        RuntimeError: a size isn't right.
    """
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[1]} expected "
            f"{w_ih.shape[1]}"
        )
    size = w_hh.shape[1]
    for number, each in enumerate(state):
        if each.shape[0] != input.shape[0]:
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match hidden{number} batch "
                f"size {each.shape[0]}"
            )
        if each.shape[1] != size:
            raise RuntimeError(
                f"hidden{number} has inconsistent hidden_size: got {each.shape[1]}, "
                f"expected {size}"
            )
    if gates > 1 and w_ih.shape[0] != gates * size:
        raise RuntimeError(
            f"weight_ih first dim must be {gates} * hidden_size = {gates * size}, but "
            f"got {w_ih.shape[0]}"
        )


def _cell(step, gates, input, state, w_ih, w_hh, b_ih, b_hh):
    _check_cell(gates, input, state, w_ih, w_hh)
    return step(ops.linear(input, w_ih, b_ih), tuple(state), (w_hh, b_hh, None))


def lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """The next hidden state and cell state.

    Raises:
        RuntimeError: there are not two states, or a size isn't right.
    """
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    return _cell(lstm_step, 4, input, hx, w_ih, w_hh, b_ih, b_hh)


def gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """The next hidden state."""
    return _cell(gru_step, 3, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """The next hidden state."""
    return _cell(_TANH, 1, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """The next hidden state."""
    return _cell(_RELU, 1, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


# ---- one direction of one layer


class Kind(NamedTuple):
    """A step of a layer, the same where handlers listen, and the operator for all steps."""

    step: object
    seen: object
    sequence: object
    states: int
    gates: int


LSTM = Kind(lstm_step, seen_lstm, lambda *given: ops._lstm_sequence(*given), 2, 4)
GRU = Kind(gru_step, seen_gru, lambda *given: ops._gru_sequence(*given), 1, 3)
TANH = Kind(
    _TANH,
    seen_rnn(lambda x: x.tanh()),
    lambda *given: ops._rnn_sequence(*given, relu=False),
    1,
    1,
)
RELU = Kind(
    _RELU,
    seen_rnn(lambda x: x.relu()),
    lambda *given: ops._rnn_sequence(*given, relu=True),
    1,
    1,
)


class Batch:
    """Steps of a batch of sequences, one after the other along the first dimension."""

    def __init__(self, data):
        self.counts = [data.shape[1]] * data.shape[0]

    def cut(self, data):
        return data.unbind(0)

    def join(self, steps):
        return ops.stack(steps)

    def rows(self, data):
        return data.reshape(-1, data.shape[2])

    def back(self, rows):
        return ops._unsafe_view(rows, [len(self.counts), -1, rows.shape[1]])


class Packed:
    """Steps of packed sequences: ever fewer rows."""

    def __init__(self, counts):
        self.counts = list(counts)

    def cut(self, data):
        return data.split(self.counts)

    def join(self, steps):
        return ops.cat(steps)

    def rows(self, data):
        return data

    def back(self, rows):
        return rows


def _whole(kind, form, data, state, weights):
    """Whether one operator takes all steps: plain numbers in memory that fit."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    if (
        w_hr is not None
        or not data.numel()
        or not kernels.has_sequence_kernel(data.device)
    ):
        return False
    if included_keys() >> DispatchKey.Autocast & 1:
        return False
    if data.dtype not in (float32, float64):
        return False
    size, samples = w_hh.shape[-1], state[0].shape[0]
    wide = kind.gates * size
    shapes = [(w_ih, (wide, data.shape[-1])), (w_hh, (wide, size))]
    shapes += [(bias, (wide,)) for bias in (b_ih, b_hh) if bias is not None]
    shapes += [(each, (samples, size)) for each in state]
    return (
        size > 0
        and samples == max(form.counts)
        and all(t.shape == shape and t.dtype is data.dtype for t, shape in shapes)
        and all(
            t._stand is None and readable(t) for t in (data, *(t for t, _ in shapes))
        )
    )


def _direction(kind, form, data, state, weights, reverse):
    """One direction of one layer: what it gives for each step, and the last states."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    if _whole(kind, form, data, state, weights):
        given = form.rows(data), *state, w_ih, w_hh, b_ih, b_hh
        keep = is_grad_enabled() and any(
            t is not None and t.requires_grad for t in given
        )
        found = kind.sequence(*given, form.counts, reverse, keep)
        return form.back(found[0]), found[1 : 1 + kind.states]
    entering = form.cut(ops.linear(data, w_ih, b_ih))
    step = kind.seen if listening(data, *state, w_ih, w_hh) else kind.step
    outputs, last = _run(step, entering, state, (w_hh, b_hh, w_hr), reverse)
    return form.join(outputs), last


def _run(step, projected, state, weights, reverse):
    """One direction of one layer; ``projected`` has a tensor for each time step.

    Packed batches shrink with time: a step takes the first rows of the state, and rows
    of sequences that ended keep their last state. Backwards the rows join in.
    """
    outputs = [None] * len(projected)
    order = range(len(projected))
    current = state
    for time in reversed(order) if reverse else order:
        rows = projected[time].shape[0]
        full = current[0].shape[0] == rows
        part = current if full else tuple(each[:rows] for each in current)
        moved = step(projected[time], part, weights)
        outputs[time] = moved[0]
        if full:
            current = moved
        else:
            current = tuple(
                ops.cat([new, old[rows:]]) for new, old in zip(moved, current)
            )
    return outputs, current


def _differentiable(kind, grads, given, counts, reverse, needs):
    """The gradients of a direction by its steps, to be differentiated again."""

    from rushlight.autograd import grad as gradients

    form = Packed(counts)
    with GradMode(True):
        again = [
            t.view_as(t) if needs >> place & 1 else t for place, t in enumerate(given)
        ]
        data, state, (w_ih, w_hh, b_ih, b_hh) = (
            again[0], tuple(again[1:-4]), again[-4:],
        )  # fmt: skip
        entering = form.cut(ops.linear(data, w_ih, b_ih))
        outputs, last = _run(kind.step, entering, state, (w_hh, b_hh, None), reverse)
        results = [
            (result, grad)
            for result, grad in zip((ops.cat(outputs), *last), grads)
            if grad is not None
        ]
        wanted = [t for place, t in enumerate(again) if needs >> place & 1]
        found = iter(
            gradients(
                [result for result, _ in results], wanted,
                [grad for _, grad in results], create_graph=True, allow_unused=True,
            )
        )  # fmt: skip
    return tuple(
        next(found) if needs >> place & 1 else None for place in range(len(given))
    )


# ---- gradients of a direction


def lstm_gradients(grads, given, counts, reverse, kept, needs):
    """By kernels, or by operators that can be differentiated again."""
    if is_recording():
        return _differentiable(LSTM, grads, given, counts, reverse, needs)
    rest = counts, reverse, *kept, needs
    return ops._lstm_sequence_backward(*grads[:3], *given[:5], *rest)


def gru_gradients(grads, given, counts, reverse, kept, needs):
    """By kernels, or by operators that can be differentiated again."""
    if is_recording():
        return _differentiable(GRU, grads, given, counts, reverse, needs)
    rest = counts, reverse, *kept, needs
    return ops._gru_sequence_backward(*grads[:2], *given[:4], *rest)


def rnn_gradients(grads, given, relu, counts, reverse, kept, needs):
    """By kernels, or by operators that can be differentiated again."""
    if is_recording():
        kind = RELU if relu else TANH
        return _differentiable(kind, grads, given, counts, reverse, needs)
    rest = relu, counts, reverse, kept, needs
    return ops._rnn_sequence_backward(*grads[:2], *given[:4], *rest)


# ---- sequences


def _grouped(params, has_biases, projected=False):
    """The weights of each layer and direction: ``(w_ih, w_hh, b_ih, b_hh, w_hr)``.

    Raises:
        RuntimeError: they don't come in full sets.
    """
    width = (4 if has_biases else 2) + bool(projected)
    if len(params) % width:
        raise RuntimeError(
            f"MatrixRef: ArrayRef size {len(params)} not divisible by stride {width}"
        )
    groups = []
    for at in range(0, len(params), width):
        group = list(params[at : at + width])
        projection = group.pop() if projected else None
        if not has_biases:
            group += [None, None]
        groups.append((*group, projection))
    return groups


def _layers(kind, form, data, state, groups, num_layers, dropout, train, bidirectional):
    """All layers over the steps; what the last one gives, and the last states."""
    directions = 2 if bidirectional else 1
    if state[0].shape[0] < num_layers * directions:
        raise RuntimeError("Expected more hidden states in stacked_rnn")
    if len(groups) < num_layers * directions:
        raise RuntimeError("Expected more weights in stacked_rnn")
    lasts = []
    firsts = [_separate(each, kind) for each in state]
    for layer in range(num_layers):
        if layer and dropout and train:
            data = ops.dropout(data, dropout, True)
        results = []
        for direction in range(directions):
            index = layer * directions + direction
            first = tuple(each[index] for each in firsts)
            result, last = _direction(
                kind, form, data, first, groups[index], direction == 1
            )
            results.append(result)
            lasts.append(last)
        data = ops.cat(results, -1) if directions == 2 else results[0]
    return data, *(ops.stack(list(each)) for each in zip(*lasts))


def _separate(state, kind):
    """A state of each layer and direction, at its place."""
    seen = listening(state) and kind.states == 1
    return state.unbind(0) if seen else state


def _over_batch(kind, input, state, groups, options, batch_first):
    data = input.transpose(0, 1) if batch_first else input
    if not data.shape[0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    output, *last = _layers(kind, Batch(data), data, state, groups, *options)
    return (output.transpose(0, 1) if batch_first else output, *last)


def _over_packed(kind, data, batch_sizes, state, groups, options):
    return _layers(kind, Packed(batch_sizes.tolist()), data, state, groups, *options)


def _lstm_weights(hx, params, has_biases):
    if len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")
    return _grouped(params, has_biases, hx[0].shape[2] != hx[1].shape[2])


def lstm(
    input,
    hx,
    params,
    has_biases,
    num_layers,
    dropout,
    train,
    bidirectional,
    batch_first,
):
    """The outputs of the last layer, and both states after the last step.

    Raises:
        RuntimeError: states or weights are missing.
    """
    groups = _lstm_weights(hx, params, has_biases)
    options = (num_layers, dropout, train, bidirectional)
    return _over_batch(LSTM, input, tuple(hx), groups, options, batch_first)


def lstm_of_packed(
    data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional
):
    """`lstm` of sequences of several lengths, the longest first."""
    groups = _lstm_weights(hx, params, has_biases)
    options = (num_layers, dropout, train, bidirectional)
    return _over_packed(LSTM, data, batch_sizes, tuple(hx), groups, options)


def _simple(kind, doc):
    """The two forms of a network with one state."""

    def over_batch(
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
        batch_first,
    ):  # fmt: skip
        groups = _grouped(params, has_biases)
        options = (num_layers, dropout, train, bidirectional)
        return _over_batch(kind, input, (hx,), groups, options, batch_first)

    def over_packed(
        data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
        bidirectional,
    ):  # fmt: skip
        groups = _grouped(params, has_biases)
        options = (num_layers, dropout, train, bidirectional)
        return _over_packed(kind, data, batch_sizes, (hx,), groups, options)

    over_batch.__doc__ = over_packed.__doc__ = doc
    return over_batch, over_packed


gru, gru_of_packed = _simple(GRU, "The outputs, and the state at the end.")
rnn_tanh, rnn_tanh_of_packed = _simple(TANH, "The outputs, and the last state.")
rnn_relu, rnn_relu_of_packed = _simple(RELU, "The outputs, and the last state.")
