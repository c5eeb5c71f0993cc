"""Convolutions of integers, over one to three dimensions, transposed too."""

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.nn.intrinsic import qat as nniqat
from rushlight.ao.nn.intrinsic.qat.modules import fused_weight
from rushlight.ao.nn.qat import modules as qat
from rushlight.ao.nn.quantized.common import (
    WeightedQuantizedModule,
    checked,
    inner_of,
    load_parameters,
    output_parameters,
    quantize_weight,
    save_parameters,
    weight_observer,
)
from rushlight.nn import functional as F


def _several(value, count):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


class _ConvNd(WeightedQuantizedModule):
    """What convolutions of integers share.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode: as for convolutions of numbers.
        made: ``device`` and ``dtype``: taken, and not used.

    Raises:
        NotImplementedError: the padding's mode has no kernel.
    """

    _RELU, _TRANSPOSED = False, False

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
        groups=1, bias=True, padding_mode="zeros", **made,
    ):  # fmt: skip
        super().__init__()
        count = self._COUNT
        self.output_padding = (0,) * count
        self._begin(in_channels, out_channels, groups, padding_mode)
        self.kernel_size, self.stride, self.padding, self.dilation = (
            _several(value, count) for value in (kernel_size, stride, padding, dilation)
        )
        self._pack_zeros(bias)

    def _begin(self, in_channels, out_channels, groups, padding_mode):
        if padding_mode not in ("zeros", "reflect"):
            raise NotImplementedError(
                f"'padding_mode' {padding_mode} is not supported by quantized convolution"
            )
        for word, channels in (("in", in_channels), ("out", out_channels)):
            if channels % groups:
                raise ValueError(f"{word}_channels must be divisible by groups")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.groups, self.padding_mode = groups, padding_mode
        self.transposed = self._TRANSPOSED

    def _pack_zeros(self, bias):
        outer = self.in_channels if self.transposed else self.out_channels
        inner = self.out_channels if self.transposed else self.in_channels
        shape = [outer, inner // self.groups, *self.kernel_size]
        weight = rl.quantize_per_tensor(rl.zeros(shape), 1.0, 0, rl.qint8)
        self.set_weight_bias(weight, rl.zeros(self.out_channels) if bias else None)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self):
        word = "ReLU" if self._RELU else ""
        kind = "Transpose" if self.transposed else ""
        return f"QuantizedConv{word}{kind}{self._COUNT}d"

    def set_weight_bias(self, w, b):
        """Packs a weight and a bias."""
        padding = self.padding
        if self.padding_mode != "zeros":
            padding = (0,) * self._COUNT
        more = [list(self.output_padding)] if self.transposed else []
        word = "conv_transpose" if self.transposed else "conv"
        pack = getattr(rl.ops.quantized, f"{word}{self._COUNT}d_prepack")
        settings = list(self.stride), list(padding), *more, list(self.dilation)
        self._packed_params = pack(w, b, *settings, self.groups)

    def _weight_bias(self):
        word = "conv_transpose" if self.transposed else "conv"
        return getattr(rl.ops.quantized, f"{word}{self._COUNT}d_unpack")(
            self._packed_params
        )

    def weight(self):
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self):
        """The bias, or None."""
        return self._weight_bias()[1]

    def forward(self, input):
        """The convolution, quantized."""
        if input.ndim != self._COUNT + 2:
            shape = "(N, C, L)" if self._COUNT == 1 else "(N, C, ...)"
            raise ValueError(f"Input shape must be `{shape}`!")
        if self.padding_mode != "zeros":
            sides = [side for p in reversed(self.padding) for side in (p, p)]
            input = F.pad(input, sides, mode=self.padding_mode)
        word = "conv_transpose" if self.transposed else "conv"
        name = f"{word}{self._COUNT}d{'_relu' if self._RELU else ''}"
        convolve = getattr(rl.ops.quantized, name)
        return convolve(input, self._packed_params, self.scale, self.zero_point)

    def extra_repr(self):
        """Sizes, settings, scale and zero point."""
        found = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, scale={self.scale}, zero_point={self.zero_point}"
        )
        nothing = (0,) * self._COUNT
        if self.padding != nothing:
            found += f", padding={self.padding}"
        if self.dilation != (1,) * self._COUNT:
            found += f", dilation={self.dilation}"
        if self.output_padding != nothing:
            found += f", output_padding={self.output_padding}"
        if self.groups != 1:
            found += f", groups={self.groups}"
        return found + (", bias=False" if self.bias() is None else "")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = (
            self._weight_bias()
        )
        save_parameters(self, destination, prefix)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, *rest
    ):
        weight, bias = (state_dict.pop(prefix + n) for n in ("weight", "bias"))
        self.set_weight_bias(weight, bias)
        load_parameters(self, state_dict, prefix)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, *rest
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A layer made of one that was observed.

        Raises:
            AssertionError: it was not, or is of another kind.
        """
        checked(cls, mod, cls._KINDS)
        scale, point = output_parameters(mod)
        observer = weight_observer(mod)
        inner = inner_of(mod)
        weight, bias = inner.weight, inner.bias
        if hasattr(mod, "bn"):
            weight, bias = fused_weight(mod)
        if not use_precomputed_fake_quant or not hasattr(mod, "weight_fake_quant"):
            observer(weight)
        if observer.dtype != rl.qint8:
            raise AssertionError("Weight observer must have a dtype of qint8")
        found = cls._like(inner, bias is not None)
        quantized = quantize_weight(weight.detach().float(), observer)
        found.set_weight_bias(quantized, None if bias is None else bias.detach())
        found.scale, found.zero_point = scale, point
        return found

    @classmethod
    def _like(cls, conv, bias):
        settings = list(qat.settings_of(conv))
        settings[7] = bias
        return cls(*settings)

    @classmethod
    def from_reference(cls, ref_qconv, output_scale, output_zero_point):
        """A layer made of its reference form.

        Args:
            ref_qconv: the reference.
            output_scale, output_zero_point: of the results.
        """
        found = cls._like(ref_qconv, ref_qconv.bias is not None)
        found.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        found.scale, found.zero_point = float(output_scale), int(output_zero_point)
        return found


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions of integers share.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, output_padding, groups,
            bias, dilation: as for those of numbers.
        settings: ``padding_mode``; ``device`` and ``dtype`` are not used.
    """

    _TRANSPOSED = True

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0,
        output_padding=0, groups=1, bias=True, dilation=1, **settings,
    ):  # fmt: skip
        WeightedQuantizedModule.__init__(self)
        padding_mode = settings.get("padding_mode", "zeros")
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}'
            )
        count = self._COUNT
        self._begin(in_channels, out_channels, groups, padding_mode)
        self.kernel_size, self.stride, self.padding, self.dilation = (
            _several(value, count) for value in (kernel_size, stride, padding, dilation)
        )
        self.output_padding = _several(output_padding, count)
        self._pack_zeros(bias)

    @classmethod
    def _like(cls, conv, bias):
        return cls(
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride,
            conv.padding, conv.output_padding, conv.groups, bias, conv.dilation,
            padding_mode=conv.padding_mode,
        )  # fmt: skip


def _conv(count, transposed=False, relu=False):
    """The class of convolutions of integers over a number of dimensions."""
    if transposed:
        name, kinds = f"ConvTranspose{count}d", [getattr(nn, f"ConvTranspose{count}d")]
    elif relu:
        name = f"ConvReLU{count}d"
        kinds = [getattr(module, name) for module in (nni, nniqat)]
        kinds.append(getattr(nniqat, f"ConvBnReLU{count}d"))
    else:
        name = f"Conv{count}d"
        kinds = [getattr(nn, name), getattr(nniqat, f"ConvBn{count}d")]
    base = _ConvTransposeNd if transposed else _ConvNd
    return type(
        name,
        (base,),
        {
            "_COUNT": count,
            "_RELU": relu,
            "_KINDS": tuple(kinds),
            "_FLOAT_MODULE": kinds[0],
            "__doc__": f"A convolution of integers over {count} dimensions.",
            "__module__": __name__,
        },
    )


Conv1d, Conv2d, Conv3d = map(_conv, (1, 2, 3))
ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = (
    _conv(count, transposed=True) for count in (1, 2, 3)
)
ConvReLU1d, ConvReLU2d, ConvReLU3d = (_conv(count, relu=True) for count in (1, 2, 3))
