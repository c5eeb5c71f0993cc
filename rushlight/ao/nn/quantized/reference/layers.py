"""The reference form of each layer: a weight, and what it is rounded by.

A graph of them between `quantize_per_tensor` and `dequantize` says what a model of integers
computes; a backend makes its own kernels of the pattern.
"""

import inspect

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.operators import call

_BY_CHANNEL = rl.per_channel_affine, rl.per_channel_affine_float_qparams
_SCHEMES = None, rl.per_tensor_affine, *_BY_CHANNEL
_WHOLE = {
    "qscheme": rl.per_tensor_affine, "dtype": rl.quint8, "scale": 1.0, "zero_point": 0,
}  # fmt: skip


class ReferenceQuantizedModule(nn.Module):
    """A layer with the scale, the zero point and the type that its weight is rounded by."""

    _IS_REFERENCE = True

    def _init_weight_qparams(self, weight_qparams, device):
        given = _WHOLE if weight_qparams is None else weight_qparams
        self.weight_qscheme, self.weight_dtype = given["qscheme"], given["dtype"]
        if self.weight_qscheme not in _SCHEMES:
            raise AssertionError(
                f"qscheme: {self.weight_qscheme} is not supported in reference quantized "
                f"{self._get_name()}"
            )
        held = given if str(self.weight_dtype).partition(".")[2].startswith("q") else {}
        axis = held.get("axis", 0) if self.weight_qscheme in _BY_CHANNEL else 0
        for name, value, dtype in (
            ("scale", held.get("scale", 1.0), rl.float32),
            ("zero_point", held.get("zero_point", 0), rl.int32),
            ("axis", axis, rl.int32),
        ):
            if isinstance(value, rl.Tensor):
                value = value.detach().clone()
            else:
                value = rl.tensor(value, dtype=dtype, device=device)
            self.register_buffer(f"weight_{name}", value)

    def get_quantized_weight(self):
        """The weight as integers, or in half precision.

        Raises:
            ValueError: no quantized tensor has such a scheme and type.
        """
        if self.weight_dtype == rl.float16:
            return self.weight.to(rl.float16)
        given = self.weight, self.weight_scale, self.weight_zero_point
        if self.weight_qscheme == rl.per_tensor_affine:
            return rl.quantize_per_tensor(*given, self.weight_dtype)
        if self.weight_qscheme in _BY_CHANNEL:
            axis = self.weight_axis.item()
            return rl.quantize_per_channel(*given, axis, self.weight_dtype)
        raise ValueError(
            f"Unsupported dtype and qscheme: {self.weight_dtype}, {self.weight_qscheme}"
        )

    def get_weight(self):
        """The weight, rounded as integers hold it."""
        if self.weight_qscheme is None:
            return self.weight
        return self.get_quantized_weight().dequantize()

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight_qscheme"] = self.weight_qscheme
        destination[f"{prefix}weight_dtype"] = self.weight_dtype

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        for name in ("qscheme", "dtype"):
            setattr(self, f"weight_{name}", state_dict.pop(f"{prefix}weight_{name}"))
        for name in ("scale", "zero_point", "axis"):
            given = state_dict.get(f"{prefix}weight_{name}")
            if given is not None:
                getattr(self, f"weight_{name}").resize_(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class _Made(ReferenceQuantizedModule):
    """What layers of one weight share: how they are made."""

    def __init__(self, *args, weight_qparams=None, device=None, **settings):
        super().__init__(*args, device=device, **settings)
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self):
        return f"Quantized{type(self).__name__}(Reference)"

    @classmethod
    def from_float(cls, mod, weight_qparams):
        """A layer made of one of numbers, whose weight it has.

        Args:
            mod: the layer.
            weight_qparams: ``qscheme``, ``dtype``, ``scale``, ``zero_point``, ``axis``.
        """
        names = set(inspect.signature(cls._FLOAT_MODULE.__init__).parameters)
        names -= {"self", "device", "dtype", "bias", "_weight", "_freeze"}
        settings = {name: getattr(mod, name) for name in names}
        if "bias" in vars(mod) or "bias" in mod._parameters:
            settings["bias"] = mod.bias is not None
        given = {"device": mod.weight.device, "dtype": mod.weight.dtype}
        found = cls(**settings, **given, weight_qparams=weight_qparams)
        for name, value in mod.named_parameters():
            setattr(found, name, nn.Parameter(value.detach()))
        return found


class Linear(_Made, nn.Linear):
    """A linear layer."""

    _FLOAT_MODULE = nn.Linear

    def forward(self, x):
        """The product with the rounded weight."""
        return F.linear(x, self.get_weight(), self.bias)


class _Convolution(_Made):
    def forward(self, x):
        """The convolution by the rounded weight."""
        return self._conv_forward(x, self.get_weight(), self.bias)


class Conv1d(_Convolution, nn.Conv1d):
    """A convolution over one dimension."""

    _FLOAT_MODULE = nn.Conv1d


class Conv2d(_Convolution, nn.Conv2d):
    """A convolution over two dimensions."""

    _FLOAT_MODULE = nn.Conv2d


class Conv3d(_Convolution, nn.Conv3d):
    """A convolution over three dimensions."""

    _FLOAT_MODULE = nn.Conv3d


class _Transposed(_Made):
    def forward(self, x, output_size=None):
        """The transposed convolution by the rounded weight.

        Args:
            x: the image.
            output_size: of the result, where several are possible.
        """
        more = self.output_padding
        if output_size is not None:
            more = self._padding_to_reach(x, output_size)
        return getattr(call, self._operator)(
            x, self.get_weight(), self.bias, self.stride, self.padding, more, self.groups,
            self.dilation,
        )  # fmt: skip


class ConvTranspose1d(_Transposed, nn.ConvTranspose1d):
    """A transposed convolution over one dimension."""

    _FLOAT_MODULE = nn.ConvTranspose1d


class ConvTranspose2d(_Transposed, nn.ConvTranspose2d):
    """A transposed convolution over two dimensions."""

    _FLOAT_MODULE = nn.ConvTranspose2d


class ConvTranspose3d(_Transposed, nn.ConvTranspose3d):
    """A transposed convolution over three dimensions."""

    _FLOAT_MODULE = nn.ConvTranspose3d


class Embedding(_Made, nn.Embedding):
    """A table."""

    _FLOAT_MODULE = nn.Embedding

    def forward(self, input):
        """Rows of the rounded table."""
        return F.embedding(
            input, self.get_weight(), self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip


class EmbeddingBag(_Made, nn.EmbeddingBag):
    """A table whose rows are summed by bags."""

    _FLOAT_MODULE = nn.EmbeddingBag

    def _get_name(self):
        return "QuantizedEmbedding(Reference)"  # PyTorch's words

    def forward(self, input, offsets=None, per_sample_weights=None):
        """Sums, means or maxima of rows of the rounded table.

        Args:
            input: indices.
            offsets: where bags begin.
            per_sample_weights: of the rows.
        """
        return F.embedding_bag(
            input, self.get_weight(), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
            self.include_last_offset, self.padding_idx,
        )  # fmt: skip
