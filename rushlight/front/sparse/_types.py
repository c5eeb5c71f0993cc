"""The old names of sparse tensors: ``sparse.FloatTensor`` and its kind."""

from rushlight._typed_storage import TENSORS, WORDS, tensortype
from rushlight.core.dtype import all_dtypes
from rushlight.core.layout import sparse_coo
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn_once
from rushlight.sparse import factories


class sparsetype(tensortype):
    """The type of ``sparse.FloatTensor`` and its kind."""

    def __call__(cls, *args):
        """A sparse tensor of indices, values and sizes, or an empty one of sizes."""
        sized = len(args) > 2 or not args or not isinstance(args[0], Tensor)
        warn_once(
            f"torch.sparse.SparseTensor(indices, values, {'shape, ' if sized else ''}*, "
            "device=) is deprecated.  Please use torch.sparse_coo_tensor(indices, values, "
            "shape, dtype=, device=)."
        )
        if args and isinstance(args[0], Tensor):
            return factories.sparse_coo_tensor(*args)
        sizes = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        return factories.sparse_coo_tensor(tuple(sizes) or (0,), dtype=cls.dtype)

    def __repr__(cls):
        return f"<class 'torch.sparse.{cls.__name__}'>"


def sparse_types():
    """The old names of sparse tensors of each dtype, by name."""
    return {
        WORDS[name] + "Tensor": sparsetype(
            WORDS[name] + "Tensor",
            (),
            {
                "__doc__": f"Sparse tensors of {name}; called, an old constructor.",
                "__module__": "rushlight.sparse",
                "dtype": all_dtypes()[name],
                "layout": sparse_coo,
                "is_cuda": False,
                "is_sparse": True,
            },
        )
        for name in TENSORS
        if name != "bool"
    }
