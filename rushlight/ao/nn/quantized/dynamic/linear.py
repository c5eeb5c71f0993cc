"""Linear layers with weights of integers, of numbers."""

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.nn import qat
from rushlight.ao.nn.quantized import linear
from rushlight.ao.nn.quantized.common import (
    checked,
    inner_of,
    quantize_weight,
    weight_observer,
)


class Linear(linear.Linear):
    """A linear layer of numbers that are quantized by the scale that they ask for.

    Args:
        in_features, out_features: sizes.
        bias_: whether there is a bias.
        dtype: of the weight: qint8, or float16.

    Shape:
        - Input: ``(*, in_features)``, float32.
        - Output: ``(*, out_features)``, float32.
    """

    _version = 4
    _RELU = ""

    def __init__(self, in_features, out_features, bias_=True, dtype=rl.qint8):
        super().__init__(in_features, out_features, bias_, dtype)
        self.version = 4  # from 4 on inputs are quantized to seven bits

    def forward(self, x):
        """The product."""
        packed = self._packed_params._packed_params
        quantized = rl.ops.quantized
        if self._packed_params.dtype == rl.qint8:
            product = getattr(quantized, f"linear{self._RELU}_dynamic")
            reduced = self.version is not None and self.version >= 4
            found = product(x, packed, reduce_range=reduced)
        else:
            found = getattr(quantized, f"linear{self._RELU}_dynamic_fp16")(x, packed)
        return found.to(x.dtype)

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self):
        """Sizes, type and scheme."""
        found = (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"dtype={self._packed_params.dtype}"
        )
        if self._packed_params.dtype == rl.qint8:
            found += f", qscheme={self.weight().qscheme()}"
        return found

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        self.version = local_metadata.get("version")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A layer made of one of numbers.

        Raises:
            RuntimeError: the weight is to be of a type without products.
        """
        from rushlight.ao.quantization import qconfig as configs

        checked(cls, mod, cls._kinds())
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        inner = inner_of(mod)
        if mod.qconfig is not None and mod.qconfig.weight is not None:
            observer = weight_observer(mod)
        else:
            observer = configs.default_dynamic_qconfig.weight()
        weight, bias = inner.weight, inner.bias
        observer(weight)
        if observer.dtype == rl.qint8:
            packed = quantize_weight(weight.detach().float(), observer)
        elif observer.dtype == rl.float16:
            packed = weight.detach().float()
        else:
            raise RuntimeError(
                "Unsupported dtype specified for dynamic quantized Linear!"
            )
        found = cls(inner.in_features, inner.out_features, dtype=observer.dtype)
        found.set_weight_bias(packed, bias)
        return found

    @classmethod
    def _kinds(cls):
        return (*linear.Linear._FLOAT_MODULE, qat.dynamic.Linear, qat.Linear)

    @classmethod
    def from_reference(cls, ref_qlinear):
        """A layer made of its reference form."""
        found = cls(
            ref_qlinear.in_features, ref_qlinear.out_features,
            dtype=ref_qlinear.weight_dtype,
        )  # fmt: skip
        found.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return found


class LinearReLU(Linear):
    """The same; what is below zero becomes zero."""

    _RELU = "_relu"

    def _get_name(self):
        return "DynamicQuantizedLinearReLU"

    @classmethod
    def _kinds(cls):
        return (nni.LinearReLU, nn.Linear)
