"""Matrices of which two elements of four are zero (2:4), as PyTorch's class holds them.

PyTorch's are on CUDA devices, and have products by CUTLASS and cuSPARSELt there. Its host
packs and unpacks, and so does this one: dense tensors are refused in its words, packed ones
become tensors of the class, which are detached, cloned, transposed, looked into and made
dense again, and whose products are refused.
"""

import warnings
from collections import namedtuple

import rushlight as rl
from rushlight.dispatch.disabled import _disabled_torch_function_impl
from rushlight.sparse._semi_structured_conversions import (
    sparse_semi_structured_from_dense_cutlass,
    sparse_semi_structured_to_dense_cutlass,
)

__all__ = [
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS",
    "to_sparse_semi_structured",
]

_SEMI_STRUCTURED_SPARSE_CONFIG = namedtuple(
    "_SEMI_STRUCTURED_SPARSE_CONFIG",
    "sparse_min_rows sparse_min_cols dense_min_rows dense_min_cols",
)
_PARTS = "packed", "meta", "packed_t", "meta_t", "compressed_swizzled_bitmask"
_PROTOTYPE = (
    "The PyTorch API of SparseSemiStructuredTensor is in prototype stage and will change in "
    "the near future. Please open a Github issue for features requests and see our "
    "documentation on the torch.sparse module for further information about the project."
)


