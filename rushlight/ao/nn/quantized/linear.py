"""Linear layers of integers."""

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.nn.intrinsic import qat as nniqat
from rushlight.ao.nn.intrinsic.qat.modules import fused_weight
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


class LinearPackedParams(nn.Module):
    """A packed weight as a module, whose state is the weight and the bias.

    Args:
        dtype: of the weight: qint8, or float16.
    """

    _version = 3

    def __init__(self, dtype=rl.qint8):
        super().__init__()
        self.dtype = dtype
        weight = rl._empty_affine_quantized(
            [1, 1], scale=1, zero_point=0, dtype=rl.qint8
        )
        if dtype == rl.float16:
            weight = rl.zeros([1, 1])
        self.set_weight_bias(weight, None)

    def set_weight_bias(self, weight, bias):
        """Packs a weight and a bias."""
        quantized = rl.ops.quantized
        half = self.dtype == rl.float16
        pack = quantized.linear_prepack_fp16 if half else quantized.linear_prepack
        self._packed_params = pack(weight, bias)

    def _weight_bias(self):
        return self._packed_params.unpack()

    def forward(self, x):
        """The value."""
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, *rest
    ):
        version = local_metadata.get("version")
        self.dtype = rl.qint8
        if version is not None and version > 1:
            self.dtype = state_dict.pop(prefix + "dtype")
        if version is not None and version > 2:
            self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        else:
            self.set_weight_bias(
                state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
            )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, *rest
        )

    def __repr__(self):
        return self._weight_bias().__repr__()


class Linear(WeightedQuantizedModule):
    """A linear layer of integers: of quantized values, in a scale of its own.

    Args:
        in_features, out_features: sizes.
        bias_: whether there is a bias.
        dtype: of the weight.

    Shape:
        - Input: ``(*, in_features)``, quint8.
        - Output: ``(*, out_features)``, quint8.
    """

    _version = 3
    _FLOAT_MODULE = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)

    def __init__(self, in_features, out_features, bias_=True, dtype=rl.qint8):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bias = rl.zeros(out_features, dtype=rl.float32) if bias_ else None
        weight = rl.zeros([out_features, in_features])
        if dtype == rl.qint8:
            weight = rl.quantize_per_tensor(weight, 1.0, 0, rl.qint8)
        elif dtype != rl.float16:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, bias)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self):
        return "QuantizedLinear"

    def extra_repr(self):
        """Sizes, scale, zero point and scheme."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={self.scale}, zero_point={self.zero_point}, "
            f"qscheme={self.weight().qscheme()}"
        )

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"

    def forward(self, x):
        """The product, quantized."""
        return rl.ops.quantized.linear(
            x, self._packed_params._packed_params, self.scale, self.zero_point
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_parameters(self, destination, prefix)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, *rest
    ):
        load_parameters(self, state_dict, prefix)
        version = local_metadata.get("version")
        if version is None or version == 1:
            weight, bias = (state_dict.pop(prefix + n) for n in ("weight", "bias"))
            state_dict[prefix + "_packed_params.weight"] = weight
            state_dict[prefix + "_packed_params.bias"] = bias
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, *rest
        )

    def _weight_bias(self):
        return self._packed_params._weight_bias()

    def weight(self):
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self):
        """The bias, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w, b):
        """Packs a weight and a bias."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A layer made of one that was observed.

        Raises:
            AssertionError: it was not, or the weight is to be of another type.
        """
        checked(cls, mod, cls._kinds())
        weight, bias = mod, None
        scale, point = output_parameters(mod)
        observer = weight_observer(mod)
        if isinstance(mod, nniqat.LinearBn1d):
            weight, bias = fused_weight(mod)
        else:
            inner = inner_of(mod)
            weight, bias = inner.weight, inner.bias
        if not use_precomputed_fake_quant:
            observer(weight)
        if observer.dtype != rl.qint8:
            raise AssertionError("Weight observer must have dtype torch.qint8")
        found = cls(weight.shape[1], weight.shape[0], dtype=observer.dtype)
        quantized = quantize_weight(weight.detach().float(), observer)
        found.set_weight_bias(quantized, bias)
        found.scale, found.zero_point = scale, point
        return found

    @classmethod
    def _kinds(cls):
        return (*cls._FLOAT_MODULE, nni._FusedModule, nniqat.LinearBn1d)

    @classmethod
    def from_reference(cls, ref_qlinear, output_scale, output_zero_point):
        """A layer made of its reference form.

        Args:
            ref_qlinear: the reference.
            output_scale, output_zero_point: of the results.
        """
        found = cls(ref_qlinear.in_features, ref_qlinear.out_features)
        found.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        found.scale, found.zero_point = float(output_scale), int(output_zero_point)
        return found


class LinearReLU(Linear):
    """A linear layer of integers; what is below zero becomes zero."""

    _FLOAT_MODULE = (nni.LinearReLU,)

    def _get_name(self):
        return "QuantizedLinearReLU"

    def forward(self, x):
        """The product, quantized; zero for what is below."""
        return rl.ops.quantized.linear_relu(
            x, self._packed_params._packed_params, self.scale, self.zero_point
        )

    @classmethod
    def _kinds(cls):
        return nni.LinearReLU, nniqat.LinearReLU
