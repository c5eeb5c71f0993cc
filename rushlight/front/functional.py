"""Functions whose arguments a plain operator signature can't describe."""

from rushlight.core import naming
from rushlight.core.tensor import Tensor, install
from rushlight.dispatch.overridable import method, open_functions, open_plain
from rushlight.operators import call
from rushlight.operators.functions import broadcast_shapes as broadcast_shapes

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "einsum", "lu", "meshgrid", "nonzero", "norm",
    "split", "tensordot", "unique", "unique_consecutive",
]  # fmt: skip


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _listed(tensors):
    """The tensors of ``f(a, b)``, ``f([a, b])`` or ``f((a, b))``."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return list(tensors[0])
    return list(tensors)


def broadcast_tensors(*tensors):
    """Views of the tensors, expanded to their common shape.

    Args:
        tensors: of sizes that go together.

    >>> broadcast_tensors(rl.tensor([1, 2]), rl.tensor([[3], [4]]))
    (tensor([[1, 2],
            [1, 2]]), tensor([[3, 3],
            [4, 4]]))
    """
    return tuple(call.broadcast_tensors(_listed(tensors)))


def block_diag(*tensors):
    """A matrix with the given ones along its diagonal.

    Args:
        tensors: of two dimensions at most.

    >>> block_diag(rl.tensor([[1, 2]]), rl.tensor([[3]]))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    return call.block_diag(_listed(tensors))


def chain_matmul(*matrices, out=None):
    """The product of the matrices, in the cheapest order.

    Args:
        matrices: two or more, each with as many rows as the one before has columns.
        out: a tensor to write the result into.

    >>> torch.chain_matmul(torch.ones(1, 2), torch.ones(2, 3), torch.ones(3, 1))
    tensor([[6.]])
    """
    return call.chain_matmul(_listed(matrices), out=out)


def meshgrid(*tensors, indexing=None):
    """Coordinate grids: each vector along a dimension of its own.

    Args:
        tensors: of one dimension at most.
        indexing: ``"ij"``; ``"xy"`` exchanges the first two dimensions.

    >>> meshgrid(rl.tensor([1, 2]), rl.tensor([3, 4, 5]), indexing='ij')
    (tensor([[1, 1, 1],
            [2, 2, 2]]), tensor([[3, 4, 5],
            [3, 4, 5]]))
    """
    if indexing is None:
        return tuple(call.meshgrid(_listed(tensors)))
    return tuple(call.meshgrid(_listed(tensors), indexing=indexing))


