"""Rushlight: a deep-learning framework in one language all the way down."""

import gc as _gc
from math import e, inf, nan, pi
from sys import modules as _modules

# Modules of these folders are the package's own: front/linalg.py is rushlight.linalg.
__path__ += [__path__[0] + "/front", __path__[0] + "/torch_compat/mirrors"]

# What is made here stays: looking through it finds nothing to free.
_collecting = _gc.isenabled()
_gc.disable()

# The imports below follow the architecture, from the core upwards.
from rushlight.core.dtype import DType as dtype
from rushlight.core.dtype import finfo, get_default_dtype, iinfo, set_default_dtype
from rushlight.core.dtype import all_dtypes as _all_dtypes
from rushlight.core.device import Device as device
from rushlight.core.layout import (
    Layout as layout,
    MemoryFormat as memory_format,
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from rushlight.core.storage import UntypedStorage
from rushlight.core.tensor import Tensor
from rushlight.core import type_names as _type_names
from rushlight.core.device import get_default_device, set_default_device
from rushlight.io.dlpack import from_dlpack
from rushlight.io.interop import from_numpy
from rushlight.io.printing import set_printoptions
from rushlight.random.generator import Generator, default_generator
from rushlight.core.roles import switches as _switches
from rushlight.runtime.cpu.pool import get_num_threads, set_num_threads

_switches.package = "rushlight.backends"
_type_names.name_alone(Tensor)
for _name in (
    "Generator", "Size", "UntypedStorage", "device", "dtype", "finfo", "iinfo", "layout",
    "memory_format",
):  # fmt: skip
    _type_names.rename_type(globals()[_name], "rushlight", _name)

globals().update(_all_dtypes())

from rushlight import cpu, ops, random
from rushlight._generated import tables as _tables
from rushlight.operators import registry as _registry

_registry.load_tables(_tables)
globals().update(_registry.namespaces[None])

from rushlight import autograd
from rushlight.autograd import record as _record
from rushlight.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight import _storage_methods, _tensor_methods, _typed_storage
from rushlight._storage_methods import tensor_from_file as from_file
from rushlight._typed_storage import TypedStorage, set_default_tensor_type, tensortype
from rushlight.operators.functions import (
    as_tensor,
    asarray,
    broadcast_shapes,
    get_device,
    is_complex,
    is_conj,
    is_floating_point,
    is_neg,
    is_nonzero,
    is_signed,
    is_tensor,
    numel,
    result_type,
    tensor,
)
from rushlight.functional import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_tensors,
    cartesian_prod,
    cdist,
    chain_matmul,
    einsum,
    lu,
    meshgrid,
    nonzero,
    norm,
    split,
    tensordot,
    unique,
    unique_consecutive,
)
from rushlight._functions import can_cast, frombuffer, promote_types
from rushlight._removed_functions import eig, lstsq, matrix_rank, solve, symeig
from rushlight.random import (
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

globals().update(_typed_storage.names())

# Pickles from before modules moved name these.
_MOVED = {
    "core.pickling": "io.pickling",
    "core.random": "random.generator",
    "legacy": "_typed_storage",
    "ops.return_types": "operators.return_types",
}
for _old, _new in _MOVED.items():
    _modules[f"rushlight.{_old}"] = _modules[f"rushlight.{_new}"]

__version__ = "0.1.0"
newaxis = None

if _collecting:
    if not _gc.get_freeze_count():
        _gc.freeze()
        _gc.unfreeze()  # all is in the oldest generation now
    _gc.enable()

# What not every program uses is imported when it is first asked for.
_ON_DEMAND = (
    "cuda",
    "distributions",
    "fft",
    "func",
    "library",
    "linalg",
    "masked",
    "nested",
    "nn",
    "optim",
    "signal",
    "special",
    "overrides",
    "datasets",
    "serialization",
    "testing",
    "transforms",
    "utils",
)
TYPE_CHECKING = False
if TYPE_CHECKING:  # for readers of types, who import everything
    from rushlight import nn, optim
    from rushlight._generated.functions import *
    from rushlight._generated.methods import Tensor


def __getattr__(name):
    from importlib import import_module

    if name in _ON_DEMAND:
        return import_module(f"rushlight.{name}")
    if name == "__all__":  # what `import *` brings: no modules
        return import_module("rushlight._lazy_exports").exported(globals())
    found = import_module("rushlight._lazy_exports").find(name)
    if found is None:
        from sys import modules

        from rushlight._name_errors import MissingName

        raise MissingName(modules["rushlight"], name)
    if not hasattr(found, "__path__"):
        globals()[name] = found
    return found


def __dir__():
    from rushlight import _lazy_exports

    return sorted(
        {*globals(), *_ON_DEMAND, *_lazy_exports.MODULES, *_lazy_exports.names()}
    )
