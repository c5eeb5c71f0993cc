"""Recurrent layers whose weights are quantized: numbers in, numbers out."""

from rushlight.ao._operators import linear
from rushlight.ao._operators.packed import PackedParams
from rushlight.core.dtypes import qint8
from rushlight.operators import call as ops
from rushlight.operators.extensions import CUSTOM, MAKERS
from rushlight.operators.loop_calls import fresh
from rushlight.operators.recurrent import recurrent_kernels as kernels


class CellParams(PackedParams):
    """The weights of one direction of one layer.

    Args:
        w_ih, w_hh: packed weights for the input and for the state.
        reduce_range: whether inputs are quantized to seven bits.
    """

    namespace, kind = "rnn", "CellParamsBase"
    state_type = (
        "Tuple[str, List[Tensor], List[float], List[int], "
        "List[__torch__.torch.classes.quantized.LinearPackedParamsBase]]"
    )

    def __init__(self, w_ih, w_hh, reduce_range=False):
        self.w_ih, self.w_hh, self.reduce_range = w_ih, w_hh, bool(reduce_range)

    def settings(self):
        """What it is made of."""
        return self.w_ih, self.w_hh, self.reduce_range

    def stored(self):
        """The state as PyTorch's programs are stored: biases, and weights with them."""
        weights = [self.w_ih, self.w_hh]
        biases = [each.unpack()[1] for each in weights]
        return "quantized_dynamic", biases, [], [int(self.reduce_range)], weights

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


def _of_state(state):
    """The weights of a layer from what ``stored`` gives."""
    kind, _, _, reduced, weights = state
    if kind not in ("quantized_dynamic", "quantized_fp16"):
        raise ValueError(kind)
    return CellParams(*weights, bool(reduced[0]) if reduced else False)


MAKERS[f"{CUSTOM}rnn.{CellParams.kind}"] = _of_state


def whole_layers(kind):
    """Layers over a padded batch and over packed rows, as programs call them.

    They give results of all steps and the last states, one after another. ``how`` says what
    weights are, which know it.
    """

    def rows(data, counts, hx, params, dropout, train, bidirectional):
        states = list(hx) if kind == "lstm" else [hx]
        given = kind, data, states, params, counts, bidirectional, dropout, train
        out, ends = layers(*given)
        return out, *ends

    def padded(
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
        batch_first, **how,
    ):  # fmt: skip
        steps = input.transpose(0, 1) if batch_first else input
        count, samples = steps.shape[:2]
        data = steps.reshape([count * samples, -1])
        settings = params, dropout, train, bidirectional
        out, *ends = rows(data, [samples] * count, hx, *settings)
        out = out.view([count, samples, -1])
        return out.transpose(0, 1) if batch_first else out, *ends

    def packed(
        data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
        bidirectional, **how,
    ):  # fmt: skip
        settings = params, dropout, train, bidirectional
        return rows(data, batch_sizes.tolist(), hx, *settings)

    return padded, packed


def make_dynamic(w_ih, w_hh, b_ih, b_hh, reduce_range=False):
    """The weights of a layer, which hold the biases."""
    return CellParams(w_ih, w_hh, reduce_range)


def make_of_numbers(w_ih, w_hh, b_ih, b_hh):
    """The weights of a layer, which are quantized with one scale for each."""
    packed = []
    for weight, bias in (w_ih, b_ih), (w_hh, b_hh):
        scale, point = ops._choose_qparams_per_tensor(weight, False)
        levels = ops.quantize_per_tensor(weight, scale, point - 128, qint8)
        packed.append(linear.prepack(levels, bias))
    return CellParams(*packed)


def make_half(w_ih, w_hh):
    """The weights of a layer in half precision."""
    return CellParams(w_ih, w_hh)


def outdated(name):
    """What refuses weights in a list, as programs of old archives give them."""

    def apply(*given, **more):
        raise RuntimeError(
            f"torch.{name} with List[Tensor] for parameters is no longer supported. Please "
            "re-export your model using the newer definitions in torch.jit.quantized"
        )

    return apply


GATED = "lstm", "gru"


def _launch(kind, projected, result, state, share):
    """A step in place: what the input gave the gates, the result, and the states."""
    hidden, size = state[0], state[0].shape[1]
    if kind == "lstm":
        cell = state[1]
        kernels.launch(
            kernels.lstm_kernel, [projected, hidden, cell, result, cell, share], size
        )
    elif kind == "gru":
        room = fresh(hidden, (hidden.shape[0], 4 * size))
        tensors = [room, hidden, result, hidden, projected, share]
        kernels.launch(kernels.gru_kernel, tensors, size)
    else:
        tensors, relu = [projected, hidden, hidden, share], int(kind == "relu")
        kernels.launch(kernels.rnn_kernel, tensors, size, relu=relu)


def cell(kind):
    """One step with weights that are packed."""

    def apply(input, hx, w_ih, w_hh, b_ih, b_hh):
        params = CellParams(w_ih, w_hh, True)  # seven bits, as PyTorch
        state = tuple(hx) if kind == "lstm" else (hx,)
        state = tuple(kernels.row_major(each.detach()) for each in state)
        projected = params.input(input).detach()
        result = fresh(input, state[0].shape) if kind in GATED else projected
        _launch(kind, projected, result, state, params.state(state[0]))
        return state if kind == "lstm" else state[0]

    return apply


def _direction(kind, input, state, params, counts, reverse):
    """All steps of one direction of one layer over rows that lie step after step.

    States are kept in one place, so rows of sequences that have ended keep theirs.
    """
    steps = kernels.Steps(counts, reverse)
    state = tuple(kernels.row_major(each.detach()) for each in state)
    projected = params.input(input).detach()
    out = projected
    if kind in GATED:
        out = fresh(input, (input.shape[0], state[0].shape[1]))
    given, results = steps.cut(projected), steps.cut(out)
    for time in steps.order:
        result = results[time]
        here = tuple(steps.first(each, result.shape[0]) for each in state)
        share = params.state(here[0])
        _launch(kind, given[time], result, here, share)
    return out, state


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
