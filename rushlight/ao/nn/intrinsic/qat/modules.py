"""Convolutions with the batch norm behind them folded into the weight that is rounded.

In training the weight is scaled by the running statistics and rounded, the convolution is
scaled back, and the norm takes it: what is rounded is what inference will use.
"""

import functools
import math

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import _aliases
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.nn.qat import modules as qat
from rushlight.nn import functional as F

_SETTINGS = "stride padding dilation groups bias padding_mode".split()


class _WithNorm:
    """What layers with a folded norm share.

    Attributes:
        freeze_bn: whether the norm's statistics stay as they are.
    """

    def begin(self, channels, eps, momentum, freeze_bn, qconfig):
        """Adds the norm and what rounds the weight."""
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = self._NORM(channels, eps, momentum, True, True)
        nn.init.uniform_(self.bn.weight)  # as PyTorch draws: they are replaced
        qat.configured(self, qconfig)
        if self.training:
            self.freeze_bn_stats() if freeze_bn else self.update_bn_stats()
        else:
            self.freeze_bn_stats()

    def reset_running_stats(self):
        """Forgets the norm's statistics."""
        self.bn.reset_running_stats()

    def update_bn_stats(self):
        """Lets the norm's statistics follow values."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self):
        """Keeps the norm's statistics."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def train(self, mode=True):
        """Sets the mode; frozen statistics stay frozen."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    def _normalized(self, apply, across):
        """The norm of a layer whose scaled weight is rounded.

        Args:
            apply: the layer, of a weight and a bias.
            across: the sizes by which values of channels meet results.
        """
        factor = self.bn.weight / rl.sqrt(self.bn.running_var + self.bn.eps)
        shape = [-1] + [1] * (self.weight.ndim - 1)
        weight = self.weight_fake_quant(self.weight * factor.reshape(shape))
        found = apply(weight, None) / factor.reshape(across)
        if self.bias is not None:
            found = found + self.bias.reshape(across)
        return self.bn(found)

    def extra_repr(self):
        """As the layer without a norm."""
        return super().extra_repr()


class _ConvBn(_WithNorm):
    """What convolutions with a folded norm share.

    Args:
        in_channels, out_channels, kernel_size, settings, kwargs: as for convolutions.
        eps, momentum: of the norm.
        freeze_bn: whether its statistics stay as they are.
        qconfig: makes what rounds.
    """

    def __init__(
        self, in_channels, out_channels, kernel_size, *settings, eps=1e-05, momentum=0.1,
        freeze_bn=False, qconfig=None, **kwargs,
    ):  # fmt: skip
        bias = kwargs.pop("bias", len(settings) > 4 and settings[4])
        sizes = in_channels, out_channels, kernel_size
        given = dict(zip(_SETTINGS, settings)) | kwargs | {"bias": False}
        self._CONV.__init__(self, *sizes, **given)
        self.begin(out_channels, eps, momentum, freeze_bn, qconfig)
        if bias:
            bound = 1 / math.sqrt(self.weight[0].numel())
            self.bias = nn.Parameter(rl.empty(out_channels).uniform_(-bound, bound))

    def _normed(self, input):
        across = [1, -1] + [1] * (self.weight.ndim - 2)
        return self._normalized(
            lambda weight, bias: self._conv_forward(input, weight, bias), across
        )

    def forward(self, input):
        """The normalized convolution."""
        found = self._normed(input)
        return F.relu(found) if self._RELU else found

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A layer made of a convolution and a norm; parameters are shared."""
        qconfig = qat.checked(cls, mod, (cls._FLOAT_MODULE,))
        conv, bn = mod[0], mod[1]
        settings = qat.settings_of(conv)
        found = cls(*settings, eps=bn.eps, momentum=bn.momentum, qconfig=qconfig)
        found.weight, found.bias = conv.weight, conv.bias
        found.bn.weight, found.bn.bias = bn.weight, bn.bias
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            setattr(found.bn, name, getattr(bn, name))
        return found

    def to_float(self):
        """A convolution with the norm folded in, and what is behind it."""
        conv = self._CONV(*qat.settings_of(self)[:7], True, self.padding_mode)
        weight, bias = fused_weight(self)
        conv.weight, conv.bias = nn.Parameter(weight), nn.Parameter(bias)
        return self._RELU(conv, nn.ReLU()) if self._RELU else conv


