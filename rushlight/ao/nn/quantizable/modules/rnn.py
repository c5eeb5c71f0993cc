"""Long short-term memory whose gates, sums and products are observed one by one."""

import numbers
import warnings

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn.quantized.functional_modules import FloatFunctional
from rushlight.ao.quantization.quantize import prepare, prepare_qat

__all__ = ["LSTM", "LSTMCell"]

_GATES = ("input", "forget", "cell", "output")
_SPLIT = "split_gates"


class LSTMCell(nn.Module):
    """One step of an LSTM, of linear layers, gates, sums and products.

    Args:
        input_dim, hidden_dim: features of inputs and of states.
        bias: whether the linear layers have biases.
        device, dtype: of the parameters.
        split_gates: whether each gate has linear layers and a sum of its own.

    >>> cell = LSTMCell(4, 3)
    >>> [each.shape for each in cell(rl.ones(2, 4))]
    [rushlight.Size([2, 3]), rushlight.Size([2, 3])]
    """

    _FLOAT_MODULE = nn.LSTMCell
    __constants__ = [_SPLIT]

    def __init__(
        self, input_dim, hidden_dim, bias=True, device=None, dtype=None, *,
        split_gates=False,
    ):  # fmt: skip
        super().__init__()
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.input_size, self.hidden_size, self.bias = input_dim, hidden_dim, bias
        self.split_gates = split_gates
        if split_gates:
            self.igates, self.hgates = nn.ModuleDict(), nn.ModuleDict()
            self.gates = nn.ModuleDict()
            for gate in _GATES:
                self.igates[gate] = nn.Linear(input_dim, hidden_dim, **options)
                self.hgates[gate] = nn.Linear(hidden_dim, hidden_dim, **options)
                self.gates[gate] = FloatFunctional()
        else:
            self.igates = nn.Linear(input_dim, 4 * hidden_dim, **options)
            self.hgates = nn.Linear(hidden_dim, 4 * hidden_dim, **options)
            self.gates = FloatFunctional()
        self.input_gate, self.forget_gate = nn.Sigmoid(), nn.Sigmoid()
        self.cell_gate, self.output_gate = nn.Tanh(), nn.Sigmoid()
        self.fgate_cx, self.igate_cgate = FloatFunctional(), FloatFunctional()
        self.fgate_cx_igate_cgate = FloatFunctional()
        self.ogate_cy = FloatFunctional()
        # scale and zero point, and type, of states that begin as zeros
        self.initial_hidden_state_qparams = self.initial_cell_state_qparams = (1.0, 0)
        self.hidden_state_dtype = self.cell_state_dtype = rl.quint8

    def _sums(self, x, hidden):
        """What each gate is a function of."""
        if not self.split_gates:
            return self.gates.add(self.igates(x), self.hgates(hidden)).chunk(4, 1)
        parts = self.gates.values(), self.igates.values(), self.hgates.values()
        return [add.add(of_x(x), of_h(hidden)) for add, of_x, of_h in zip(*parts)]

    def forward(self, x, hidden=None):
        """The next state and memory.

        Args:
            x: ``[samples, input_dim]``.
            hidden: state and memory, ``[samples, hidden_dim]`` each; zeros if left out.
        """
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        state, memory = hidden
        into, keep, new, out = self._sums(x, state)
        into, keep = self.input_gate(into), self.forget_gate(keep)
        new, out = self.cell_gate(new), self.output_gate(out)
        memory = self.fgate_cx_igate_cgate.add(
            self.fgate_cx.mul(keep, memory), self.igate_cgate.mul(into, new)
        )
        return self.ogate_cy.mul(out, rl.tanh(memory)), memory

    def initialize_hidden(self, batch_size, is_quantized=False):
        """State and memory of zeros.

        Args:
            batch_size: how many samples.
            is_quantized: whether they are integers.
        """
        zeros = [rl.zeros(batch_size, self.hidden_size) for _ in range(2)]
        if not is_quantized:
            return tuple(zeros)
        known = (
            (*self.initial_hidden_state_qparams, self.hidden_state_dtype),
            (*self.initial_cell_state_qparams, self.cell_state_dtype),
        )
        return tuple(rl.quantize_per_tensor(z, *k) for z, k in zip(zeros, known))

    def _get_name(self):
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(cls, wi, wh, bi=None, bh=None, split_gates=False):
        """A cell with given weights, the gates' one after another.

        Args:
            wi, wh: ``[4 hidden_dim, input_dim]`` and ``[4 hidden_dim, hidden_dim]``.
            bi, bh: ``[4 hidden_dim]``; both or none.
            split_gates: whether each gate has layers of its own.

        Raises:
            AssertionError: one of the biases is left out.
        """
        if (bi is None) != (bh is None):
            raise AssertionError("bi and bh must both be None or both have values")
        cell = cls(
            wi.shape[1], wh.shape[1], bias=bi is not None, split_gates=split_gates
        )
        for weight, bias, made in ((wi, bi, cell.igates), (wh, bh, cell.hgates)):
            layers = list(made.values()) if split_gates else [made]
            for name, given in (("weight", weight), ("bias", bias)):
                if given is None:
                    continue
                parts = given.chunk(4, dim=0) if split_gates else [given]
                for layer, part in zip(layers, parts):
                    setattr(layer, name, nn.Parameter(part))
        return cell

    @classmethod
    def from_float(cls, other, use_precomputed_fake_quant=False, split_gates=False):
        """A cell made of an `nn.LSTMCell` with ``qconfig``.

        Raises:
            AssertionError: it is another module, or has none.
        """
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(
                f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}"
            )
        if not hasattr(other, "qconfig"):
            raise AssertionError("The float module must have 'qconfig'")
        weights = other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh
        found = cls.from_params(*weights, split_gates=split_gates)
        layers = [found, found.igates, found.hgates]
        if split_gates:
            layers += [*found.igates.values(), *found.hgates.values()]
        for layer in layers:
            layer.qconfig = other.qconfig
        return found


