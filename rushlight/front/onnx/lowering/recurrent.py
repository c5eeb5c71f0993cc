"""Recurrent networks over whole sequences."""

import rushlight as rl
from rushlight.onnx._graph import Value
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.operators import call


class Cell:
    """A kind of network: ONNX's operator, and where PyTorch's gates are in its order.

    Args:
        op_type: the operator.
        order: for each of ONNX's gates, which it is of PyTorch's.
        attributes: further attributes; activations are for one direction.
    """

    def __init__(self, op_type, order, **attributes):
        self.op_type, self.order, self.attributes = op_type, order, attributes

    def in_order(self, g, weight):
        """Rows of gates as ONNX has them."""
        if len(self.order) == 1:
            return weight
        count = len(self.order)
        parts = g.op("Split", weight, axis=0, num_outputs=count, outputs=count)
        made = g.op("Concat", *(parts[at] for at in self.order), axis=0)
        made.dtype = weight.dtype
        return made

    def directed(self, both):
        """The attributes for one direction or two."""
        found = dict(self.attributes)
        if both and "activations" in found:
            found["activations"] = found["activations"] * 2
        return found


_LSTM = Cell("LSTM", (0, 3, 1, 2))  # i f g o as i o f c
_GRU = Cell("GRU", (1, 0, 2), linear_before_reset=1)  # r z n as z r h
_TANH = Cell("RNN", (0,), activations=["Tanh"])
_RELU = Cell("RNN", (0,), activations=["Relu"])


def _weights(g, cell, params, biases):
    """The weights of a layer: of its directions, in ONNX's order."""
    step = 4 if biases else 2
    rows = [params[at : at + step] for at in range(0, len(params), step)]

    def stacked(values):
        parts = [g.op("Unsqueeze", one, g.ints([0])) for one in values]
        return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=0)

    inner = stacked([cell.in_order(g, row[0]) for row in rows])
    outer = stacked([cell.in_order(g, row[1]) for row in rows])
    if not biases:
        return inner, outer, None
    sums = [
        g.op("Concat", *(cell.in_order(g, one) for one in row[2:]), axis=0)
        for row in rows
    ]
    return inner, outer, stacked(sums)


def _layer(g, cell, value, state, params, biases, both):
    """One layer: its outputs, and the last states."""
    hidden = params[1].shape[-1]
    inner, outer, bias = _weights(g, cell, params, biases)
    kind = value.dtype
    made = g.op(
        cell.op_type, value, inner, outer, bias, None, *state,
        hidden_size=hidden, direction="bidirectional" if both else "forward",
        outputs=1 + len(state), **cell.directed(both),
    )  # fmt: skip
    output, *last = made
    for one in made:
        one.dtype = kind
    # time, direction, batch, width: the directions side by side
    transposed = g.op("Transpose", output, perm=[0, 2, 1, 3], dtype=kind)
    return g.op("Reshape", transposed, g.ints([0, 0, -1]), dtype=kind), last


def _network(g, cell, input, states, params, options):
    biases, layers, dropout, train, both, batch_first = options
    if input.rank != 3:
        raise Unsupported("of one sequence without a batch it has no form in ONNX")
    directions = 2 if both else 1
    each = (4 if biases else 2) * directions
    if len(params) != each * layers:
        raise Unsupported("with projections it has no form in ONNX")
    value = g.transpose(input, [1, 0, 2]) if batch_first else input
    ends = [[] for _ in states]
    for layer in range(layers):
        low, high = layer * directions, (layer + 1) * directions
        own = [g.slice(one, [low], [high], [0]) for one in states]
        given = params[layer * each : (layer + 1) * each]
        value, last = _layer(g, cell, value, own, given, biases, both)
        for rows, one in zip(ends, last):
            rows.append(one)
        if dropout and train and layer + 1 < layers:
            ratio = g.const(float(dropout), rl.float32)
            value = g.op(
                "Dropout", value, ratio, g.const(True, rl.bool), dtype=value.dtype
            )
    if batch_first:
        value = g.op("Transpose", value, perm=[1, 0, 2], dtype=value.dtype)
    last = [
        rows[0] if layers == 1 else g.op("Concat", *rows, axis=0, dtype=value.dtype)
        for rows in ends
    ]
    return value, *last


def _register(packet, cell):
    @lowers(packet)
    def lower(g, hx, params, input=None, batch_sizes=None, data=None, **options):
        if input is None:
            raise Unsupported("of packed sequences it has no form in ONNX")
        names = "has_biases", "num_layers", "dropout", "train", "bidirectional"
        listed = *(options[name] for name in names), options["batch_first"]
        states = [hx] if isinstance(hx, Value) else list(hx)
        return _network(g, cell, input, states, params, listed)


_register(call.lstm, _LSTM)
_register(call.gru, _GRU)
_register(call.rnn_tanh, _TANH)
_register(call.rnn_relu, _RELU)
