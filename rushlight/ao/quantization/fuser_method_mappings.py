"""How modules that follow one another become one."""

import itertools

from rushlight import nn
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.quantization.utils import MatchAllNode, get_combined_dict
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "fuse_conv_bn",
    "fuse_conv_bn_relu",
    "fuse_convtranspose_bn",
    "fuse_linear_bn",
    "get_fuser_method",
    "get_fuser_method_new",
]


def _same_mode(*modules):
    if len({module.training for module in modules}) > 1:
        raise AssertionError(
            "Conv and BN both must be in the same mode (train or eval)."
        )


def _trainable(outputs, bn):
    if bn.num_features != outputs:
        raise AssertionError(
            "Output channel of Conv2d must match num_features of BatchNorm2d"
        )
    if not bn.affine:
        raise AssertionError("Only support fusing BatchNorm2d with affine set to True")
    if not bn.track_running_stats:
        raise AssertionError(
            "Only support fusing BatchNorm2d with tracking_running_stats set to True"
        )


def _dimensions(conv):
    for count in (1, 2, 3):
        if type(conv) is getattr(nn, f"Conv{count}d"):
            return count
    return None


def fuse_conv_bn(is_qat, conv, bn):
    """A convolution and a norm: together for training, else one convolution.

    Args:
        is_qat: whether the model is trained for quantization.
        conv, bn: the modules.

    Raises:
        AssertionError: they do not go together.
    """
    _same_mode(conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    _trainable(conv.out_channels, bn)
    count = _dimensions(conv)
    if count is None:
        raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn)}")
    return getattr(nni, f"ConvBn{count}d")(conv, bn)


def fuse_conv_bn_relu(is_qat, conv, bn, relu):
    """The same, and what is below zero becomes zero.

    Args:
        is_qat: whether the model is trained for quantization.
        conv, bn, relu: the modules.

    Raises:
        AssertionError: they do not go together.
    """
    _same_mode(conv, bn, relu)
    count, word = _dimensions(conv), "train" if is_qat else "eval"
    if count is None:
        raise NotImplementedError(f"Cannot fuse {word} modules: {(conv, bn, relu)}")
    if is_qat:
        _trainable(conv.out_channels, bn)
        return getattr(nni, f"ConvBnReLU{count}d")(conv, bn, relu)
    return getattr(nni, f"ConvReLU{count}d")(fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat, linear, bn):
    """A linear layer and a norm: together for training, else one linear layer.

    Args:
        is_qat: whether the model is trained for quantization.
        linear, bn: the modules.

    Raises:
        AssertionError: they do not go together.
    """
    _same_mode(linear, bn)
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    _trainable(linear.out_features, bn)
    return nni.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat, convt, bn):
    """A transposed convolution and a norm as one convolution.

    Args:
        is_qat: whether the model is trained for quantization.
        convt, bn: the modules.

    Raises:
        Exception: the model is trained.
    """
    _same_mode(convt, bn)
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _sequential_wrapper2(sequential):
    return lambda is_qat, m1, m2: sequential(m1, m2)


def _defaults():
    found = {}
    for count in (1, 2, 3):
        conv, norm = getattr(nn, f"Conv{count}d"), getattr(nn, f"BatchNorm{count}d")
        fused = getattr(nni, f"ConvReLU{count}d")
        found[conv, norm] = fuse_conv_bn
        found[conv, norm, nn.ReLU] = fuse_conv_bn_relu
        found[conv, nn.ReLU] = _sequential_wrapper2(fused)
        found[getattr(nn, f"ConvTranspose{count}d"), norm] = fuse_convtranspose_bn
    found[nn.Linear, nn.BatchNorm1d] = fuse_linear_bn
    found[nn.Linear, nn.ReLU] = _sequential_wrapper2(nni.LinearReLU)
    found[nn.BatchNorm2d, nn.ReLU] = _sequential_wrapper2(nni.BNReLU2d)
    found[nn.BatchNorm3d, nn.ReLU] = _sequential_wrapper2(nni.BNReLU3d)
    return found


_DEFAULT_OP_LIST_TO_FUSER_METHOD = _defaults()


def get_fuser_method(op_list, additional_fuser_method_mapping=None):
    """The function that makes modules of some kinds one.

    Raises:
        AssertionError: there is none.
    """
    known = get_combined_dict(
        _DEFAULT_OP_LIST_TO_FUSER_METHOD, additional_fuser_method_mapping or {}
    )
    if known.get(op_list) is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return known[op_list]


def _get_valid_patterns(op_pattern):
    if isinstance(op_pattern, (tuple, list)):
        return list(itertools.product(*map(_get_valid_patterns, op_pattern)))
    return [op_pattern, MatchAllNode]


def get_fuser_method_new(op_pattern, fuser_method_mapping):
    """The function of the first form of a pattern that a mapping has.

    Raises:
        AssertionError: it has none.
    """
    for form in _get_valid_patterns(op_pattern):
        if fuser_method_mapping.get(form) is not None:
            return fuser_method_mapping[form]
    raise AssertionError(f"did not find fuser method for: {op_pattern} ")