def fused_weight(mod):
    """The weight and the bias of a layer with its norm folded in."""
    bn = mod.bn
    given = mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps
    fuse = nn.utils.fusion.fuse_conv_bn_weights
    if isinstance(mod, LinearBn1d):
        fuse = nn.utils.fusion.fuse_linear_bn_weights
    weight, bias = fuse(*given, bn.weight, bn.bias)
    return weight.detach(), bias.detach()


def _conv_bn(count, relu):
    conv, norm = getattr(nn, f"Conv{count}d"), getattr(nn, f"BatchNorm{count}d")
    word = "ReLU" if relu else ""
    name = f"ConvBn{word}{count}d"
    kinds = (_ConvBn, conv, nni._FusedModule)
    return type(
        name,
        kinds,
        {
            "_CONV": conv,
            "_NORM": norm,
            "_RELU": getattr(nni, f"ConvReLU{count}d") if relu else None,
            "_FLOAT_MODULE": getattr(nni, name),
            "__doc__": f"A convolution over {count} dimensions with a folded norm.",
            "__module__": __name__,
        },
    )


ConvBn1d, ConvBn2d, ConvBn3d = (_conv_bn(count, False) for count in (1, 2, 3))
ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d = (
    _conv_bn(count, True) for count in (1, 2, 3)
)


class _WithReLU:
    """A layer whose results below zero become zero."""

    def forward(self, input):
        """The layer's results, and zero for those below it."""
        return F.relu(super().forward(input))

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A layer made of one that is not rounded; parameters are shared."""
        return super().from_float(mod, use_precomputed_fake_quant)

    def to_float(self):
        """The layer without rounding, and what is behind it."""
        return self._FUSED(super().to_float(), nn.ReLU())


class ConvReLU1d(_WithReLU, qat.Conv1d, nni._FusedModule):
    """A convolution whose weight is rounded, and what is below zero becomes zero."""

    _FUSED = nni.ConvReLU1d


class ConvReLU2d(_WithReLU, qat.Conv2d, nni._FusedModule):
    """A convolution whose weight is rounded, and what is below zero becomes zero."""

    _FUSED = nni.ConvReLU2d


class ConvReLU3d(_WithReLU, qat.Conv3d, nni._FusedModule):
    """A convolution whose weight is rounded, and what is below zero becomes zero."""

    _FUSED = nni.ConvReLU3d


class LinearReLU(_WithReLU, qat.Linear, nni._FusedModule):
    """A linear layer whose weight is rounded, and what is below zero becomes zero."""

    _FUSED = nni.LinearReLU


class LinearBn1d(_WithNorm, nn.Linear, nni._FusedModule):
    """A linear layer with a folded norm, whose weight is rounded.

    Args:
        in_features, out_features, bias: as for `nn.Linear`.
        eps, momentum: of the norm.
        freeze_bn: whether its statistics stay as they are.
        qconfig: makes what rounds.
    """

    _NORM, _FLOAT_MODULE = nn.BatchNorm1d, nni.LinearBn1d

    def __init__(
        self, in_features, out_features, bias=True, eps=1e-05, momentum=0.1,
        freeze_bn=False, qconfig=None,
    ):  # fmt: skip
        nn.Linear.__init__(self, in_features, out_features, bias)
        self.begin(out_features, eps, momentum, freeze_bn, qconfig)

    def forward(self, input):
        """The normalized product."""
        return self._normalized(
            lambda weight, bias: F.linear(input, weight, bias), [1, -1]
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A layer made of a linear layer and a norm; parameters are shared."""
        qconfig = qat.checked(cls, mod, (nni.LinearBn1d,))
        linear, bn = mod[0], mod[1]
        sizes = linear.in_features, linear.out_features, linear.bias is not None
        found = cls(*sizes, bn.eps, bn.momentum, False, qconfig)
        found.weight, found.bias, found.bn = linear.weight, linear.bias, bn
        return found

    def to_float(self):
        """A linear layer with the norm folded in."""
        found = nn.Linear(self.in_features, self.out_features)
        weight, bias = fused_weight(self)
        found.weight, found.bias = nn.Parameter(weight), nn.Parameter(bias)
        return found


def update_bn_stats(mod):
    """Lets statistics of folded norms follow values: for ``Module.apply``."""
    if isinstance(mod, _WithNorm):
        mod.update_bn_stats()


def freeze_bn_stats(mod):
    """Keeps statistics of folded norms: for ``Module.apply``."""
    if isinstance(mod, _WithNorm):
        mod.freeze_bn_stats()


__getattr__ = functools.partial(_aliases.child, __name__)
