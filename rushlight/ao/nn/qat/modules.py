"""Layers whose weights are rounded as they train."""

import functools

from rushlight import nn
from rushlight.ao.nn import _aliases
from rushlight.ao.nn.intrinsic import ConvReLU1d, ConvReLU2d, ConvReLU3d, LinearReLU
from rushlight.nn import functional as F


def configured(module, qconfig):
    """Gives a layer what rounds its weight.

    Raises:
        AssertionError: there is no configuration.
    """
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")
    module.qconfig = qconfig
    module.weight_fake_quant = qconfig.weight()


def checked(cls, mod, kinds):
    """The configuration of a module that a class is made of.

    Raises:
        AssertionError: it is of another kind, or has none.
    """
    if type(mod) not in kinds:
        raise AssertionError(
            f"qat.{cls.__name__}.from_float only works for "
            f"{', '.join(kind.__name__ for kind in kinds)}"
        )
    if not getattr(mod, "qconfig", None):
        raise AssertionError("Input float module must have a valid qconfig")
    return mod.qconfig


class Linear(nn.Linear):
    """A linear layer whose weight is rounded.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        qconfig: makes what rounds.
    """

    _FLOAT_MODULE = nn.Linear

    def __init__(
        self,
        in_features,
        out_features,
        bias=True,
        qconfig=None,
        device=None,
        dtype=None,
    ):
        super().__init__(in_features, out_features, bias, device, dtype)
        configured(self, qconfig)

    def forward(self, input):
        """The product with the rounded weight."""
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A layer made of one that is not rounded; parameters are shared."""
        kinds = nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear, LinearReLU
        qconfig = checked(cls, mod, kinds)
        mod = mod[0] if type(mod) is LinearReLU else mod
        found = cls(
            mod.in_features,
            mod.out_features,
            bias=mod.bias is not None,
            qconfig=qconfig,
        )
        found.weight, found.bias = mod.weight, mod.bias
        return found

    def to_float(self):
        """The layer without rounding."""
        found = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        found.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            found.bias = nn.Parameter(self.bias.detach())
        found.train(self.training)
        return found


class _Conv:
    """What convolutions whose weights are rounded share.

    Args:
        args, kwargs: as for convolutions.
        qconfig: makes what rounds.
    """

    def __init__(self, *args, qconfig=None, **kwargs):
        self._FLOAT_MODULE.__init__(self, *args, **kwargs)
        configured(self, qconfig)

    def forward(self, input):
        """The convolution with the rounded weight."""
        weight = self.weight_fake_quant(self.weight)
        return self._conv_forward(input, weight, self.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A layer made of one that is not rounded; parameters are shared."""
        qconfig = checked(cls, mod, (cls._FLOAT_MODULE, cls._WITH_RELU))
        mod = mod[0] if type(mod) is cls._WITH_RELU else mod
        found = cls(*settings_of(mod), qconfig=qconfig)
        found.weight, found.bias = mod.weight, mod.bias
        return found

    def to_float(self):
        """The layer without rounding."""
        found = self._FLOAT_MODULE(*settings_of(self))
        found.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            found.bias = nn.Parameter(self.bias.detach())
        return found


def settings_of(conv):
    """Sizes and settings that a convolution like another one is made of."""
    return (
        conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding,
        conv.dilation, conv.groups, conv.bias is not None, conv.padding_mode,
    )  # fmt: skip


class Conv1d(_Conv, nn.Conv1d):
    """A convolution whose weight is rounded."""

    _FLOAT_MODULE, _WITH_RELU = nn.Conv1d, ConvReLU1d


class Conv2d(_Conv, nn.Conv2d):
    """A convolution whose weight is rounded."""

    _FLOAT_MODULE, _WITH_RELU = nn.Conv2d, ConvReLU2d


class Conv3d(_Conv, nn.Conv3d):
    """A convolution whose weight is rounded."""

    _FLOAT_MODULE, _WITH_RELU = nn.Conv3d, ConvReLU3d


class Embedding(nn.Embedding):
    """A table whose rows are rounded.

    Args:
        args, kwargs: as for `nn.Embedding`.
        qconfig: makes what rounds.
    """

    _FLOAT_MODULE = nn.Embedding

    def __init__(self, *args, qconfig=None, **kwargs):
        super().__init__(*args, **kwargs)
        configured(self, qconfig)

    def forward(self, input):
        """The rounded rows of some indices."""
        return F.embedding(
            input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm,
            self.norm_type, self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A table made of one that is not rounded; the weight is shared."""
        qconfig = checked(cls, mod, (cls._FLOAT_MODULE,))
        found = cls(
            mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm,
            mod.norm_type, mod.scale_grad_by_freq, mod.sparse, mod.weight,
            qconfig=qconfig,
        )  # fmt: skip
        return found

    def to_float(self):
        """The table without rounding."""
        return nn.Embedding(
            self.num_embeddings, self.embedding_dim, self.padding_idx, self.max_norm,
            self.norm_type, self.scale_grad_by_freq, self.sparse, self.weight.detach(),
        )  # fmt: skip


class EmbeddingBag(nn.EmbeddingBag):
    """A table of bags whose rows are rounded.

    Args:
        args, kwargs: as for `nn.EmbeddingBag`.
        qconfig: makes what rounds.
    """

    _FLOAT_MODULE = nn.EmbeddingBag

    def __init__(self, *args, qconfig=None, **kwargs):
        super().__init__(*args, **kwargs)
        configured(self, qconfig)

    def forward(self, input, offsets=None, per_sample_weights=None):
        """Sums, means or maxima of the rounded rows of bags."""
        return F.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm,
            self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A table made of one that is not rounded; the weight is shared."""
        qconfig = checked(cls, mod, (cls._FLOAT_MODULE,))
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.mode, mod.sparse, mod.weight,
            mod.include_last_offset, mod.padding_idx, qconfig=qconfig,
        )  # fmt: skip


__getattr__ = functools.partial(_aliases.child, __name__)