class SparseSemiStructuredTensor(rl.Tensor):
    """A matrix of which two elements of four are zero; what both ways to pack it share.

    Args:
        shape: of the matrix.
        packed, meta: what is left of it, and where it was.
        packed_t, meta_t: the same of the transposed matrix.
        compressed_swizzled_bitmask: which elements are left, for gradients.
        fuse_transpose_cusparselt, alg_id_cusparselt: how cuSPARSELt multiplies.
        requires_grad: whether gradients flow to it.

    Raises:
        ValueError: neither form is given.
    """

    _DEFAULT_ALG_ID = 0
    _FORCE_CUTLASS = False
    _FUSE_TRANSPOSE = False
    _PROTOTYPE_WARNING_SHOWN = False
    SPARSE_DISPATCH = None

    __slots__ = _PARTS
    __torch_function__ = _disabled_torch_function_impl

    @staticmethod
    def __new__(
        cls, shape, packed, meta, packed_t, meta_t, compressed_swizzled_bitmask,
        fuse_transpose_cusparselt=False, alg_id_cusparselt=0, requires_grad=False,
    ):  # fmt: skip
        if not cls._PROTOTYPE_WARNING_SHOWN:
            warnings.warn(_PROTOTYPE, UserWarning, stacklevel=2)
            cls._PROTOTYPE_WARNING_SHOWN = True
        cls._load_dispatch_table()
        held = packed if packed is not None else packed_t
        if held is None:
            raise ValueError("At least one of packed or packed_t must be provided")
        made = rl.Tensor._make_wrapper_subclass(
            cls,
            shape,
            device=held.device,
            dtype=held.dtype,
            layout=held.layout,
            requires_grad=requires_grad,
        )
        given = packed, meta, packed_t, meta_t, compressed_swizzled_bitmask
        for name, part in zip(_PARTS, given, strict=True):
            setattr(made, name, part)
        made.fuse_transpose_cusparselt = fuse_transpose_cusparselt
        made.alg_id_cusparselt = alg_id_cusparselt
        return made

    def __repr__(self):
        return f"{type(self).__name__}(shape={self.shape})"

    def __tensor_flatten__(self):
        rest = self.shape, self.fuse_transpose_cusparselt, self.alg_id_cusparselt
        present = [name for name in _PARTS if getattr(self, name) is not None]
        return present, (*rest, self.requires_grad)

    @classmethod
    def __tensor_unflatten__(cls, inner_tensors, tensor_meta, outer_size, outer_stride):
        shape, *how = tensor_meta
        return cls(shape, *map(inner_tensors.get, _PARTS), *how)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        known = cls.SPARSE_DISPATCH.get(func._overloadpacket)
        if known is None:
            raise NotImplementedError(
                f"{cls.__name__} only supports a specific set of operations, "
                f"can't perform requested op ({str(func).partition('.')[2]})"
            )
        return known(func, types, args, kwargs)

    @classmethod
    def _load_dispatch_table(cls, custom_dispatch_table=None):
        """The functions of this class by operators, to which more may be added."""
        if cls.SPARSE_DISPATCH is None:
            cls.SPARSE_DISPATCH = {
                getattr(rl.ops.aten, name): function
                for name, function in _FUNCTIONS.items()
            }
        cls.SPARSE_DISPATCH.update(custom_dispatch_table or {})

    @classmethod
    def _validate_device_dim_dtype_shape(cls, original_tensor):
        """Refuses what is not packed.

        Raises:
            RuntimeError: its device, dimensions, order of memory, type or sizes.
        """
        x = original_tensor
        if not x.is_cuda:
            raise RuntimeError(
                f"Error original_tensor.device= {x.device} is not supported! Only CUDA "
                "tensors are currently supported."
            )
        if x.dim() != 2:
            raise RuntimeError(
                f"Error original_tensor.dim = {x.dim()} is not supported! Only 2d tensors "
                "are currently supported."
            )
        if not x.is_contiguous():
            raise RuntimeError(
                "Error original_tensor is not contiguous!"
                "Only contiguous tensors are currently supported."
            )
        if x.dtype not in cls._DTYPE_SHAPE_CONSTRAINTS:
            raise RuntimeError(
                f"Error original_tensor.dtype {x.dtype} is not a supported dtype for {cls}!"
            )
        rows, columns = cls._DTYPE_SHAPE_CONSTRAINTS[x.dtype][:2]
        (m, n) = x.shape
        if m < rows or m % rows or n < columns or n % columns:
            raise RuntimeError(
                f"Error original_tensor.shape {x.shape} is not supported! Both dimensions "
                f"must be larger or equal than and a multiple of ({rows}, {columns})"
            )

    def values(self):
        """The elements that are left."""
        return _values(None, (), (self,))

    def indices(self):
        """Where they were, packed."""
        return _indices(None, (), (self,))

    def to_dense(self):
        """The matrix, by a product with the unit matrix."""
        return rl.mm(self, rl.eye(self.shape[-1], dtype=self.dtype, device=self.device))

    @classmethod
    def from_dense(cls, original_tensor, alg_id=_DEFAULT_ALG_ID):
        """Packs a matrix; a subclass says how."""
        raise NotImplementedError

    def _mm(self, B, *, bias=None, **kwargs):
        raise NotImplementedError


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """A matrix whose elements and their places are packed apart, as CUTLASS takes them.

    Args:
        shape, packed, meta, packed_t, meta_t, compressed_swizzled_bitmask,
            fuse_transpose_cusparselt, alg_id_cusparselt, requires_grad: as for
            `SparseSemiStructuredTensor`.
    """

    BACKEND = "cutlass"
    _DTYPE_SHAPE_CONSTRAINTS = {
        rl.int8: _SEMI_STRUCTURED_SPARSE_CONFIG(16, 128, 16, 16),
        rl.float16: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 64, 8, 8),
        rl.bfloat16: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 64, 8, 8),
        rl.float32: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 32, 4, 4),
    }

    @classmethod
    def from_dense(cls, original_tensor, alg_id=0):
        """Packs a matrix of a CUDA device.

        Raises:
            RuntimeError: it is another, or not as it has to be.
        """
        cls._validate_device_dim_dtype_shape(original_tensor)
        packed, meta = sparse_semi_structured_from_dense_cutlass(original_tensor)
        given = original_tensor.shape, packed, meta, None, None, None
        return cls(*given, requires_grad=original_tensor.requires_grad)

    def to_dense(self):
        """The matrix."""
        if self.meta is None or self.packed is None:
            raise AssertionError("meta and packed must not be None")
        if self.meta.ndim != 2:
            return super().to_dense()
        return sparse_semi_structured_to_dense_cutlass(self.packed, self.meta)

    @classmethod
    def prune_dense_static_sort(cls, original_tensor, algorithm=""):
        """Packs what is left of a matrix by tiles, on CUDA devices.

        Raises:
            NotImplementedError: on others.
        """
        raise _lacking("_sparse_semi_structured_tile", original_tensor)

    def _mm(self, B, *, bias=None, should_transpose_dense=False, **kwargs):
        _check_product(self, B)
        if self.packed is None or self.meta is None:
            raise NotImplementedError(
                f"`{type(self).__name__}` matmul: operation is not supported"
            )
        raise _lacking(
            f"_sparse_semi_structured_{'mm' if bias is None else 'addmm'}", B
        )


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """A matrix whose elements and their places are one tensor, as cuSPARSELt takes it.

    Args:
        shape, packed, meta, packed_t, meta_t, compressed_swizzled_bitmask,
            fuse_transpose_cusparselt, alg_id_cusparselt, requires_grad: as for
            `SparseSemiStructuredTensor`.
    """

    BACKEND = "cusparselt"
    _DTYPE_SHAPE_CONSTRAINTS = {
        rl.float8_e4m3fn: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 32, 16, 16),
        rl.int8: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 32, 16, 16),
        rl.float16: _SEMI_STRUCTURED_SPARSE_CONFIG(16, 16, 8, 8),
        rl.bfloat16: _SEMI_STRUCTURED_SPARSE_CONFIG(16, 16, 8, 8),
    }

    @classmethod
    def from_dense(cls, original_tensor, alg_id=0):
        """Packs a matrix of a CUDA device by cuSPARSELt, which is not there.

        Raises:
            RuntimeError: always.
        """
        cls._validate_device_dim_dtype_shape(original_tensor)
        raise RuntimeError(
            "cuSPARSELt not supported on your machine.\n"
            "  remedy: set SparseSemiStructuredTensor._FORCE_CUTLASS"
        )

    prune_dense_static_sort = SparseSemiStructuredTensorCUTLASS.prune_dense_static_sort

    def _mm(self, B, *, bias=None, should_transpose_dense=False, **kwargs):
        _check_product(self, B)
        raise _lacking("_cslt_sparse_mm", B)


