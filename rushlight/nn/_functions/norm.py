"""Normalisations: checks, and those that are made of others."""

import rushlight as rl
from rushlight.operators import call


def _samples(sizes: list[int]) -> int:
    """How many values a channel of such an input has in one sample."""
    count = 1
    for size in sizes[2:]:
        count *= size
    return count


def _require_many_values(size: list[int]) -> None:
    """Refuse statistics over one value for each channel."""
    if size[0] * _samples(size) == 1:
        raise ValueError(
            "Expected more than 1 value per channel when training, got input size "
            f"{size}"
        )


def batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
):
    """Normalise each channel over the batch, or by running statistics.

    Args:
        input: ``(N, C, *)``.
        running_mean, running_var: ``(C,)`` each; updated in training.
        weight, bias: ``(C,)`` each: scale and shift of the result.
        training: use the batch's own statistics.
        momentum: share of the new statistics in the running ones.
        eps: added to the variance.

    Raises:
        ValueError: one value for each channel in training, or a bad ``eps``.

    >>> batch_norm(rl.tensor([[1.0, 10.0], [3.0, 30.0]]), None, None, training=True)
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    """
    if training:
        _require_many_values(input.shape)
        if (running_mean is None) != (running_var is None):
            raise ValueError(
                "running_mean and running_var must either both be None or neither be "
                "None"
            )
        if eps <= 0.0:
            raise ValueError(
                f"batch_norm eps must be positive during training, but got {eps}"
            )
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return call.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
    )


def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
):
    """Normalise each channel of each sample on its own.

    Args:
        input: a batch of shape ``(N, C, ...)``.
        running_mean: the mean over the batches so far, ``(C,)``, or None.
        running_var: the variance over the batches so far, ``(C,)``, or None.
        weight: what each normalized channel is multiplied by, or None.
        bias: what is added to each, or None.
        use_input_stats: whether the statistics of this input are used, not the
            running ones.
        momentum: how much the new batch counts in the running statistics.
        eps: what is added to the variance.

    >>> instance_norm(rl.tensor([[[1.0, 3.0], [2.0, 6.0]]]))
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """
    if use_input_stats and _samples(input.shape) == 1:
        raise ValueError(
            "Expected more than 1 spatial element when training, got input size "
            f"{input.shape}"
        )
    if use_input_stats and (running_mean is None) != (running_var is None):
        raise ValueError(
            "running_mean and running_var must either both be None or neither be None"
        )
    return call.instance_norm(
        input,
        weight,
        bias,
        running_mean,
        running_var,
        use_input_stats,
        momentum,
        eps,
        False,
    )


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalise over the last dimensions, whose sizes are ``normalized_shape``.

    Args:
        input: samples of shape ``(..., *normalized_shape)``.
        normalized_shape: the sizes of the last dimensions, which are normalized
            together.
        weight: what each element of a sample is multiplied by, or None.
        bias: what is added to each, or None.
        eps: what is added to the variance.

    >>> layer_norm(rl.tensor([[1.0, 2.0, 3.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    return call.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divide by the root of the mean square over the last dimensions.

    Args:
        input: samples of shape ``(..., *normalized_shape)``.
        normalized_shape: the sizes of the last dimensions, which are normalized
            together.
        weight: what each element of a sample is multiplied by, or None.
        eps: what is added to the mean square; None takes the eps of the dtype.

    >>> rms_norm(rl.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    return call.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalise each sample over groups of its channels.

    Args:
        input: a batch of shape ``(N, C, ...)``.
        num_groups: into how many groups the channels are divided.
        weight: what each normalized channel is multiplied by, or None.
        bias: what is added to each, or None.
        eps: what is added to the variance.

    >>> group_norm(rl.tensor([[[1.0], [3.0], [2.0], [6.0]]]), 2).flatten()
    tensor([-1.0000,  1.0000, -1.0000,  1.0000])
    """
    if input.dim() < 2:
        raise RuntimeError(
            "Expected at least 2 dimensions for input tensor but received "
            f"{input.dim()}"
        )
    size = input.shape
    groups = [size[0] * size[1] // num_groups, num_groups]
    _require_many_values(groups + list(size[2:]))
    return call.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divide by the activity of neighbouring channels.

    Args:
        input: a batch of shape ``(N, C, ...)``.
        size: over how many neighbouring channels squares are averaged.
        alpha: the factor of the mean square.
        beta: the power of the divisor.
        k: what is added before the power.

    >>> local_response_norm(rl.ones(1, 2, 1), 2, alpha=1.0).flatten()
    tensor([0.7378, 0.5946])
    """
    ndim = input.dim()
    if ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {ndim} dimensions)"
        )
    if input.numel() == 0:
        return input
    squares = input.mul(input)
    sides = [size // 2, (size - 1) // 2]
    if ndim == 3:
        squares = rl.nn.functional.pad(squares.unsqueeze(1), [0, 0] + sides)
        means = call.avg_pool2d(squares, (size, 1), (1, 1)).squeeze(1)
    else:
        samples, channels, rows = input.shape[:3]
        squares = squares.view(samples, 1, channels, rows, -1)
        squares = rl.nn.functional.pad(squares, [0, 0, 0, 0] + sides)
        means = call.avg_pool3d(squares, (size, 1, 1), (1, 1, 1)).squeeze(1)
        means = means.view(input.shape)
    return input / means.mul(alpha).add(k).pow(beta)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Divide by the ``p``-norm along a dimension, at least ``eps``.

    Args:
        input: the vectors.
        p: the order of the norm.
        dim: the dimension along which vectors lie.
        eps: the smallest norm that is divided by.
        out: where the result is written, or None.

    >>> normalize(rl.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    length = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    if out is None:
        return input / length
    return rl.div(input, length, out=out)
