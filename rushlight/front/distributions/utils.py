"""Helpers of the distributions: broadcasting, probabilities and their logits, triangles."""

from functools import update_wrapper
from numbers import Number

import rushlight as rl
from rushlight.nn import functional as F

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def is_tensor_like(value):
    """Whether a value is a tensor, or stands for one."""
    return isinstance(value, rl.Tensor) or hasattr(type(value), "__torch_function__")


def of_base(name, meaning):
    """A property that is the base law's, as those of a transformed one often are."""
    return property(lambda self: getattr(self.base_dist, name), doc=meaning)


def the_one_matrix(fault, **matrices):
    """The name and the value of the only matrix that is given, of those that may be.

    Args:
        fault: the type of the error where none is, or several are.
    """
    given = [(name, m) for name, m in matrices.items() if m is not None]
    if len(given) != 1:
        raise fault(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may "
            "be specified."
        )
    return given[0]


def broadcast_all(*values):
    """Tensors of one shape from tensors and numbers.

    Numbers take the dtype and device of the first tensor; without one, the defaults.

    Raises:
        ValueError: a value is neither.

    >>> [x.shape for x in broadcast_all(1.0, rl.zeros(2))]
    [rushlight.Size([2]), rushlight.Size([2])]
    """
    if not all(is_tensor_like(v) or isinstance(v, Number) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            "implementing __torch_function__.\n  "
            + ", ".join(type(v).__name__ for v in values)
        )
    like = next((v for v in values if isinstance(v, rl.Tensor)), None)
    options = {"dtype": rl.get_default_dtype()}
    if like is not None:
        options = {"dtype": like.dtype, "device": like.device}
    tensors = [v if is_tensor_like(v) else rl.tensor(v, **options) for v in values]
    return rl.broadcast_tensors(*tensors)


def same_options(tensor):
    """What a new tensor needs to be like another: dtype and device."""
    return {"dtype": tensor.dtype, "device": tensor.device}


def _standard_normal(shape, dtype, device):
    return rl.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value, dim):
    """Sums over the last ``dim`` dimensions."""
    if dim == 0:
        return value
    return value.reshape(*value.shape[:-dim], -1).sum(-1)


def check_one_of(probs, logits):
    """Refuses a law that is given both ways, or neither.

    Raises:
        ValueError: not exactly one of the two is given.
    """
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


def logits_to_probs(logits, is_binary=False):
    """Probabilities: the sigmoid of logits, or softmax over the last dimension."""
    return rl.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Probabilities kept away from 0 and 1 by the dtype's precision."""
    eps = rl.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """Logits, or logarithms, of probabilities that are clamped first."""
    clamped = clamp_probs(probs)
    if is_binary:
        return rl.log(clamped) - rl.log1p(-clamped)
    return rl.log(clamped)


class lazy_property:
    """An attribute that is computed when it is first asked for, with gradients."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        update_wrapper(self, wrapped)

    def __get__(self, instance, owner=None):
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with rl.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What a class shows for a lazy attribute: a property, for those who look for one."""

    def __init__(self, wrapped):
        property.__init__(self, wrapped)


class BinaryParameter:
    """Probability of success as ``probs`` or ``logits``, the other made when needed."""

    def _take_parameter(self, probs, logits, *others):
        """Keeps the one that is given, broadcast with others; returns those."""
        check_one_of(probs, logits)
        name, given = ("probs", probs) if logits is None else ("logits", logits)
        *others, self._param = broadcast_all(*others, given)
        setattr(self, name, self._param)
        return others

    @lazy_property
    def logits(self):
        """The log-odds of success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._param.size()

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)


class CategoricalParameter:
    """Parameters of a law that is made from a `Categorical` in ``_categorical``."""

    @property
    def probs(self):
        """The probabilities of the categories."""
        return self._categorical.probs

    @property
    def logits(self):
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def _param(self):
        return self._categorical._param

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._categorical.param_shape

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)


def _triangle(size, diag, device):
    """Where a square matrix is at or below a diagonal."""
    positions = rl.arange(size, device=device)
    return positions < positions.view(-1, 1) + (diag + 1)


def tril_matrix_to_vec(mat, diag=0):
    """The lower triangle, row by row.

    Args:
        mat: tensor of shape ``(*, D, D)``.
        diag: the highest diagonal that is taken.

    Raises:
        ValueError: there is no such diagonal.

    >>> tril_matrix_to_vec(rl.tensor([[1, 2], [3, 4]]))
    tensor([1, 3, 4])
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    return mat[..., _triangle(size, diag, mat.device)]


def vec_to_tril_matrix(vec, diag=0):
    """A square matrix from its lower triangle: the inverse of `tril_matrix_to_vec`.

    Args:
        vec: tensor of shape ``(*, N)``.
        diag: the highest diagonal that is filled.

    Raises:
        ValueError: no square matrix has so long a triangle.
    """
    count, shift = vec.shape[-1], 1 + 2 * diag
    # The D for which rows of length diag + 1, ..., diag + D sum to the count.
    root = (shift**2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5
    exact = (root - shift) / 2
    size = round(exact)
    if size - exact > rl.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the "
            "lower triangular part of a square D x D matrix."
        )
    mat = vec.new_zeros(vec.shape[:-1] + (size, size))
    mat[..., _triangle(size, diag, vec.device)] = vec
    return mat
