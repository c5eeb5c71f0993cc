"""Keeping gradients short."""

import warnings

import rushlight as rl
from rushlight.core.tensor import Tensor

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


def _listed(parameters):
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def _norm(tensor, norm_type):
    return tensor.detach().norm(norm_type)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors, as if they were one vector.

    Args:
        tensors: a tensor, or several.
        norm_type: the order of the norm.
        error_if_nonfinite: whether a norm that is infinite or NaN is an error.
        foreach: whether all are computed at once; None decides.

    Raises:
        RuntimeError: with ``error_if_nonfinite``, the norm is infinite or NaN.

    >>> get_total_norm([rl.tensor([3.0]), rl.tensor([4.0])])
    tensor(5.)
    """
    tensors = _listed(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return rl.tensor(0.0)
    with rl.no_grad():
        norms = rl.stack([_norm(each, norm_type) for each in tensors])
        total = _norm(norms, norm_type)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is "
            "non-finite, so it cannot be clipped. To disable this error and scale the "
            "gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scale gradients in place by ``max_norm / total_norm`` where that is below 1.

    Args:
        parameters: a tensor, or several, whose gradients are changed.
        max_norm: the largest norm.
        total_norm: the norm that they have.
        foreach: whether all are computed at once; None decides.

    >>> x = rl.nn.Parameter(rl.zeros(2))
    >>> x.grad = rl.tensor([3.0, 4.0])
    >>> clip_grads_with_norm_([x], 1.0, rl.tensor(5.0))
    >>> x.grad
    tensor([0.6000, 0.8000])
    """
    grads = [each.grad for each in _listed(parameters) if each.grad is not None]
    if not grads:
        return
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    with rl.no_grad():
        for grad in grads:
            grad.mul_(factor)


def clip_grad_norm_(
    parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None
):
    """Scale all gradients in place so that their joint norm is at most ``max_norm``.

    Args:
        parameters: a tensor or an iterable of them.
        max_norm: the largest norm allowed.
        norm_type: 2 for Euclidean, ``inf`` for the largest element.
        error_if_nonfinite: whether to raise where the norm is infinite or NaN.

    Returns:
        The norm before scaling.

    >>> x = rl.nn.Parameter(rl.zeros(2))
    >>> x.grad = rl.tensor([3.0, 4.0])
    >>> clip_grad_norm_([x], 1.0)
    tensor(5.)
    >>> x.grad
    tensor([0.6000, 0.8000])
    """
    if not isinstance(parameters, Tensor):
        # An iterator must survive being read twice.
        exhausted = iter(parameters) is parameters
        parameters = list(parameters)
        if exhausted and not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.",
                stacklevel=2,
            )
    parameters = _listed(parameters)
    grads = [each.grad for each in parameters if each.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None
):
    """The older name of ``clip_grad_norm_``.

    Args:
        parameters: a tensor, or several, whose gradients are changed.
        max_norm: the largest norm.
        norm_type: the order of the norm.
        error_if_nonfinite: whether a norm that is infinite or NaN is an error.
        foreach: whether all are computed at once; None decides.

    >>> import pytest
    >>> x = rl.nn.Parameter(rl.ones(1))
    >>> x.grad = rl.tensor([3.0])
    >>> with pytest.warns(FutureWarning):
    ...     clip_grad_norm([x], 1.0)
    tensor(3.)
    """
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Keep every gradient's elements between ``-clip_value`` and ``clip_value``.

    Args:
        parameters: a tensor, or several, whose gradients are changed.
        clip_value: the largest absolute value.
        foreach: whether all are computed at once; None decides.

    >>> x = rl.nn.Parameter(rl.zeros(2))
    >>> x.grad = rl.tensor([3.0, -0.5])
    >>> clip_grad_value_([x], 1.0)
    >>> x.grad
    tensor([ 1.0000, -0.5000])
    """
    clip_value = float(clip_value)
    with rl.no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.clamp_(min=-clip_value, max=clip_value)
