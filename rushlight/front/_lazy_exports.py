"""Names of the package that are imported when a program first asks for them."""

import warnings
from importlib import import_module
from types import ModuleType

MODULES = """
    _C __future__ _dynamo _higher_order_ops _inductor _logging _ops _subclasses _utils __config__
    accelerator amp ao backends compiler distributed export futures fx hub jit monitor mps
    mtia multiprocessing onnx package profiler quantization quasirandom return_types sparse storage
    torch_version types version xpu
""".split()

# A module's path inside the package -> the names that the package has from it.
NAMES = {
    "_C": (
        "Argument",
        "DisableTorchFunction",
        "DisableTorchFunctionSubclass",
        "DispatchKey",
        "DispatchKeySet",
        "FunctionSchema",
        "ScriptObject",
    ),
    "torch_compat": ("install_as_torch",),
    "_dynamo.decorators": ("_disable_dynamo",),
    "_dynamo.eval_frame": ("compile",),
    "_explain": ("explain",),
    "core.errors": ("AcceleratorError", "OutOfMemoryError"),
    "dispatch.tags": ("Tag",),
    "func": ("vmap",),
    "futures": ("Future",),
    "jit": ("CompilationUnit", "ScriptFunction", "ScriptModule", "fork", "wait"),
    "jit._types": tuple(
        """
        AnyType AwaitType BoolType ComplexType DeviceObjType DictType FloatType FutureType
        IntType ListType NoneType NumberType OptionalType PyObjectType RRefType
        StreamObjType StringType SymBoolType SymIntType TensorType TupleType Type
        UnionType
        """.split()
    ),
    "lowrank": ("lobpcg", "pca_lowrank", "svd_lowrank"),
    "ir.sym_functions": tuple(
        "sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum".split()
    ),
    "operators.assertions": ("_assert", "_assert_async", "_assert_tensor_metadata"),
    "_host_streams": ("Event", "Stream"),
    "_runtime_flags": tuple(
        """
        _check _check_index _check_is_size _check_not_implemented
        _check_tensor_all _check_tensor_all_with _check_with
        _check_type _check_value _shape_as_tensor are_deterministic_algorithms_enabled
        compiled_with_cxx11_abi get_deterministic_debug_mode get_device_module
        get_float32_matmul_precision get_num_interop_threads has_lapack has_mkl has_openmp
        has_spectral is_deterministic_algorithms_warn_only_enabled is_storage
        set_deterministic_debug_mode set_flush_denormal
        set_float32_matmul_precision set_num_interop_threads         typename
        use_deterministic_algorithms
        """.split()
    ),
    "_functions": tuple(
        """
        FatalError _has_compatible_shallow_copy_type detach_ is_anomaly_check_nan_enabled
        is_anomaly_enabled is_distributed is_inference legacy_contiguous_format
        Storage max_pool1d_with_indices
        set_anomaly_enabled sym_constrain_range
        sym_constrain_range_for_size
        sym_fresh_size to_dlpack unravel_index
        """.split()
    ),
    "amp.autocast_mode": tuple(
        """
        autocast autocast_decrement_nesting autocast_increment_nesting
        clear_autocast_cache get_autocast_dtype is_autocast_cache_enabled
        is_autocast_enabled set_autocast_cache_enabled set_autocast_dtype
        set_autocast_enabled
        """.split()
    ),
    "amp._older_names": tuple(
        """
        get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cpu_enabled
        set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_gpu_dtype
        """.split()
    ),
    "_higher_order_ops": ("cond", "while_loop"),
    "ir.symbolic": ("SymInt",),
    "ir.truths": ("SymBool",),
    "ir.unbacked": ("SymFloat",),
    "amp.grad_scaler": ("GradScaler",),
    "operators.extensions": ("classes",),
    "core.warning": ("is_warn_always_enabled", "set_warn_always"),
    "core.qscheme": (
        "per_channel_affine",
        "per_channel_affine_float_qparams",
        "per_channel_symmetric",
        "per_tensor_affine",
        "per_tensor_symmetric",
        "qscheme",
    ),
    "random": ("thread_safe_generator",),
    "serialization": ("load", "save"),
    "sparse.factories": tuple(
        """
        dsmm hsmm saddmm sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor
        sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor spmm
        """.split()
    ),
    "serialization._records": ("PyTorchFileReader", "PyTorchFileWriter"),
}
_HOMES = {name: home for home, names in NAMES.items() for name in names}


def names():
    """Names of the package, modules apart, that may not have been asked for yet.

    >>> "save" in names()
    True
    """
    return _HOMES.keys()


def exported(present):
    """The names that ``from rushlight import *`` brings: public, and no modules.

    Args:
        present: the package's names and values so far.
    """
    public = {
        name
        for name, value in present.items()
        if name[0] != "_"
        and name != "annotations"
        and not isinstance(value, ModuleType)
    }
    return sorted(public | {name for name in names() if name[0] != "_"})


# What was asked of the package once, and the question of today.
DEPRECATED = {
    "has_cuda": "backends.cuda.is_built",
    "has_cudnn": "backends.cudnn.is_available",
    "has_mkldnn": "backends.mkldnn.is_available",
    "has_mps": "backends.mps.is_built",
}


def _answer(name):
    """What a name says that PyTorch keeps with a warning only."""
    module, _, question = DEPRECATED[name].rpartition(".")
    warnings.warn(
        f"'{name}' is deprecated, please use 'torch.{DEPRECATED[name]}()'", stacklevel=4
    )
    return getattr(import_module(f"rushlight.{module}"), question)()


def find(name):
    """The module, class or function of that name; None where there is none."""
    if name == "return_types":
        return import_module("rushlight.operators.return_types")
    if name in DEPRECATED:
        return _answer(name)
    if name in MODULES:
        return import_module(f"rushlight.{name}")
    home = _HOMES.get(name)
    if home is None and name.startswith("_") and not name.startswith("__"):
        return _private_operator(name)
    return None if home is None else getattr(import_module(f"rushlight.{home}"), name)


def _private_operator(name):
    """An operator that no namespace shows, such as ``_chunk_cat``; else None."""
    packet = vars(import_module("rushlight.operators.registry").call).get(name)
    return None if packet is None else packet.as_function()
