"""Recurrent networks: parameters and checks around the operators that run them."""

import math
import numbers
import warnings

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.rnn import PackedSequence
from rushlight.operators import call

__all__ = [
    "GRU",
    "GRUCell",
    "LSTM",
    "LSTMCell",
    "RNN",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
]


_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


class RNNBase(Module):
    """What ``RNN``, ``LSTM`` and ``GRU`` share: layers, directions and parameters.

    Args:
        mode: ``"RNN_TANH"``, ``"RNN_RELU"``, ``"LSTM"`` or ``"GRU"``.
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as
            in ``RNN``.
        proj_size: as in ``LSTM``.

    >>> rl.nn.GRU(3, 4).mode
    'GRU'
    """

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]

    def __init__(
        self,
        mode,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        proj_size=0,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments(dropout)
        self._all_weights = []
        self._make_parameters({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _check_arguments(self, dropout):
        if (
            not isinstance(dropout, numbers.Number)
            or isinstance(dropout, bool)
            or not 0 <= dropout <= 1
        ):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the "
                "probability of an element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so "
                "non-zero dropout expects num_layers greater than 1, but got "
                f"dropout={dropout} and num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name, kind in (
            ("bias", bool),
            ("batch_first", bool),
            ("input_size", int),
            ("hidden_size", int),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(
                    f"{name} should be of type {kind.__name__}, got: "
                    f"{type(value).__name__}"
                )
            if kind is int and value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    def _make_parameters(self, options):
        directions = 2 if self.bidirectional else 1
        gates = self.hidden_size * _GATES[self.mode]
        state = self.proj_size or self.hidden_size
        for layer in range(self.num_layers):
            inputs = self.input_size if layer == 0 else state * directions
            for direction in range(directions):
                end = f"_l{layer}" + ("_reverse" if direction else "")
                shapes = {
                    f"weight_ih{end}": (gates, inputs),
                    f"weight_hh{end}": (gates, state),
                }
                if self.bias:
                    shapes[f"bias_ih{end}"] = shapes[f"bias_hh{end}"] = (gates,)
                if self.proj_size:
                    shapes[f"weight_hr{end}"] = (self.proj_size, self.hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name, Parameter(rl.empty(shape, **options)))
                self._all_weights.append(list(shapes))

    def reset_parameters(self):
        """Draw all parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def _flat_weights(self):
        return [weight for weights in self.all_weights for weight in weights]

    @property
    def all_weights(self):
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Does nothing: only some GPU libraries want parameters in one block."""

    def extra_repr(self):
        parts = [f"{self.input_size}, {self.hidden_size}"]
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        for name, value in usual.items():
            if getattr(self, name) != value:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)

    def _check_input(self, input):
        packed = isinstance(input, PackedSequence)
        tensor = input.data if packed else input
        if not packed and tensor.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got "
                f"{tensor.dim()}D instead"
            )
        own = self._flat_weights[0].dtype
        if tensor.dtype is not own and not rl.is_autocast_enabled(tensor.device.type):
            raise ValueError(
                f"{type(self).__name__} input dtype ({tensor.dtype}) does not match "
                f"weight dtype ({own}). Convert input: input.to({own}), or convert "
                f"model: model.to({tensor.dtype})"
            )
        if tensor.size(-1) != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {tensor.size(-1)}"
            )

    def _check_hidden_dims(self, hx, batched):
        """Refuses a hidden state with a batch where the input has none, or without."""
        if hx is None:
            return
        given = hx if isinstance(hx, (tuple, list)) else (hx,)
        wanted = 3 if batched else 2
        if any(each.dim() != wanted for each in given):
            found = ", ".join(f"{each.dim()}-D" for each in given)
            names = "hx and cx" if len(given) > 1 else "hx"
            raise RuntimeError(
                f"For {'' if batched else 'un'}batched {wanted}-D input, {names} should "
                f"also be {wanted}-D but got "
                + (f"({found}) tensors" if len(given) > 1 else f"{found} tensor")
            )

    def _first_state(self, hx, samples, like, order):
        """The states at the first step, ``(layers * directions, N, size)`` each."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [self.proj_size or self.hidden_size]
        if self.mode == "LSTM":
            sizes.append(self.hidden_size)
        if hx is None:
            made = {"dtype": like.dtype, "device": like.device}
            return tuple(rl.zeros((count, samples, size), **made) for size in sizes)
        given = hx if isinstance(hx, tuple) else (hx,)
        for name, each, size in zip(("hidden[0]", "hidden[1]"), given, sizes):
            expected = (count, samples, size)
            if tuple(each.shape) != expected:
                label = f"{name} " if self.mode == "LSTM" else "hidden "
                raise RuntimeError(
                    f"Expected {label}size {expected}, got {list(each.shape)}"
                )
        if order is not None:
            given = tuple(each.index_select(1, order) for each in given)
        return given

    def forward(self, input, hx=None):
        self._check_input(input)
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        batched = input.dim() == 3
        self._check_hidden_dims(hx, batched)
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
            if hx is not None:
                hx = (
                    tuple(each.unsqueeze(1) for each in hx)
                    if isinstance(hx, tuple)
                    else hx.unsqueeze(1)
                )
        if not input.size(1 if self.batch_first else 0):
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        samples = input.size(0 if self.batch_first else 1)
        state = self._first_state(hx, samples, input, None)
        output, last = self._through(input, state)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            last = tuple(each.squeeze(1) for each in last)
        return output, (last if self.mode == "LSTM" else last[0])

    def _forward_packed(self, input, hx):
        samples = int(input.batch_sizes[0])
        state = self._first_state(hx, samples, input.data, input.sorted_indices)
        output, last = self._through(input.data, input.batch_sizes, state)
        if input.unsorted_indices is not None:
            last = tuple(each.index_select(1, input.unsorted_indices) for each in last)
        packed = PackedSequence(
            output, input.batch_sizes, input.sorted_indices, input.unsorted_indices
        )
        return packed, (last if self.mode == "LSTM" else last[0])

    def _through(self, *given):
        """What the operator of this kind of network gives: outputs and last states.

        Args:
            given: the input, or packed rows and their counts; last the first state.
        """
        *given, state = given
        # By their names: a parametrization computes them there.
        weights = [getattr(self, name) for names in self._all_weights for name in names]
        options = (
            bool(self.bias),
            self.num_layers,
            float(self.dropout),
            self.training,
            bool(self.bidirectional),
        )
        if len(given) == 1:
            options += (bool(self.batch_first),)
        if self.mode != "LSTM":
            (state,) = state
        operator = getattr(call, self.mode.lower())
        output, *last = operator(*given, state, weights, *options)
        return output, tuple(last)


def _given(scope):
    """What a constructor was given, as its parent takes it: its ``locals()`` but itself."""
    return {
        name: value
        for name, value in scope.items()
        if name not in ("self", "__class__", "others")
    }


def _refuse_others(kind, others):
    """Refuses what only other recurrent layers take.

    Raises:
        ValueError: a projection is asked for.
        TypeError: there is no such argument.
    """
    if "proj_size" in others:
        raise ValueError(
            "proj_size argument is only supported for LSTM, not RNN or GRU"
        )
    for name in others:
        raise TypeError(
            f"{kind}.__init__() got an unexpected keyword argument '{name}'"
        )


class RNN(RNNBase):
    """A network of ``tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)`` layers.

    Args:
        input_size: features of the input.
        num_layers: layers on top of one another.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        batch_first: whether inputs are ``(N, L, features)``, not ``(L, N, features)``.
        dropout: probability of dropping an output between layers.
        bidirectional: whether a second network reads backwards.
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        nonlinearity="tanh",
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        device=None,
        dtype=None,
        **others,
    ):
        _refuse_others("RNN", others)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        given = _given(locals())
        del given["nonlinearity"]
        super().__init__(f"RNN_{nonlinearity.upper()}", **given)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """A network of long short-term memory layers.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional: as in ``RNN``.
        proj_size: size that hidden states are projected to; 0 for no projection.

    Returns:
        The last layer's outputs, and the states ``(h_n, c_n)`` after the last step.
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        proj_size=0,
        device=None,
        dtype=None,
    ):
        super().__init__("LSTM", **_given(locals()))


class GRU(RNNBase):
    """A network of gated recurrent units; arguments as in ``RNN``."""

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        device=None,
        dtype=None,
        **others,
    ):
        _refuse_others("GRU", others)
        super().__init__("GRU", **_given(locals()))


class RNNCellBase(Module):
    """What the single steps share.

    Args:
        input_size: features of the input.
        num_chunks: how many gates share the weights.

    >>> rl.nn.LSTMCell(3, 4).weight_ih.shape
    rushlight.Size([16, 3])
    """

    __constants__ = ["input_size", "hidden_size", "bias"]
    _mode = ""

    def __init__(
        self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None
    ):
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(rl.empty((rows, input_size), **options))
        self.weight_hh = Parameter(rl.empty((rows, hidden_size), **options))
        if bias:
            self.bias_ih = Parameter(rl.empty(rows, **options))
            self.bias_hh = Parameter(rl.empty(rows, **options))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw all parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)

    def _check_sizes(self, rows, state):
        if rows.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {rows.size(1)} expected "
                f"{self.input_size}"
            )
        for number, each in enumerate(state):
            if each.size(0) != rows.size(0):
                raise RuntimeError(
                    f"Input batch size {rows.size(0)} doesn't match hidden{number} batch "
                    f"size {each.size(0)}"
                )
            if each.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"hidden{number} has inconsistent hidden_size: got {each.size(1)}, "
                    f"expected {self.hidden_size}"
                )

    def _step(self, input, state):
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(
                f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead"
            )
        for number, each in enumerate(state or ()):
            if each.dim() not in (1, 2):
                what = f"hx[{number}]" if self._mode == "LSTM" else "hidden"
                raise ValueError(
                    f"{name}: Expected {what} to be 1D or 2D, got {each.dim()}D instead"
                )
        batched = input.dim() == 2
        rows = input if batched else input.unsqueeze(0)
        count = 2 if self._mode == "LSTM" else 1
        if state is None:
            sizes = rows.size(0), self.hidden_size
            state = (rl.zeros(sizes, dtype=rows.dtype, device=rows.device),) * count
        elif not batched:
            state = tuple(each.unsqueeze(0) for each in state)
        self._check_sizes(rows, state)
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        if self._mode == "LSTM":
            moved = call.lstm_cell(rows, state, *weights)
        else:
            operator = getattr(call, f"{self._mode.lower()}_cell")
            moved = (operator(rows, *state, *weights),)
        return moved if batched else tuple(each.squeeze(0) for each in moved)


class RNNCell(RNNCellBase):
    """One step of ``RNN``.

    Args:
        nonlinearity: ``"tanh"`` or ``"relu"``.
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        bias=True,
        nonlinearity="tanh",
        device=None,
        dtype=None,
    ):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        self._mode = f"RNN_{self.nonlinearity.upper()}"
        return self._step(input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of ``LSTM``: the next hidden state and cell state."""

    _mode = "LSTM"

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        if isinstance(hx, rl.Tensor):
            raise TypeError(
                "lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not "
                "Tensor"
            )
        return self._step(input, hx)


class GRUCell(RNNCellBase):
    """One step of ``GRU``."""

    _mode = "GRU"

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._step(input, None if hx is None else (hx,))[0]


describe_arguments(
    globals(),
    hidden_size="features of the state.",
    bias="whether there are biases.",
    input_size="features of an input.",
    device="where the parameters lie.",
    dtype="their data type.",
)
