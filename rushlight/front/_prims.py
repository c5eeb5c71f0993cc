"""``ops.prims``: operators that PyTorch's own decompositions end in, for graphs that have them.

They are defined when the namespace is first asked for; decompositions here end in ``aten``.
"""

from rushlight.dispatch.library import Library

__all__ = ["convert_element_type"]


def convert_element_type(a, dtype):
    """A tensor's elements in another type.

    Args:
        a: the tensor.
        dtype: the type.

    >>> import rushlight as rl
    >>> rl.ops.prims.convert_element_type(rl.ones(2), rl.int8)
    tensor([1, 1], dtype=rushlight.int8)
    """
    return a.to(dtype)


_library = Library("prims", "FRAGMENT")
_library.impl(
    _library.define("convert_element_type(Tensor a, ScalarType dtype) -> Tensor"),
    convert_element_type,
    "CompositeImplicitAutograd",
)
