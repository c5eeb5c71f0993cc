"""Recurrent layers and attention whose steps are integers."""

import rushlight as rl
from rushlight.ao.nn import quantizable
from rushlight.ao.quantization.quantize import convert


class _FromObserved:
    """What is made of an observed module: its parts become parts of integers."""

    @classmethod
    def from_float(cls, *args, **kwargs):
        """Refuses: it is made of an observed module."""
        raise NotImplementedError(
            f"It looks like you are trying to convert a non-observed {cls._WORD} module. "
            f"Please, see the examples on quantizable {cls._WORD}s."
        )

    @classmethod
    def _converted(cls, other):
        found = convert(other)
        found.__class__ = cls
        return found


class LSTM(_FromObserved, quantizable.LSTM):
    """`nn.quantizable.LSTM` whose parts are of integers; `convert` makes it."""

    _FLOAT_MODULE = quantizable.LSTM
    _WORD = "LSTM"

    def _get_name(self):
        return "QuantizedLSTM"

    @classmethod
    def from_observed(cls, other):
        """A module made of one that was observed.

        Raises:
            AssertionError: it is of another kind.
        """
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(
                f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}"
            )
        return cls._converted(other)


class MultiheadAttention(_FromObserved, quantizable.MultiheadAttention):
    """`nn.quantizable.MultiheadAttention` whose parts are of integers."""

    _FLOAT_MODULE = quantizable.MultiheadAttention
    _WORD = "MHA"

    def _get_name(self):
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_observed(cls, other):
        """A module made of one that was observed; learned keys become integers, too."""
        found = cls._converted(other)
        range_of = found.bias_k  # both have the range of the learned key, as in PyTorch
        for name in ("bias_k", "bias_v"):
            given = getattr(found, name)
            if given is None:
                continue
            range_of = rl.quantize_per_tensor_dynamic(range_of, rl.quint8, False)
            known = range_of.q_scale(), range_of.q_zero_point(), rl.quint8
            range_of = range_of.dequantize()
            del found._parameters[name]
            setattr(found, name, rl.quantize_per_tensor(given, *known))
        del found.in_proj_weight, found.in_proj_bias
        return found
