"""Batch normalisation."""

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import (
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """What the normalisations with running statistics keep.

    Args:
        num_features: the number of channels.
        eps: what is added to the variance.
        momentum: how much a new batch counts in the running statistics; None for
            plain means.
        affine: whether there are a weight and a bias for each channel.
        track_running_stats: whether running statistics are kept, and used in
            evaluation.
        device: where the parameters lie.
        dtype: their data type.
        bias: whether there is a bias beside the weight.
    """

    # State of version 1 lacks num_batches_tracked.
    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        if affine:
            self.weight = Parameter(rl.empty(num_features, **options))
            if bias:
                self.bias = Parameter(rl.empty(num_features, **options))
        if track_running_stats:
            self.register_buffer("running_mean", rl.zeros(num_features, **options))
            self.register_buffer("running_var", rl.ones(num_features, **options))
            count = rl.tensor(0, dtype=rl.int64, device=device)
        else:
            self.register_buffer("running_mean", None)
            self.register_buffer("running_var", None)
            count = None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self):
        """Forget the statistics of the batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Forget the statistics, and set scale and shift to one and zero."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError(f"{type(self).__name__} must define _check_input_dim")

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest, **named):
        version = local_metadata.get("version")
        key = f"{prefix}num_batches_tracked"
        if (
            (version is None or version < 2)
            and self.track_running_stats
            and key not in state_dict
        ):
            known = self.num_batches_tracked
            state_dict[key] = (
                known
                if known is not None and not known.is_meta
                else rl.tensor(0, dtype=rl.int64)
            )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, *rest, **named
        )


class _BatchNorm(_NormBase):
    """Batch normalisation of any number of dimensions."""

    def forward(self, input):
        self._check_input_dim(input)
        training = self.training
        mean, var = self.running_mean, self.running_var
        momentum = 0.0 if self.momentum is None else self.momentum
        if training and self.track_running_stats:
            count = self.num_batches_tracked
            if count is not None:
                count.add_(1)
                if self.momentum is None:  # a plain average over all batches
                    momentum = 1.0 / float(count)
        elif training:
            mean = var = None  # there may be buffers, but they aren't kept up
        return F.batch_norm(
            input,
            mean,
            var,
            self.weight,
            self.bias,
            training or (self.running_mean is None and self.running_var is None),
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of ``(N, C)`` or ``(N, C, L)``; see ``BatchNorm2d``."""

    def _check_input_dim(self, input):
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Normalises each channel of ``(N, C, H, W)`` over the batch, then scales it.

    >>> BatchNorm2d(6)(rl.zeros(2, 6, 4, 4)).shape
    rushlight.Size([2, 6, 4, 4])
    """

    def _check_input_dim(self, input):
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of ``(N, C, D, H, W)``; see ``BatchNorm2d``."""

    def _check_input_dim(self, input):
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class SyncBatchNorm(_BatchNorm):
    """Batch norm whose statistics several processes share; in one process, any batch norm.

    Takes inputs with two dimensions or more. While it trains in a group of processes, mean
    and variance are those of the batches of all, and gradients go to all.

    Args:
        num_features: the size of dimension 1.
        process_group: the processes; all without it.

    >>> import rushlight as rl
    >>> SyncBatchNorm(2)(rl.ones(3, 2, 4)).shape
    rushlight.Size([3, 2, 4])
    """

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        process_group=None,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        options = {"device": device, "dtype": dtype, "bias": bias}
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, **options
        )
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError(
                "SyncBatchNorm number of input channels should be non-zero"
            )

    def forward(self, input):
        """The input, normalized over the batches of all processes."""
        self._check_input_dim(input)
        counts = self.training or self.running_mean is None
        if not counts:
            return super().forward(input)
        from rushlight.distributed import sync_batchnorm

        group = sync_batchnorm.group_of(self.process_group)
        if group is None:
            return super().forward(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / self.num_batches_tracked.item()
        keeps = self.training and self.track_running_stats
        running = (self.running_mean, self.running_var) if keeps else None
        return sync_batchnorm.apply(
            input, self.weight, self.bias, running, (self.eps, momentum), group
        )

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """A module with all its batch norms replaced by such ones; they keep their state.

        Args:
            module: the module, which is changed; a lone batch norm is replaced.
        """
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            made.weight, made.bias = module.weight, module.bias
            made.running_mean, made.running_var = (
                module.running_mean,
                module.running_var,
            )
            made.num_batches_tracked = module.num_batches_tracked
            made.training = module.training
            if hasattr(module, "qconfig"):
                made.qconfig = module.qconfig
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """What the norms share that learn their channels from the first input.

    Args:
        eps: what is added to the variance.
        momentum: how much a new batch counts in the running statistics; None for
            plain means.
        affine: whether there are a weight and a bias for each channel.
        track_running_stats: whether running statistics are kept, and used in
            evaluation.
        device: where the parameters lie.
        dtype: their data type.
        bias: whether there is a bias beside the weight.
    """

    def __init__(
        self,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__(0, eps, momentum, False, False, bias=False)
        options = {"device": device, "dtype": dtype}
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**options)
            if bias:
                self.bias = UninitializedParameter(**options)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = rl.tensor(0, dtype=rl.int64, device=device)

    def reset_parameters(self):
        """Forget the statistics, scale and shift, once they have shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        """Take ``num_features`` from an input's dimension 1."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        tensors = [self.weight, self.bias] if self.affine else []
        if self.track_running_stats:
            tensors += [self.running_mean, self.running_var]
        for each in tensors:
            if each is not None:
                each.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A ``BatchNorm1d`` whose ``num_features`` are the first input's."""

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A ``BatchNorm2d`` whose ``num_features`` are the first input's.

    >>> norm = LazyBatchNorm2d()
    >>> _ = norm(rl.ones(2, 3, 4, 4))
    >>> norm.num_features, type(norm).__name__
    (3, 'BatchNorm2d')
    """

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A ``BatchNorm3d`` whose ``num_features`` are the first input's."""

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim


describe_arguments(globals())
