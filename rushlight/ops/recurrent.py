"""Recurrent layers, step by step over other operators.

A step takes what a layer's input gives it, the state so far and the recurrent weights
``(w_hh, b_hh, w_hr)``; the inputs of all steps go through their weight in one product.
"""

from rushlight.ops import call as ops


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


# ---- sequences


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


def _layers(step, steps, state, groups, num_layers, dropout, train, bidirectional):
    """All layers over the steps; what the last one gives, and the last states."""
    directions = 2 if bidirectional else 1
    if state[0].shape[0] < num_layers * directions:
        raise RuntimeError("Expected more hidden states in stacked_rnn")
    if len(groups) < num_layers * directions:
        raise RuntimeError("Expected more weights in stacked_rnn")
    counts = [each.shape[0] for each in steps]
    lasts = []
    for layer in range(num_layers):
        if layer and dropout and train:
            steps = ops.dropout(ops.cat(steps), dropout, True).split(counts)
        results = []
        for direction in range(directions):
            index = layer * directions + direction
            w_ih, w_hh, b_ih, b_hh, w_hr = groups[index]
            projected = ops.linear(ops.cat(list(steps)), w_ih, b_ih).split(counts)
            first = tuple(each[index] for each in state)
            weights = (w_hh, b_hh, w_hr)
            outputs, last = _run(step, projected, first, weights, direction == 1)
            results.append(outputs)
            lasts.append(last)
        steps = results[0]
        if directions == 2:
            steps = [ops.cat(list(pair), 1) for pair in zip(*results)]
    return list(steps), tuple(ops.stack(list(each)) for each in zip(*lasts))


def _over_batch(step, input, state, groups, options, batch_first):
    along = 1 if batch_first else 0
    steps = input.unbind(along)
    if not steps:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    outputs, last = _layers(step, list(steps), state, groups, *options)
    return (ops.stack(outputs, along), *last)


def _over_packed(step, data, batch_sizes, state, groups, options):
    steps = data.split(batch_sizes.tolist())
    outputs, last = _layers(step, list(steps), state, groups, *options)
    return (ops.cat(outputs), *last)


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
    return _over_batch(lstm_step, input, tuple(hx), groups, options, batch_first)


def lstm_of_packed(
    data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional
):
    """`lstm` of sequences of several lengths, the longest first."""
    groups = _lstm_weights(hx, params, has_biases)
    options = (num_layers, dropout, train, bidirectional)
    return _over_packed(lstm_step, data, batch_sizes, tuple(hx), groups, options)


def _simple(step, doc):
    """The two forms of a network with one state."""

    def over_batch(
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
        batch_first,
    ):  # fmt: skip
        groups = _grouped(params, has_biases)
        options = (num_layers, dropout, train, bidirectional)
        return _over_batch(step, input, (hx,), groups, options, batch_first)

    def over_packed(
        data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
        bidirectional,
    ):  # fmt: skip
        groups = _grouped(params, has_biases)
        options = (num_layers, dropout, train, bidirectional)
        return _over_packed(step, data, batch_sizes, (hx,), groups, options)

    over_batch.__doc__ = over_packed.__doc__ = doc
    return over_batch, over_packed


gru, gru_of_packed = _simple(gru_step, "The outputs, and the state at the end.")
rnn_tanh, rnn_tanh_of_packed = _simple(_TANH, "The outputs, and the last state.")
rnn_relu, rnn_relu_of_packed = _simple(_RELU, "The outputs, and the last state.")
