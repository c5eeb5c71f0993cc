"""Small helpers of the operator families: dimensions, shapes, undefined gradients."""

import math
from threading import get_ident

from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.layout import contiguous_format
from rushlight.core.state import included_keys, is_grad_enabled
from rushlight.core.subclass import dispatched
from rushlight.core.switches import switch
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn
from rushlight.dispatch import deferred, python_key
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.keys import DispatchKey
from rushlight.operators import call as ops
from rushlight.operators.shape.formats import format_of, laid_out

conjugated = deferred.conj


def not_implemented(name, words=None):
    """Refuses a backward pass that has no formula.

    Args:
        name: the operator.
        words: what PyTorch calls the derivative, where it declares that there is none.

    Raises:
        NotImplementedError: there are such words.
        RuntimeError: there are none.
    """
    if words is not None:
        raise NotImplementedError(f"the derivative for '{words}' is not implemented.")
    raise RuntimeError(f"derivative for aten::{name} is not implemented")


def refuse_gradient(operator, **tensors):
    """Refuses tensors that PyTorch has no gradient for.

    Raises:
        RuntimeError: one of them requires a gradient.
    """
    for name, tensor in tensors.items():
        wants = tensor is not None and tensor.requires_grad
        if wants and is_grad_enabled():
            raise RuntimeError(
                f"The function '{operator}' is not differentiable with respect to "
                f"argument '{name}'. This input cannot have requires_grad True."
            )


def written(name, tensor, *args):
    """What writing into a tensor gives that the caller has just made.

    Where a batch is written into what is the same for all examples, the result is a
    tensor of its own.

    Args:
        name: the operator, without its underscore.
        tensor: what is written into.
        args: the operator's other arguments.
    """
    batched = any(isinstance(arg, Tensor) and arg._stand is not None for arg in args)
    return getattr(ops, name if batched else f"{name}_")(tensor, *args)


def carries_tangent(tensor):
    """Whether a tensor, or what it is a view of, has a tangent of a `dual_level`."""
    for one in (tensor, tensor._base):
        if one is not None and one._tangent is not None and one._tangent.carries:
            return True
    return False


def differentiated(tensor):
    """Whether somebody differentiates by a tensor, backwards or forwards.

    Levels of transformations may stand around it: each is asked.
    """
    recording = is_grad_enabled()
    while True:
        if recording and tensor.requires_grad:
            return True
        if carries_tangent(tensor):
            return True
        stand = tensor._stand
        if stand is None:
            return False
        if stand.carries:
            return True
        tensor, recording = stand.value, True


def intercepted(tensor):
    """Whether a mode, or the tensor's type, takes the operators that it goes to."""
    return python_key.active() or dispatched(tensor)


def followed():
    """Whether this thread's operators are followed to make a program of them."""
    return (included_keys() >> DispatchKey.Recording) & 1


_recorded: set = set()  # threads that `recorded_ahead` is true of


class record_ahead:
    """A block whose launches are done again elsewhere, with other elements."""

    def __enter__(self):
        _recorded.add(get_ident())

    def __exit__(self, *raised):
        _recorded.discard(get_ident())


def recorded_ahead():
    """Whether what this thread launches is done again elsewhere, with other elements.

    Then no kernel may be chosen by looking at one.
    """
    return bool(_recorded) and get_ident() in _recorded


def readable(tensor):
    """Whether a program may look at numbers: not without memory, not for a whole batch.

    Nor where a mode or a type takes operators: to read a number is one that they see, and
    they may have none.
    """
    if intercepted(tensor):
        return False
    stand = tensor._stand
    return _in_memory(tensor.device) and (stand is None or stand.readable)


def has_elements(tensor):
    """Whether there is anything to compute: elements, and memory that they lie in."""
    return tensor.numel() > 0 and _in_memory(tensor.device)


_in_memory = KernelTable(cpu=lambda _: True, meta=lambda _: False)


def _refuse(device, message):
    raise RuntimeError(message.format(device=device))


# Refuses the device of an argument that has to be on the host; ``{device}`` of the message
# is replaced.
require_on_host = KernelTable(cpu=lambda *_: None, cuda=_refuse, meta=_refuse)


def wrap_dims(dims, ndim):
    """The dimensions counted from the front, each at most once; None or () is all.

    Raises:
        IndexError: there is no such dimension.
        RuntimeError: a dimension is given twice.

    >>> wrap_dims((0, -1), 3)
    [0, 2]
    """
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return list(range(ndim))
    if isinstance(dims, int):
        dims = (dims,)
    wrapped = [wrap_dim(dim, ndim) for dim in dims]
    for dim in wrapped:
        if wrapped.count(dim) > 1:
            raise RuntimeError(f"dim {dim} appears multiple times in the list of dims")
    return [] if ndim == 0 else wrapped


def count(shape, dims=None):
    """How many elements lie along the dimensions.

    >>> count((2, 3, 4), (0, -1))
    8
    """
    return math.prod(shape[dim] for dim in wrap_dims(dims, len(shape)))


