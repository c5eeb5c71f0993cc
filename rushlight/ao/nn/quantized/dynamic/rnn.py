"""Recurrent layers with weights of integers, of numbers."""

import rushlight as rl
from rushlight import nn
from rushlight.ao._operators import recurrent
from rushlight.ao.nn.quantized.common import checked, quantize_weight
from rushlight.nn.utils.rnn import PackedSequence


class PackedParameter(nn.Module):
    """The packed weights of one direction of one layer, as a module.

    Args:
        param: the weights.
    """

    def __init__(self, param):
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, *rest
    ):
        self.param = state_dict[prefix + "param"]
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, *rest
        )


def _packed(weight, bias, dtype):
    """A weight of numbers, packed.

    Args:
        weight: numbers, or a quantized tensor.
        bias: numbers.
        dtype: what the weight is to be: qint8, or float16.
    """
    if dtype == rl.float16:
        return rl.ops.quantized.linear_prepack_fp16(weight, bias)
    return rl.ops.quantized.linear_prepack(weight, bias)


def _observer(mod, names):
    """What has seen the weights of a module, of a type that weights may have."""
    from rushlight.ao.quantization import qconfig as configs

    qconfig = getattr(mod, "qconfig", None)
    if qconfig is not None and qconfig.weight is not None:
        made = qconfig.weight
    else:
        made = configs.default_dynamic_qconfig.weight
    if made().dtype not in (rl.qint8, rl.float16):
        raise RuntimeError(f"Unsupported dtype for {names}: {made().dtype}")
    return made


