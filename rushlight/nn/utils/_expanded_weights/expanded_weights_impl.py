"""``ExpandedWeight``: a weight whose gradient is kept for each sample of a batch.

A function of layers that meets one is called through an autograd function: forward it is
the function on the weights themselves, backward it puts the gradient of each sample into
their ``grad_sample``. Programs add functions with ``implements_per_sample_grads``.
"""

import inspect

import rushlight as rl
from rushlight.nn import functional as F

__all__ = ["HANDLED_FUNCTIONS", "ExpandedWeight", "implements_per_sample_grads"]

HANDLED_FUNCTIONS = {}


def implements_per_sample_grads(torch_function):
    """Names the autograd function that a function of layers is called through.

    It is applied to the keywords' names, the function, its arguments and the keywords'
    values.
    """

    def decorator(autograd_func):
        HANDLED_FUNCTIONS[torch_function] = autograd_func
        return autograd_func

    return decorator


class ExpandedWeight(rl.Tensor):
    """A weight that the functions of layers keep each sample's gradient of.

    Args:
        orig_weight: the parameter; its ``grad_sample`` receives the gradients.
        batch_size: samples in a batch.
        loss_reduction: ``"sum"`` or ``"mean"``, how the loss joins the samples.

    Raises:
        RuntimeError: the parameter is no tensor, or requires no gradient.

    >>> weight = rl.nn.Parameter(rl.ones(2, 3))
    >>> rl.nn.functional.linear(rl.ones(4, 3), ExpandedWeight(weight, 4, "sum")).shape
    rushlight.Size([4, 2])
    """

    handled_functions = HANDLED_FUNCTIONS

    def __new__(cls, orig_weight, batch_size, loss_reduction):
        if not isinstance(orig_weight, rl.Tensor):
            raise RuntimeError(
                "Can only make Expanded Weights of Tensors, got "
                f"{type(orig_weight).__name__}"
            )
        if not orig_weight.requires_grad:
            raise RuntimeError(
                "Can only build ExpandedWeights objects of tensors that requires_grad"
            )
        return rl.Tensor._make_subclass(cls, orig_weight.detach(), True)

    def __init__(self, orig_weight, batch_size, loss_reduction):
        self.orig_weight = orig_weight
        self.batch_size = batch_size
        self.loss_reduction = loss_reduction

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in cls.handled_functions:
            given = (*args, *kwargs.values())
            return cls.handled_functions[func].apply(tuple(kwargs), func, *given)
        name = getattr(func, "__name__", str(func))
        raise RuntimeError(
            f"Expanded Weights encountered but cannot handle function {name}"
        )

    # what layers ask of a weight before they call
    dtype = property(lambda self: self.orig_weight.dtype)
    data = property(lambda self: self.orig_weight.data)
    shape = property(lambda self: self.orig_weight.shape)
    device = property(lambda self: self.orig_weight.device)
    is_cuda = property(lambda self: self.orig_weight.is_cuda)

    def data_ptr(self):
        """The address of the weight's first element."""
        return self.orig_weight.data_ptr()

    def get_device(self):
        """The number of the weight's device."""
        return self.orig_weight.get_device()


class _PerSample(rl.autograd.Function):
    """A function of layers; subclasses know the gradients of its weights."""

    @classmethod
    def least(cls, func, options):
        """The dimensions that an input with a batch has at least."""
        return 1

    @classmethod
    def gradients(cls, func, input, options, grad):
        """Each sample's gradient of every weight, by the weight's name.

        Raises:
            NotImplementedError: the subclass has none.
        """
        raise NotImplementedError(f"{cls.__name__} has no gradients of single samples")

    @classmethod
    def forward(cls, ctx, names, func, *given):
        n_plain = len(given) - len(names)
        keywords = dict(zip(names, given[n_plain:], strict=True))
        options = _named(func, given[:n_plain], keywords)
        input = options.pop("input")
        _check_batch(func, input, given, cls.least(func, options))
        ctx.func, ctx.options, ctx.input, ctx.count = func, options, input, len(given)
        ctx.place = n_plain + names.index("input") if "input" in names else 0
        plain = {
            name: one.orig_weight if isinstance(one, ExpandedWeight) else one
            for name, one in options.items()
        }
        result = func(input, **plain)
        ctx.plain = _without_statistics(plain)
        return result

    @classmethod
    def backward(cls, ctx, grad_output):
        results = [None] * (2 + ctx.count)
        if ctx.input.requires_grad:

            def call(x):
                return ctx.func(x, **ctx.plain)

            results[2 + ctx.place] = rl.func.vjp(call, ctx.input)[1](grad_output)[0]
        input = ctx.input.detach()
        found = cls.gradients(ctx.func, input, ctx.plain, grad_output)
        for name, one in ctx.options.items():
            if isinstance(one, ExpandedWeight):
                _add_samples(one, found[name])
            elif isinstance(one, rl.Tensor) and one.requires_grad:
                raise RuntimeError(
                    "ExpandedWeights currently does not support a mixture of "
                    "ExpandedWeight parameters and normal Parameters"
                )
        return tuple(results)


_NAMES_OF_BUILTINS = {
    F.linear: ("input", "weight", "bias"),
    **dict.fromkeys(
        (F.conv1d, F.conv2d, F.conv3d),
        ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    ),
}