def restore(value, shape, dims, keepdim):
    """A reduction's value expanded over the dimensions that it lost."""
    if not keepdim:
        for dim in sorted(wrap_dims(dims, len(shape))):
            value = value.unsqueeze(dim)
    return value.expand(shape)


def unreduce(value, ndim, dims, keepdim):
    """A reduction's value with the dimensions that it lost, of size one."""
    if not keepdim:
        for dim in sorted(wrap_dims(dims, ndim)):
            value = value.unsqueeze(dim)
    return value


def scaled(grad, factor):
    """``grad`` times the factor's conjugate; no call where that is the number one."""
    if isinstance(factor, (int, float)):
        return grad if factor == 1 else grad * factor
    return grad * conjugated(factor)


def unsqueezed_again(grad, shape, dim):
    """The gradient of a tensor without some dimensions of size one."""
    if not python_key.listening(grad) or len(dim) != 1 or grad.ndim == len(shape):
        return grad.reshape(shape)
    return grad.unsqueeze(dim[0] % len(shape))


def first_gradient(grad, mat2, in_columns):
    """The gradient of a product's first matrix, laid out as the matrix is.

    Args:
        mat2: the second matrix.
        in_columns: whether the first matrix lies column by column.
    """
    if in_columns:
        return ops.mm(conjugated(mat2), grad.t()).t()
    return ops.mm(grad, conjugated(mat2.t()))


def second_gradient(grad, mat1, in_columns):
    """The gradient of a product's second matrix, laid out as the matrix is.

    Args:
        mat1: the first matrix.
        in_columns: whether the second matrix lies column by column.
    """
    if in_columns:
        return ops.mm(grad.t(), conjugated(mat1)).t()
    return ops.mm(conjugated(mat1.t()), grad)


def take_windows(grad, indices, dims):
    """The elements that pooling picked from each plane, ``dims`` dimensions wide."""
    picked = ops.gather(grad.flatten(-dims), -1, indices.flatten(-dims))
    return picked.reshape(indices.shape)


def unpooled_gradient(grad, self, indices, dims):
    """The gradient of unpooled values: what arrives at the places they went to."""
    if indices.numel() == 0 or grad.numel() == 0:
        return ops.zeros_like(self)
    return laid_out(take_windows(grad, indices, dims), format_of(self))


def compact(x):
    """The tensor row by row, with even strides beside a last dimension of pairs."""
    x = x.contiguous()
    if any(step % 2 for step in x.stride()[:-1]):  # of dimensions of size one
        return x.clone(memory_format=contiguous_format)
    return x


def mask_of(needs, count):
    """The bits of ``needs`` as a list of truth values."""
    return [bool(needs >> bit & 1) for bit in range(count)]


def convolution_second_gradients(
    grads, grad_output, input, weight, stride, padding, dilation, transposed,
    output_padding, groups, needs,
):  # fmt: skip
    """Gradients of ``convolution_backward`` for its three tensors.

    Each of its results is linear in ``grad_output`` and in one other tensor, so its
    gradients are convolutions of what arrives with those.
    """
    rest = (stride, padding, dilation, transposed, output_padding, groups)
    d_input, d_weight, d_bias = grads
    to_grad = to_input = to_weight = None
    if needs & 1:
        parts = []
        if d_input is not None:
            parts.append(ops.convolution(d_input, weight, None, *rest))
        if d_weight is not None:
            parts.append(ops.convolution(input, d_weight, None, *rest))
        if d_bias is not None:
            along = [1, -1, *[1] * (grad_output.ndim - 2)]
            parts.append(d_bias.reshape(along).expand(grad_output.shape))
        to_grad = sum(parts[1:], parts[0]) if parts else None
    if needs & 2 and d_weight is not None:
        to_input = ops.convolution_backward(
            grad_output, input, d_weight, None, *rest, [True, False, False]
        )[0]
    if needs & 4 and d_input is not None:
        to_weight = ops.convolution_backward(
            grad_output, d_input, weight, None, *rest, [False, True, False]
        )[1]
    return to_grad, to_input, to_weight


def alert_not_deterministic(name):
    """Says that a kernel is not deterministic, to programs that ask for such.

    Args:
        name: what PyTorch calls the kernel.

    Raises:
        RuntimeError: ``use_deterministic_algorithms(True)`` holds, and not for warnings.
    """
    asked = switch("deterministic")
    if not asked:
        return
    mode = "True, warn_only=True" if asked == 1 else "True"
    start = (
        f"{name} does not have a deterministic implementation, but you set "
        f"'torch.use_deterministic_algorithms({mode})'. "
    )
    issue = (
        "file an issue at https://github.com/pytorch/pytorch/issues to help us "
        "prioritize adding deterministic support for this operation."
    )
    if asked == 1:
        warn(f"{start}You can {issue}")
        return
    raise RuntimeError(
        f"{start}You can turn off determinism just for this operation, or you can use "
        "the 'warn_only=True' option, if that's acceptable for your application. You can "
        f"also {issue}"
    )
