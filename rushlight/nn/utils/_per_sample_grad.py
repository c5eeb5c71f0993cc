"""Gradients of a module's parameters for each sample of a batch."""

import functools

import rushlight as rl
from rushlight.nn import Module
from rushlight.nn.utils._expanded_weights import ExpandedWeight
from rushlight.utils import _pytree as pytree

__all__ = ["call_for_per_sample_grads"]


def call_for_per_sample_grads(
    module, *, batch_size=None, loss_reduction="sum", batch_first=True
):
    """A module's call, after which ``backward`` fills ``grad_sample`` of its parameters.

    ``parameter.grad_sample[i]`` is the gradient of what the loss takes from sample ``i``,
    of shape ``(batch_size, *parameter.shape)``; ``parameter.grad`` stays as it is.

    Args:
        module: its layers may be linear, convolutions, embeddings and normalizations.
        batch_size: samples in a batch; by default those of the arguments.
        loss_reduction: ``"sum"`` or ``"mean"``, how the loss joins the samples.
        batch_first: whether the arguments' first dimension is counted, or their second.

    Raises:
        RuntimeError: an argument is not as said, or a parameter has gradients of samples.

    >>> layer = rl.nn.Linear(2, 1)
    >>> call_for_per_sample_grads(layer)(rl.ones(3, 2)).sum().backward()
    >>> layer.weight.grad_sample.shape
    rushlight.Size([3, 1, 2])
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(
            f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}"
        )
    if not isinstance(module, Module):
        raise RuntimeError(
            f"Module passed must be nn.Module, got {type(module).__name__}"
        )
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(
            "Batch size passed must be None or an integer, got "
            f"{type(batch_size).__name__}"
        )
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for parameter in module.parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be "
                "incorrect for multiple calls without clearing gradients. Please clear "
                f"out the grad_sample parameter of {parameter} or post an issue to "
                "pytorch/pytorch to prioritize correct behavior"
            )

    @functools.wraps(module.forward)
    def call(*args, **kwargs):
        size = batch_size
        if size is None:
            size = _batch_size(args, kwargs, 0 if batch_first else 1)
        weights = {
            name: ExpandedWeight(one, size, loss_reduction)
            if one.requires_grad
            else one
            for name, one in module.named_parameters()
        }
        return rl.func.functional_call(module, weights, args, kwargs)

    return call


def _batch_size(args, kwargs, along):
    """The size that all tensors of a call have along a dimension.

    Raises:
        RuntimeError: there is no tensor, or their sizes differ.
    """
    sizes = []
    for one in (*pytree.tree_leaves(args), *pytree.tree_leaves(kwargs)):
        if isinstance(one, rl.Tensor):
            sizes.append(one.shape[along])
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be "
            "pytree-able and so ExpandedWeights cannot determine the batch size from "
            "the inputs. Please pass batch_size explicitly"
        )
    for size in sizes:
        if size != sizes[0]:
            raise RuntimeError(
                "When computing batch_size, found at least one input with batch size "
                f"{sizes[0]} and one with batch size {size}. Please specify it "
                "explicitly using the batch size kwarg in call_for_per_sample_grads"
            )
    return sizes[0]