def _named(func, args, kwargs):
    """The arguments of a call by their names."""
    names = _NAMES_OF_BUILTINS.get(func) or tuple(inspect.signature(func).parameters)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _without_statistics(options):
    """Arguments of a call that may be made again: it counts no batch twice."""
    if options.get("use_input_stats"):
        return {**options, "running_mean": None, "running_var": None}
    return options


def _check_batch(func, input, given, least):
    """Raises RuntimeError where an input is not the batch that the weights expect."""
    name = func.__name__
    if isinstance(input, ExpandedWeight):
        raise RuntimeError(
            "Expanded Weights do not support inputs that are also ExpandedWeights. "
            f"Input must be a Tensor, got {type(input).__name__} in function {name}"
        )
    if not isinstance(input, rl.Tensor):
        raise RuntimeError(
            "Expanded Weights requires a Tensor as the first input to get the batch "
            f"dimension, got {type(input).__name__} in function {name}"
        )
    if input.dim() < least:
        raise RuntimeError(
            "Input does not have a batch dimension. Expanded Weights expected input of "
            f"at least rank {least}, got of rank {input.dim()} in function {name}"
        )
    if input.shape[0] == 0:
        raise RuntimeError(
            "0 is not a valid batch size for Expanded Weights but got input tensor of "
            f"{input} in function {name}"
        )
    weights = [one for one in given if isinstance(one, ExpandedWeight)]
    for one in weights:
        if one.batch_size != input.shape[0]:
            raise RuntimeError(
                "Expected ExpandedWeights to have batch size matching input but got "
                f"input batch size of {input.shape[0]} with ExpandedWeight of batch "
                f"size {one.batch_size}"
            )
        if one.loss_reduction != weights[0].loss_reduction:
            raise RuntimeError(
                "Expected ExpandedWeights to all have the same loss_reduction argument "
                f"but got one with {weights[0].loss_reduction} and one with "
                f"{one.loss_reduction}"
            )


def _add_samples(weight, gradient):
    """Adds each sample's gradient to those that a parameter has."""
    if weight.loss_reduction == "mean":
        gradient = gradient * weight.batch_size
    kept = weight.orig_weight
    before = getattr(kept, "grad_sample", None)
    kept.grad_sample = gradient if before is None else before + gradient


@implements_per_sample_grads(F.linear)
class _Linear(_PerSample):
    @classmethod
    def least(cls, func, options):
        return 2

    @classmethod
    def gradients(cls, func, input, options, grad):
        rows = grad.flatten(1, -2) if grad.dim() > 2 else grad.unsqueeze(1)
        columns = input.flatten(1, -2) if input.dim() > 2 else input.unsqueeze(1)
        return {"weight": rows.transpose(1, 2) @ columns, "bias": rows.sum(1)}


class _Convolution(_PerSample):
    @classmethod
    def least(cls, func, options):
        return {F.conv1d: 3, F.conv2d: 4, F.conv3d: 5}[func]

    @classmethod
    def gradients(cls, func, input, options, grad):
        weight = options["weight"].detach()
        rest = {**options, "bias": None}
        del rest["weight"]

        def of_one(sample, its_grad):
            def call(given):
                return func(sample.unsqueeze(0), given, **rest)

            return rl.func.vjp(call, weight)[1](its_grad.unsqueeze(0))[0]

        return {
            "weight": rl.func.vmap(of_one)(input, grad),
            "bias": grad.flatten(2).sum(2),
        }


for _func in (F.conv1d, F.conv2d, F.conv3d):
    implements_per_sample_grads(_func)(_Convolution)


class _Normalization(_PerSample):
    """Layers that scale and shift what they normalized."""

    @classmethod
    def gradients(cls, func, input, options, grad):
        normal = func(input, **{**options, "weight": None, "bias": None})
        return {
            "weight": cls.joined(normal * grad, options),
            "bias": cls.joined(grad, options),
        }

    @classmethod
    def joined(cls, each, options):
        """The sum over what one channel's weight is shared by."""
        return each.flatten(2).sum(2) if each.dim() > 2 else each


for _func in (F.group_norm, F.instance_norm):
    implements_per_sample_grads(_func)(_Normalization)


@implements_per_sample_grads(F.layer_norm)
class _LayerNorm(_Normalization):
    @classmethod
    def least(cls, func, options):
        return len(options["normalized_shape"]) + 1

    @classmethod
    def joined(cls, each, options):
        count = each.dim() - len(options["normalized_shape"])
        return each.flatten(1, count - 1).sum(1) if count > 1 else each


@implements_per_sample_grads(F.embedding)
class _Embedding(_PerSample):
    @classmethod
    def least(cls, func, options):
        return 2

    @classmethod
    def gradients(cls, func, input, options, grad):
        weight = options["weight"]
        rows = grad.reshape(len(input), -1, weight.shape[1])
        positions = input.reshape(len(input), -1)
        padding = options.get("padding_idx")
        if padding is not None:
            padding = padding % weight.shape[0]
            rows = rows.masked_fill((positions == padding).unsqueeze(2), 0)
        if options.get("scale_grad_by_freq"):
            same = positions.unsqueeze(2) == positions.unsqueeze(1)
            rows = rows / same.sum(2, keepdim=True)
        result = rows.new_zeros(len(input), *weight.shape)
        index = positions.unsqueeze(2).expand(rows.shape)
        return {"weight": result.scatter_add_(1, index, rows)}