def cartesian_prod(*tensors):
    """All combinations of one element of each vector, a row for each.

    Args:
        tensors: of one dimension each.

    >>> cartesian_prod(rl.tensor([1, 2]), rl.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    tensors = _listed(tensors)
    for place, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                "cartesian_prod(): argument 'tensors' must be tuple of Tensors, but "
                f"found element of type {type(tensor).__name__} at pos {place}"
            )
        if tensor.ndim != 1:
            raise RuntimeError(
                f"Expect a 1D vector, but got shape {list(tensor.shape)}"
            )
    return call.cartesian_prod(tensors)


def _atleast(operator, tensors):
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return operator(tensors[0])
    listed = _listed(tensors)
    for place, tensor in enumerate(listed):
        if isinstance(tensor, (list, tuple)):
            raise TypeError(
                f"expected Tensor as element {place} in argument 0, but got "
                f"{type(tensor).__name__}"
            )
    return tuple(operator(tensor) for tensor in listed)


def atleast_1d(*tensors):
    """Views with at least one dimension.

    Args:
        tensors: one, several, or a list of them.

    >>> atleast_1d(rl.tensor(1.0))
    tensor([1.])
    """
    return _atleast(call.atleast_1d, tensors)


def atleast_2d(*tensors):
    """Views with at least two dimensions.

    Args:
        tensors: one, several, or a list of them.

    >>> atleast_2d(rl.tensor([1, 2]))
    tensor([[1, 2]])
    """
    return _atleast(call.atleast_2d, tensors)


def atleast_3d(*tensors):
    """Views with at least three dimensions.

    Args:
        tensors: one, several, or a list of them.

    >>> atleast_3d(rl.tensor([1, 2])).shape
    rushlight.Size([1, 2, 1])
    """
    return _atleast(call.atleast_3d, tensors)


def split(tensor, split_size_or_sections, dim=0):
    """Views of parts along a dimension: of one size, or of given sizes.

    Args:
        tensor: the tensor.
        split_size_or_sections: the size of each part, or a list of sizes.
        dim: the dimension.

    >>> split(rl.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if isinstance(split_size_or_sections, Tensor) and (
        split_size_or_sections.numel() == 1
    ):
        split_size_or_sections = int(split_size_or_sections)
    if isinstance(split_size_or_sections, (list, tuple)):
        return call.split_with_sizes(tensor, split_size_or_sections, dim)
    return call.split(tensor, split_size_or_sections, dim)


def _split_method(self, split_size, dim=0):
    """Views of parts along a dimension: of one size, or of given sizes."""
    return split(self, split_size, dim)


def nonzero(input, *, out=None, as_tuple=False):
    """Positions of the elements that are not zero.

    Args:
        out: a tensor to write the matrix of positions into.
        as_tuple: return a vector for each dimension, not one row for each element.

    >>> nonzero(rl.tensor([0, 1, 2]), as_tuple=True)
    (tensor([1, 2]),)
    """
    if not isinstance(as_tuple, bool):
        raise TypeError(
            "nonzero(): argument 'as_tuple' must be bool, not "
            f"{type(as_tuple).__name__}"
        )
    if as_tuple:
        if out is not None:
            if not isinstance(out, Tensor):
                raise TypeError(
                    "nonzero(): argument 'out' must be Tensor, not "
                    f"{type(out).__name__}"
                )
            raise RuntimeError(
                "nonzero does not support the out kwarg when as_tuple is True"
            )
        return tuple(call.nonzero_numpy(input))
    return call.nonzero(input) if out is None else call.nonzero(input, out=out)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The vector norm of the elements along dimensions.

    Args:
        p: the order; ``"fro"`` is 2, ``"nuc"`` the sum of singular values.

    Raises:
        RuntimeError: there is no norm of that name or order.

    >>> norm(rl.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if dim is not None and not isinstance(dim, (list, tuple)):
        dim = [dim]  # an integer of any kind, or refused as an element
    options = {} if out is None else {"out": out}
    many = dim is not None and len(dim) > 2
    if isinstance(p, str) and (p != "fro" or many):  # a matrix's, which has two
        dims = list(range(input.ndim)) if dim is None else dim
        return call.linalg_matrix_norm(input, p, dims, keepdim, dtype=dtype, **options)
    order = 2 if p in ("fro", None) else p
    return call.linalg_vector_norm(input, order, dim, keepdim, dtype=dtype, **options)


def lu(A, pivot=True, get_infos=False, out=None):
    """LU factors and pivots; the older form of ``linalg.lu_factor``.

    Args:
        get_infos: return also which matrices are singular.
        out: tensors to write the results into.
        A: matrices of shape (..., n, m).
        pivot: whether rows are exchanged.

    Raises:
        TypeError: ``out`` holds something else than the results need.

    >>> import warnings
    >>> warnings.simplefilter("ignore")
    >>> factors, pivots = torch.lu(torch.tensor([[0.0, 1.0], [2.0, 3.0]]))
    >>> factors
    tensor([[2., 3.],
            [0., 1.]])
    """
    found = call._lu_with_info(A, pivot=pivot, check_errors=not get_infos)
    if not get_infos:
        found = tuple(found)[:2]
    if out is None:
        return found
    if not isinstance(out, (tuple, list)):
        raise TypeError(
            f"argument 'out' must be tuple of Tensors, not {type(out).__name__}"
        )
    if len(out) != len(found):
        raise TypeError(f"expected tuple of {len(found)} elements but got {len(out)}")
    for target, result in zip(out, found):
        target.resize_as_(result).copy_(result)
    return out


def _lu_method(self, pivot=True, get_infos=False):
    """LU factors and pivots; the older form of ``linalg.lu_factor``."""
    return lu(self, pivot, get_infos)


def tensordot(a, b, dims=2, out=None):
    """Sums of products over pairs of dimensions.

    Args:
        dims: how many last dimensions of ``a`` meet the first of ``b``, or two lists.

    Raises:
        RuntimeError: ``dims`` is neither, or its number is negative or too large.

    >>> tensordot(rl.ones(2, 3), rl.ones(3, 2), dims=1)
    tensor([[3., 3.],
            [3., 3.]])
    """
    if isinstance(dims, Tensor):
        dims = int(dims.item()) if dims.numel() == 1 else dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(
                "tensordot expects dims < ndim_a or ndim_b, but got dims="
                f"{dims} with {a.ndim} and {b.ndim} dimensions"
            )
        left, right = list(range(-dims, 0)), list(range(dims))
    elif isinstance(dims, (tuple, list)):
        left, right = dims
    else:
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or "
            f"list[list[int]] containing two lists, but got dims={dims}"
        )
    if out is None:
        return call.tensordot(a, b, left, right)
    return call.tensordot(a, b, left, right, out=out)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, in order.

    Args:
        return_inverse: also where each element went.
        return_counts: also how often each occurs.
        dim: compare slices along this dimension, not elements.

    >>> unique(rl.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    if dim is None:
        found = call._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = call.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _asked_for(found, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements without repetitions next to each other.

    Args:
        input: the tensor.
        return_inverse: also return where each element is among the different ones.
        return_counts: also return how often each occurs.
        dim: the dimension whose slices are compared; None takes all elements.

    >>> unique_consecutive(rl.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    found = call.unique_consecutive(input, return_inverse, return_counts, dim)
    return _asked_for(found, return_inverse, return_counts)


def _asked_for(found, return_inverse, return_counts):
    values, inverse, counts = found
    asked = [values]
    if return_inverse:
        asked.append(inverse)
    if return_counts:
        asked.append(counts)
    return asked[0] if len(asked) == 1 else tuple(asked)


_COMPUTE_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """Distances between all pairs of rows of two matrices.

    Args:
        p: the order of the distance.
        compute_mode: how PyTorch may compute the distances; here they are all direct.

    Raises:
        RuntimeError: the rows differ in length, or ``p`` is negative.
        ValueError: there is no such mode.

    >>> cdist(rl.tensor([[0.0, 0.0]]), rl.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    known = isinstance(compute_mode, str) and compute_mode in _COMPUTE_MODES
    if not known:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return call.cdist(x1, x2, p, _COMPUTE_MODES[compute_mode])


def einsum(*args):
    """Sums of products, by Einstein's convention.

    Args:
        args: subscripts such as ``"bij,bjk->bik"``, where ``...`` stands for the rest,
            and the tensors, one by one or as one list; or tensors and lists of
            dimensions by turns.

    More than two operands are multiplied in the order that the opt_einsum package
    chooses, where it is installed (``backends.opt_einsum``), else from the left.

    Raises:
        RuntimeError: the equation doesn't fit the operands.
        ValueError: there are no operands.
        TypeError: an argument is no equation or no tensor.
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at "
            "least one operand and its subscripts list"
        )
    if len(args) == 2 and isinstance(args[1], (list, tuple)):
        return einsum(args[0], *args[1])  # types are asked about the tensors one by one
    equation, operands = args[0], args[1:]
    if isinstance(equation, Tensor):
        equation, operands = _from_sublists(*args)
    elif not isinstance(equation, str):
        raise TypeError(
            "einsum(): argument 'equation' (position 1) must be str, not "
            f"{type(equation).__name__}"
        )
    operands = _listed(operands)
    for place, operand in enumerate(operands):
        if not isinstance(operand, Tensor):
            raise TypeError(
                f"expected Tensor as element {place} in argument 1, but got "
                f"{type(operand).__name__}"
            )
    if len(operands) <= 2:
        return call.einsum(equation, operands)
    from rushlight.backends import opt_einsum  # looks for a package: only where asked

    return call.einsum(equation, operands, path=opt_einsum.path_of(equation, operands))


def _from_sublists(first, *rest):
    """The equation of ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    items = [first, *rest]
    output = items.pop() if len(items) % 2 else None
    letters = _LETTERS

    def letter(item):
        if item is ...:
            return "..."
        if isinstance(item, float):
            raise TypeError("'float' object cannot be interpreted as an integer")
        if not 0 <= item < len(letters):
            raise ValueError(
                "einsum(): subscript in subscript list is not within the valid range "
                f"[0, {len(letters)})"
            )
        return letters[item]

    def spelled(sublist):
        return "".join(letter(item) for item in sublist)

    equation = ",".join(spelled(sublist) for sublist in items[1::2])
    if output is not None:
        equation += "->" + spelled(output)
    return equation, items[::2]


def _norm_method(self, p="fro", dim=None, keepdim=False, dtype=None):
    """The vector norm of the elements along dimensions."""
    return norm(self, p, dim, keepdim, dtype=dtype)


install("nonzero", method("nonzero", nonzero))
for _method in (unique, unique_consecutive):
    install(_method.__name__, method(_method.__name__, _method, spelled=True))
install("split", method("split", _split_method, spelled=True))
install("norm", method("norm", _norm_method, spelled=True))
install("lu", method("lu", _lu_method, spelled=True))
open_plain(globals(), ("nonzero",), naming.package)
open_functions(globals(), ("chain_matmul",), naming.package, hidden=("out",))
open_functions(globals(), __all__, naming.package, flat=("einsum",))
istft, stft = call.istft, call.stft