class _LSTMSingleLayer(nn.Module):
    """One direction of one layer: a cell, step after step."""

    def __init__(self, input_dim, hidden_dim, bias=True, **settings):
        super().__init__()
        self.cell = LSTMCell(input_dim, hidden_dim, bias=bias, **settings)

    def forward(self, x, hidden=None):
        """The states of all steps, and the last state and memory."""
        found = []
        for step in range(x.shape[0]):
            hidden = self.cell(x[step], hidden)
            found.append(hidden[0])
        return rl.stack(found, 0), hidden

    @classmethod
    def from_params(cls, *args, **kwargs):
        """A direction with given weights, as for `LSTMCell.from_params`."""
        cell = LSTMCell.from_params(*args, **kwargs)
        sizes = cell.input_size, cell.hidden_size, cell.bias
        found = cls(*sizes, split_gates=cell.split_gates)
        found.cell = cell
        return found


def _by_direction(hidden, count):
    """State and memory of each direction; those that are not given are None."""
    state, memory = (None, None) if hidden is None else hidden
    if count == 1:
        return [None if state is None and memory is None else (state, memory)]
    pairs = []
    for number in range(count):
        both = [None if each is None else each[number] for each in (state, memory)]
        given = any(e is not None for e in both) if number == 0 else None not in both
        pairs.append(tuple(both) if given else None)
    return pairs


class _LSTMLayer(nn.Module):
    """One layer, of one direction or two."""

    def __init__(
        self, input_dim, hidden_dim, bias=True, batch_first=False, bidirectional=False,
        **settings,
    ):  # fmt: skip
        super().__init__()
        self.batch_first, self.bidirectional = batch_first, bidirectional
        sizes = input_dim, hidden_dim
        self.layer_fw = _LSTMSingleLayer(*sizes, bias=bias, **settings)
        if bidirectional:
            self.layer_bw = _LSTMSingleLayer(*sizes, bias=bias, **settings)

    def forward(self, x, hidden=None):
        """The states of all steps, and the last states and memories."""
        if self.batch_first:
            x = x.transpose(0, 1)
        first, *other = _by_direction(hidden, 2 if self.bidirectional else 1)
        result, (state, memory) = self.layer_fw(x, first)
        if self.bidirectional:
            back, ends = self.layer_bw(x.flip(0), other[0])
            result = rl.cat([result, back.flip(0)], result.dim() - 1)
            state = rl.stack([state, ends[0]], 0)
            memory = rl.stack([memory, ends[1]], 0)
        if self.batch_first:
            result.transpose_(0, 1)
        return result, (state, memory)

    @classmethod
    def from_float(cls, other, layer_idx=0, qconfig=None, **kwargs):
        """A layer made of one layer of an `nn.LSTM`.

        Args:
            other: the module, whose sizes ``kwargs`` may replace.
            layer_idx: the layer's number.
            qconfig: taken where ``other`` has none.
        """
        if not hasattr(other, "qconfig") and qconfig is None:
            raise AssertionError("other must have qconfig or qconfig must be provided")
        names = "input_size hidden_size bias batch_first bidirectional".split()
        given = [kwargs.get(name, getattr(other, name)) for name in names]
        split = {_SPLIT: kwargs.get(_SPLIT, False)}
        layer = cls(*given, **split)
        layer.qconfig = getattr(other, "qconfig", qconfig)
        ends = {"layer_fw": "", "layer_bw": "_reverse"}
        for name, end in list(ends.items())[: 2 if other.bidirectional else 1]:
            weights = [
                getattr(other, f"{kind}_l{layer_idx}{end}", None)
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            setattr(layer, name, _LSTMSingleLayer.from_params(*weights, **split))
        return layer


def _check_dropout(dropout, num_layers):
    valid = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
    if not valid or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of "
            "an element being zeroed"
        )
    if dropout > 0:
        warnings.warn(
            "dropout option for quantizable LSTM is ignored. If you are training, "
            "please, use nn.LSTM version followed by `prepare` step.",
            stacklevel=3,
        )
        if num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so "
                "non-zero dropout expects num_layers greater than 1, but got "
                f"dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )


