"""What quantized modules share: weights quantized by observers, packing, state."""

import rushlight as rl
from rushlight.nn import Module


class WeightedQuantizedModule(Module):
    """A module with a quantized weight."""


def quantize_weight(float_wt, observer):
    """A weight quantized by what an observer has seen.

    Args:
        float_wt: the weight.
        observer: of its kind.

    Raises:
        ValueError: the observer's scheme is none that weights have.
    """
    scale, point = observer.calculate_qparams()
    scheme, dtype = observer.qscheme, observer.dtype
    if scheme in (rl.per_tensor_symmetric, rl.per_tensor_affine):
        return rl.quantize_per_tensor(float_wt, float(scale), int(point), dtype)
    if scheme in (rl.per_channel_symmetric, rl.per_channel_affine):
        given = scale.to(rl.float64), point.to(rl.int64)
    elif scheme == rl.per_channel_affine_float_qparams:
        given = scale.to(rl.float32), point.to(rl.float32)
    else:
        raise ValueError(f"Unexpected qscheme {scheme}")
    return rl.quantize_per_channel(float_wt, *given, observer.ch_axis, dtype)


def weight_observer(mod, default=None):
    """What has seen a module's weight, or is to see it."""
    if hasattr(mod, "weight_fake_quant"):
        return mod.weight_fake_quant
    qconfig = getattr(mod, "qconfig", None)
    made = default if qconfig is None or qconfig.weight is None else qconfig.weight
    return made()


def output_parameters(mod):
    """The scale and the zero point that a module's results were seen to ask for.

    Raises:
        AssertionError: nothing looked at them.
    """
    if not hasattr(mod, "activation_post_process"):
        raise AssertionError("Input QAT module must have observer attached")
    scale, point = mod.activation_post_process.calculate_qparams()
    return float(scale), int(point)


def checked(cls, mod, kinds):
    """Refuses a module of another kind.

    Raises:
        AssertionError: it is of one.
    """
    if not isinstance(mod, tuple(kinds)):
        names = [kind.__name__ for kind in kinds]
        raise AssertionError(
            f"nnq.{cls.__name__}.from_float only works for {names}, but got: {type(mod)}"
        )


def save_parameters(module, destination, prefix):
    """Writes the scale and the zero point of a module's results."""
    destination[prefix + "scale"] = rl.tensor(module.scale)
    destination[prefix + "zero_point"] = rl.tensor(module.zero_point)


def load_parameters(module, state_dict, prefix):
    """Reads the scale and the zero point of a module's results."""
    module.scale = float(state_dict.pop(prefix + "scale"))
    module.zero_point = int(state_dict.pop(prefix + "zero_point"))


def inner_of(mod):
    """The layer that a container of fused modules begins with, or the layer itself."""
    return mod._modules.get("0", mod)