def _check_product(sparse, other):
    if isinstance(other, SparseSemiStructuredTensor):
        raise ValueError(
            "`SparseSemiStructuredTensor @ SparseSemiStructuredTensor` is not supported by "
            "the hardware"
        )
    if sparse.ndim != 2 or other.ndim != 2:
        raise NotImplementedError(
            f"`{type(sparse).__name__}` matmul: Broadcasting is not implemented"
        )


def _lacking(name, operand):
    """The error where a device has no kernel for an operator."""
    key = operand.device.type.upper()
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{key}' backend.\n"
        "  remedy: multiply by to_dense()"
    )


def to_sparse_semi_structured(original_tensor, transposed=False, alg_id=0):
    """Packs a matrix of which two elements of four are zero.

    Args:
        original_tensor: of a CUDA device.
        transposed: of no use any more.
        alg_id: of cuSPARSELt's product.

    Raises:
        RuntimeError: it is on another device, or not as it has to be.

    >>> try:
    ...     to_sparse_semi_structured(rl.zeros(32, 64))
    ... except RuntimeError as error:
    ...     print(str(error)[:58])
    Error original_tensor.device= cpu is not supported! Only C
    """
    if transposed:
        warnings.warn(
            "Setting transpose from `to_sparse_semi_structured` is deprecated and will be "
            "removed in a future release. `SparseSemiStructuredTensor` only support "
            "contiguous input tensors.",
            FutureWarning,
            stacklevel=2,
        )
    forced = SparseSemiStructuredTensor._FORCE_CUTLASS
    kind = SparseSemiStructuredTensorCUSPARSELT
    kind = SparseSemiStructuredTensorCUTLASS if forced else kind
    return kind.from_dense(original_tensor, alg_id=alg_id)