class RNNBase(nn.Module):
    """What recurrent layers with quantized weights share.

    Args:
        mode: ``LSTM``, ``GRU``, ``RNN_TANH`` or ``RNN_RELU``.
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional:
            as for layers of numbers.
        dtype: of the weights: qint8, or float16.
    """

    _FLOAT_MODULE = nn.RNNBase
    _version = 2

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
        dropout=0.0, bidirectional=False, dtype=rl.qint8,
    ):  # fmt: skip
        super().__init__()
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        self.dtype, self.version, self.training = dtype, 2, False
        directions = 2 if bidirectional else 1
        gates = {"LSTM": 4, "GRU": 3}.get(mode, 1)
        found = []
        for layer in range(num_layers):
            wide = input_size if layer == 0 else hidden_size * directions
            for _ in range(directions):
                found.append(self._fresh(gates * hidden_size, wide, hidden_size))
        self._all_weight_values = nn.ModuleList(map(PackedParameter, found))

    def _fresh(self, rows, wide, size):
        weights = []
        for depth in (wide, size):
            weight, bias = rl.randn(rows, depth), rl.randn(rows)
            if self.dtype == rl.qint8:
                weight = rl.quantize_per_tensor(weight, 0.1, 0, rl.qint8)
            weights.append(_packed(weight, bias, self.dtype))
        return self._cell(*weights)

    def _cell(self, w_ih, w_hh):
        return recurrent.CellParams(w_ih, w_hh, self.dtype == rl.qint8)

    def _get_name(self):
        return f"DynamicQuantized{self.mode.partition('_')[0]}"

    def extra_repr(self):
        """Sizes and settings."""
        found = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
            ("bidirectional", False),
        ):  # fmt: skip
            value = getattr(self, name)
            if value != usual:
                found += f", {name}={value}"
        return found

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"

    def _states(self, hx, samples):
        """The states to begin with, one tensor for each kind.

        Raises:
            RuntimeError: their sizes aren't right.
        """
        count = self.num_layers * (2 if self.bidirectional else 1)
        shape = (count, samples, self.hidden_size)
        kinds = 2 if self.mode == "LSTM" else 1
        if hx is None:
            return tuple(rl.zeros(shape) for _ in range(kinds))
        states = tuple(hx) if self.mode == "LSTM" else (hx,)
        for state in states:
            if tuple(state.shape) != shape:
                raise RuntimeError(
                    f"Expected hidden size {shape}, got {list(state.shape)}"
                )
        return states

    def _rows(self, input):
        """Rows step after step, how many each step has, and what puts results back."""
        if isinstance(input, PackedSequence):

            def back(out):
                return PackedSequence(out, *input[1:])

            return input.data, input.batch_sizes.tolist(), back
        steps = input.transpose(0, 1) if self.batch_first else input
        count, samples = steps.shape[:2]

        def spread(out):
            out = out.view(count, samples, -1)
            return out.transpose(0, 1) if self.batch_first else out

        return steps.reshape(count * samples, -1), [samples] * count, spread

    def forward(self, input, hx=None):
        """Results of all steps, and the last states.

        Args:
            input: ``[steps, samples, input_size]``, or a packed sequence.
            hx: the states to begin with.
        """
        if input[0].shape[-1] != self.input_size and not isinstance(
            input, PackedSequence
        ):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )
        rows, counts, back = self._rows(input)
        states = self._states(self._permuted(hx, input, "sorted_indices"), counts[0])
        kind = self.mode.lower().removeprefix("rnn_")
        params = [each.param for each in self._all_weight_values]
        out, ends = recurrent.layers(
            kind, rows, states, params, counts, self.bidirectional, self.dropout,
            self.training,
        )  # fmt: skip
        ends = ends if self.mode == "LSTM" else ends[0]
        return back(out), self._permuted(ends, input, "unsorted_indices")

    def _permuted(self, states, input, order):
        indices = getattr(input, order, None)
        if states is None or indices is None:
            return states
        if isinstance(states, (tuple, list)):
            return tuple(state.index_select(1, indices) for state in states)
        return states.index_select(1, indices)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A layer made of one of numbers.

        Raises:
            NotImplementedError: it has no biases.
        """
        checked(cls, mod, (cls._FLOAT_MODULE,))
        make = _observer(mod, cls.__name__)
        found = cls(
            *(() if cls is not RNNBase else (mod.mode,)), mod.input_size,
            mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
            mod.bidirectional, dtype=make().dtype,
        )  # fmt: skip
        if not mod.bias:
            raise NotImplementedError("Only weights with biases are quantized")
        packed = []
        for layer in range(mod.num_layers):
            for end in ["", "_reverse"][: 2 if mod.bidirectional else 1]:
                weights = [
                    found._quantized(mod, f"{word}_l{layer}{end}", make)
                    for word in ("ih", "hh")
                ]
                packed.append(PackedParameter(found._cell(*weights)))
        found._all_weight_values = nn.ModuleList(packed)
        return found

    def _quantized(self, mod, name, make):
        weight, bias = getattr(mod, f"weight_{name}"), getattr(mod, f"bias_{name}")
        weight, bias = weight.detach().float(), bias.detach().float()
        if self.dtype == rl.qint8:
            observer = make()
            observer(weight)
            weight = quantize_weight(weight, observer)
        return _packed(weight, bias, self.dtype)

    def _weight_bias(self):
        found = {"weight": {}, "bias": {}}
        directions = 2 if self.bidirectional else 1
        for number, each in enumerate(self._all_weight_values):
            layer, back = divmod(number, directions)
            end = f"l{layer}{'_reverse' if back else ''}"
            for word, packed in (("ih", each.param.w_ih), ("hh", each.param.w_hh)):
                weight, bias = packed.unpack()
                found["weight"][f"weight_{word}_{end}"] = weight
                found["bias"][f"bias_{word}_{end}"] = bias
        return found

    def get_weight(self):
        """The quantized weights by name."""
        return self._weight_bias()["weight"]

    def get_bias(self):
        """The biases by name."""
        return self._weight_bias()["bias"]


class LSTM(RNNBase):
    """A layer with a cell, whose weights are quantized.

    Args:
        args, kwargs: as for `RNNBase`, but for the mode.
    """

    _FLOAT_MODULE = nn.LSTM

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """A layer with a gate for its state, whose weights are quantized.

    Args:
        args, kwargs: as for `RNNBase`, but for the mode.
    """

    _FLOAT_MODULE = nn.GRU

    def __init__(self, *args, **kwargs):
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(nn.Module):
    """What recurrent cells with quantized weights share.

    Args:
        input_size, hidden_size: sizes.
        bias: whether there are biases.
        num_chunks: how many gates there are.
        dtype: of the weights.
    """

    _MODE = "lstm"

    def __init__(
        self, input_size, hidden_size, bias=True, num_chunks=4, dtype=rl.qint8
    ):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_dtype = dtype
        rows = num_chunks * hidden_size
        self.bias_ih = rl.randn(rows) if bias else None
        self.bias_hh = rl.randn(rows) if bias else None
        weights = []
        for depth, bias in ((input_size, self.bias_ih), (hidden_size, self.bias_hh)):
            weight = rl.randn(rows, depth)
            if dtype == rl.qint8:
                weight = rl.quantize_per_tensor(weight, 1.0, 0, rl.qint8)
            weights.append(_packed(weight, bias, dtype))
        self._packed_weight_ih, self._packed_weight_hh = weights

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self):
        """Sizes."""
        found = f"{self.input_size}, {self.hidden_size}"
        return found if self.bias else found + f", bias={self.bias}"

    def forward(self, input, hx=None):
        """The next state.

        Args:
            input: ``[samples, input_size]``.
            hx: the state; None for zeros.

        Raises:
            RuntimeError: a size isn't right.
        """
        if input.shape[1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.shape[1]}, expected "
                f"{self.input_size}"
            )
        if hx is None:
            zeros = rl.zeros(input.shape[0], self.hidden_size)
            hx = (zeros, zeros) if self._MODE == "lstm" else zeros
        weights = self._packed_weight_ih, self._packed_weight_hh
        step = getattr(rl.ops.quantized, f"quantized_{self._MODE}_cell_dynamic")
        hx = list(hx) if self._MODE == "lstm" else hx
        return step(input, hx, *weights, self.bias_ih, self.bias_hh)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A cell made of one of numbers."""
        checked(cls, mod, (getattr(nn, cls.__name__),))
        make = _observer(mod, cls.__name__)
        settings = {"dtype": make().dtype}
        if isinstance(mod, nn.RNNCell):
            settings["nonlinearity"] = mod.nonlinearity
        found = cls(mod.input_size, mod.hidden_size, bias=mod.bias, **settings)
        for word in ("ih", "hh"):
            weight = getattr(mod, f"weight_{word}").detach().float()
            bias = getattr(mod, f"bias_{word}")
            bias = None if bias is None else bias.detach()
            if found.weight_dtype == rl.qint8:
                observer = make()
                observer(weight)
                weight = quantize_weight(weight, observer)
            setattr(found, f"bias_{word}", bias)
            packed = _packed(weight, bias, found.weight_dtype)
            setattr(found, f"_packed_weight_{word}", packed)
        return found

    def get_weight(self):
        """The quantized weights by name."""
        return {
            "weight_ih": self._packed_weight_ih.unpack()[0],
            "weight_hh": self._packed_weight_hh.unpack()[0],
        }

    def get_bias(self):
        """The biases by name."""
        return {"bias_ih": self.bias_ih, "bias_hh": self.bias_hh}

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            destination[prefix + name] = getattr(self, name)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, *rest
    ):
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            setattr(self, name, state_dict.pop(prefix + name))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, *rest
        )


class LSTMCell(RNNCellBase):
    """A step of a layer with a cell.

    Args:
        args, kwargs: as for `RNNCellBase`.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, num_chunks=4, **kwargs)


class GRUCell(RNNCellBase):
    """A step of a layer with a gate for its state.

    Args:
        input_size, hidden_size, bias, dtype: as for `RNNCellBase`.
    """

    _MODE = "gru"

    def __init__(self, input_size, hidden_size, bias=True, dtype=rl.qint8):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)


class RNNCell(RNNCellBase):
    """A step of a layer without gates.

    Args:
        input_size, hidden_size, bias, dtype: as for `RNNCellBase`.
        nonlinearity: ``tanh`` or ``relu``.
    """

    def __init__(
        self, input_size, hidden_size, bias=True, nonlinearity="tanh", dtype=rl.qint8
    ):
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    @property
    def _MODE(self):
        return f"rnn_{self.nonlinearity}"
