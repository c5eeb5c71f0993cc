"""Names of types, for annotations."""

import os
from builtins import bool as _bool
from builtins import bytes as _bytes
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import IO, Any, List, Tuple, TypeAlias, Union  # noqa: UP035

from rushlight._typed_storage import TypedStorage
from rushlight.autograd.graph import GradientEdge
from rushlight.core.device import Device as _device
from rushlight.core.dtype import DType as _dtype
from rushlight.core.layout import Layout as _layout
from rushlight.core.layout import Size
from rushlight.core.storage import UntypedStorage
from rushlight.core.tensor import Tensor
from rushlight.dispatch.keys import DispatchKey as _dispatchkey

__all__ = ["Device", "FileLike", "Number", "Storage"]

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = (
    Tensor | Sequence[Tensor] | GradientEdge | Sequence[GradientEdge]
)
_size: TypeAlias = Union[Size, List[int], Tuple[int, ...]]  # noqa: UP006, UP007
_symsize = _size
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
Number: TypeAlias = Union[int, float, bool]  # noqa: UP007
Device: TypeAlias = Union[_device, str, int, None]  # noqa: UP007
FileLike: TypeAlias = Union[str, os.PathLike[str], IO[bytes]]  # noqa: UP007
Storage: TypeAlias = Union[UntypedStorage, TypedStorage]  # noqa: UP007
PySymType: TypeAlias = Any