class LSTM(nn.Module):
    """`nn.LSTM` of parts that observers see; `prepare` puts it in that one's place.

    Args:
        input_size, hidden_size: features of inputs and of states.
        num_layers: layers, each over the states of the one before.
        bias: whether there are biases.
        batch_first: whether inputs are ``(N, L, E)``, not ``(L, N, E)``.
        dropout: ignored, with a warning.
        bidirectional: whether each layer reads the steps backwards, too.
        settings: ``device`` and ``dtype`` of the parameters, and ``split_gates``:
            whether each gate has linear layers of its own.

    >>> found, (state, memory) = LSTM(4, 3, bidirectional=True)(rl.ones(5, 2, 4))
    >>> found.shape, state.shape
    (rushlight.Size([5, 2, 6]), rushlight.Size([2, 2, 3]))
    """

    _FLOAT_MODULE = nn.LSTM

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
        dropout=0.0, bidirectional=False, **settings,
    ):  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        self.training = False  # in evaluation mode, where it is converted
        _check_dropout(dropout, num_layers)
        settings |= {"batch_first": False, "bidirectional": bidirectional}
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.layers = nn.ModuleList(
            _LSTMLayer(size, hidden_size, bias, **settings) for size in sizes
        )

    def _states(self, x, hidden):
        """State and memory of each layer."""
        directions, count = 2 if self.bidirectional else 1, x.size(1)
        if hidden is None:
            sizes = directions, count, self.hidden_size
            zeros = rl.zeros(*sizes, dtype=rl.float32, device=x.device).squeeze_(0)
            if x.is_quantized:
                zeros = rl.quantize_per_tensor(zeros, 1.0, 0, x.dtype)
            return [(zeros, zeros)] * self.num_layers
        if not isinstance(hidden[0], rl.Tensor):
            return hidden
        shape = self.num_layers, directions, count, self.hidden_size
        both = [each.reshape(*shape) for each in hidden]
        return [
            tuple(each[number].squeeze(0) for each in both)
            for number in range(self.num_layers)
        ]

    def forward(self, x, hidden=None):
        """The last layer's states of all steps, and all layers' last states, memories.

        Args:
            x: ``[steps, samples, input_size]``, or samples first.
            hidden: states and memories to begin with, ``[layers * directions, samples,
                hidden_size]`` each, or a list of pairs, one a layer.
        """
        if self.batch_first:
            x = x.transpose(0, 1)
        ends = []
        for layer, begun in zip(self.layers, self._states(x, hidden)):
            x, end = layer(x, begun)
            ends.append(end)
        states = tuple(rl.stack(each) for each in zip(*ends))
        states = tuple(
            each.reshape(-1, each.shape[-2], each.shape[-1]) for each in states
        )
        return (x.transpose(0, 1) if self.batch_first else x), states

    def _get_name(self):
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other, qconfig=None, split_gates=False):
        """An observed LSTM made of an `nn.LSTM`; in training mode, one that rounds.

        Args:
            other: the module.
            qconfig: taken where it has none.
            split_gates: whether each gate has linear layers of its own.

        Raises:
            AssertionError: it is another module, or there is no configuration.
        """
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(
                f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}"
            )
        if not hasattr(other, "qconfig") and not qconfig:
            raise AssertionError("other must have qconfig or qconfig must be provided")
        names = (
            "input_size hidden_size num_layers bias batch_first dropout bidirectional"
        )
        given = [getattr(other, name) for name in names.split()]
        found = cls(*given, split_gates=split_gates)
        found.qconfig = getattr(other, "qconfig", qconfig)
        settings = {"batch_first": False, _SPLIT: split_gates}
        for number in range(other.num_layers):
            found.layers[number] = _LSTMLayer.from_float(
                other, number, qconfig, **settings
            )
        if other.training:
            return prepare_qat(found.train(), inplace=True)
        return prepare(found.eval(), inplace=True)

    @classmethod
    def from_observed(cls, other):
        """Refuses: `nn.quantized.LSTM` is made of an observed one."""
        raise NotImplementedError(
            "It looks like you are trying to convert a non-quantizable LSTM module. "
            "Please, see the examples on quantizable LSTMs."
        )