# ---- what the operators do


def _made(sparse, parts, shape=None, requires_grad=False):
    how = sparse.fuse_transpose_cusparselt, sparse.alg_id_cusparselt, requires_grad
    return type(sparse)(sparse.shape if shape is None else shape, *parts, *how)


def _parts(sparse):
    return [getattr(sparse, name) for name in _PARTS]


def _values(func, types, args, kwargs=None):
    (sparse,) = args
    if sparse.packed is None:
        raise AssertionError("A.packed must not be None")
    if sparse.meta is not None:
        return sparse.packed.detach()
    m, k = sparse.shape
    return sparse.packed.ravel()[: m * k // 2].view(m, -1)


def _indices(func, types, args, kwargs=None):
    (sparse,) = args
    if sparse.packed is None:
        raise AssertionError("A.packed must not be None")
    if sparse.meta is not None:
        return sparse.meta
    m, k = sparse.shape
    return sparse.packed.ravel()[m * k // 2 :].view(m, -1).view(rl.int16)


def _transposed(func, types, args, kwargs=None):
    (sparse,) = args
    packed, meta, packed_t, meta_t, mask = _parts(sparse)
    mask = None if mask is None else mask.transpose(0, 1)
    shape = rl.Size(reversed(sparse.shape))
    return _made(sparse, [packed_t, meta_t, packed, meta, mask], shape)


def _view(func, types, args, kwargs=None):
    sparse, shape = args
    if tuple(shape) != tuple(sparse.shape):
        raise NotImplementedError(
            "`view` is not implemented for SparseSemiStructuredTensor, except for the "
            f"dummy case (shape={shape})"
        )
    return sparse


def _detach(func, types, args, kwargs=None):
    return _made(args[0], _parts(args[0]))


def _clone(func, types, args, kwargs=None):
    parts = [None if each is None else each.clone() for each in _parts(args[0])]
    return _made(args[0], parts, requires_grad=args[0].requires_grad)


def _product(func, types, args, kwargs=None):
    a, b = args
    if a.ndim != 2 or b.ndim != 2:
        raise NotImplementedError(
            "`SparseSemiStructuredTensor` matmul: Broadcasting is not implemented"
        )
    if isinstance(a, SparseSemiStructuredTensor):
        return a._mm(b)
    return b.t()._mm(a, should_transpose_dense=True)


def _sum(func, types, args, kwargs=None):
    bias, a, b = args
    if bias.ndim != 1:
        raise NotImplementedError(
            "`SparseSemiStructuredTensor` matmul: only bias dim=1 supported. "
            f"Shape={bias.shape}"
        )
    if isinstance(a, SparseSemiStructuredTensor):
        raise NotImplementedError(
            "`SparseSemiStructuredTensor` matmul: only operand B of `addmm` can be sparse"
        )
    return b.t()._mm(a, bias=bias, should_transpose_dense=True)


def _linear(func, types, args, kwargs=None):
    x, weight, bias = (*args, None)[:3]
    rows = x.reshape(-1, x.shape[-1])
    out = weight._mm(rows, bias=bias, should_transpose_dense=True)
    return out.view(*x.shape[:-1], -1)


def _same_size(func, types, args, kwargs=None):
    return tuple(args[0].shape) == tuple(args[1].shape)


def _copied(func, types, args, kwargs=None):
    device = (kwargs or {}).get("device")
    if device is not None and rl.device(device).type == "cpu":
        return func(args[0].to_dense(), **kwargs)
    raise NotImplementedError(
        f"`_to_copy()` with kwargs={kwargs or {}} is not implemented for "
        "SparseSemiStructuredTensor. Only converting to CPU is supported currently."
    )


_FUNCTIONS = {
    "values": _values, "indices": _indices, "is_same_size": _same_size,
    "detach": _detach, "t": _transposed, "view": _view, "mm": _product,
    "matmul": _product, "addmm": _sum, "linear": _linear, "_to_copy": _copied,
    "clone": _clone,
}  # fmt: skip
