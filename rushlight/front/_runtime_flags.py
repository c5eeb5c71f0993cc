"""What programs ask about the machine and the process, and switches that concern both.

Kernels are deterministic and compute float32 products in float32, so that the switches
for determinism and for the precision of products have nothing to change: they keep what
they are told.
"""

import warnings

import rushlight as rl
from rushlight._typed_storage import TypedStorage
from rushlight.core.device import Device, get_default_device
from rushlight.core.dtypes import bool_, int64
from rushlight.core.storage import UntypedStorage
from rushlight.core.switches import set_switch, switch
from rushlight.core.tensor import Tensor
from rushlight.core.truth import kind_of, truth_of_argument
from rushlight.ir.truths import SymBool
from rushlight.operators.functions import tensor as make_tensor
from rushlight.utils import deterministic

has_lapack = True
has_mkl = False
has_openmp = False
has_spectral = True


_state: dict = {"interop": None}
_PRECISIONS = ("highest", "high", "medium")
_MODES = {"default": 0, "warn": 1, "error": 2}


# -- switches ---------------------------------------------------------------------------


def get_float32_matmul_precision():
    """The precision that products of float32 matrices may have.

    >>> get_float32_matmul_precision()
    'highest'
    """
    return _PRECISIONS[switch("float32_matmul")]


def set_float32_matmul_precision(precision):
    """Allows products of float32 matrices less precision: TF32 on a GPU, none on the host.

    Args:
        precision: ``"highest"``, ``"high"`` or ``"medium"``.

    Raises:
        RuntimeError: it is not a text.

    >>> torch.set_float32_matmul_precision("highest")
    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    if not isinstance(precision, str):
        raise RuntimeError(
            f"set_float32_matmul_precision expects a str, but got {kind_of(precision)}"
        )
    if precision not in _PRECISIONS:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current "
            "setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    set_switch("float32_matmul", _PRECISIONS.index(precision))


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for the same bits from every run, which all kernels give.

    Operators of which PyTorch says that they do not are refused, as there:
    ``max_unpool1d`` to ``3d``, and ``put_`` without ``accumulate``. New memory that nobody
    has written is filled meanwhile; see `utils.deterministic`.

    Args:
        mode: whether it is asked for.
        warn_only: whether what is not so warns, in place of an error.

    Raises:
        TypeError: one of them is no truth value.

    >>> use_deterministic_algorithms(True)
    >>> are_deterministic_algorithms_enabled()
    True
    >>> use_deterministic_algorithms(False)
    """
    truth_of_argument("_set_deterministic_algorithms", "mode", 1, mode)
    truth_of_argument("_set_deterministic_algorithms", "warn_only", None, warn_only)
    deterministic.ask_for((1 if warn_only else 2) if mode else 0)


def are_deterministic_algorithms_enabled():
    """Whether ``use_deterministic_algorithms`` asks for them."""
    return deterministic.asked() > 0


def is_deterministic_algorithms_warn_only_enabled():
    """Whether it asks for warnings only."""
    return deterministic.asked() == 1


def get_deterministic_debug_mode():
    """0, 1 for warnings, or 2 for errors where a kernel is not deterministic."""
    return deterministic.asked()


def set_deterministic_debug_mode(debug_mode):
    """Sets that number, also by its name: default, warn or error.

    Args:
        debug_mode: ``"default"``, ``"warn"``, ``"error"``, or their numbers 0, 1, 2.

    Raises:
        TypeError: it is neither a number nor a name.
        RuntimeError: there is no such mode.

    >>> torch.set_deterministic_debug_mode("default")
    >>> torch.get_deterministic_debug_mode()
    0
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, "
                f"`error`, but got {debug_mode}"
            )
        debug_mode = _MODES[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    deterministic.ask_for(debug_mode)


def set_flush_denormal(mode, /):
    """Has this thread take numbers below the normal range for zero, or no longer.

    Args:
        mode: whether they are zero.

    Returns:
        Whether the processor can do so.

    Raises:
        RuntimeError: the mode is no truth value.

    >>> _ = set_flush_denormal(False)
    """
    from rushlight.runtime.cpu.denormals import set_flush

    if not isinstance(mode, bool):
        raise RuntimeError(
            f"flush_denormal expects a bool, but got {type(mode).__name__}"
        )
    return set_flush(mode)


def get_num_interop_threads():
    """The threads that run operators side by side: one, each uses many."""
    return _state["interop"] or 1


def set_num_interop_threads(n):
    """Notes a number of threads for operators side by side.

    Args:
        n: how many.

    Raises:
        RuntimeError: it is not a positive number.

    >>> torch.get_num_interop_threads() >= 1
    True
    """
    if not isinstance(n, int):
        raise RuntimeError(
            f"set_num_interop_threads expects an int, but got {kind_of(n)}"
        )
    if n < 1:
        raise RuntimeError("Expected positive number of threads")
    _state["interop"] = int(n)


# -- questions --------------------------------------------------------------------------


def is_storage(obj, /):
    """Whether a value is memory below tensors.

    Args:
        obj: the value.

    >>> torch.is_storage(torch.ones(2).untyped_storage())
    True
    """
    return isinstance(obj, (TypedStorage, UntypedStorage))


def typename(obj, /):
    """A value's type, with PyTorch's name where it is a tensor.

    Args:
        obj: any value.

    >>> typename(rl.ones(1)), typename(1)
    ('torch.FloatTensor', 'int')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    module = getattr(obj, "__module__", "") or ""
    if module in ("", "builtins", "__builtin__"):
        module = ""
    if hasattr(obj, "__qualname__"):
        name = obj.__qualname__
    elif hasattr(obj, "__name__"):
        name = obj.__name__
    else:
        module, name = type(obj).__module__ or "", type(obj).__qualname__
    return name if module in ("", "builtins") else f"{module}.{name}"


def compiled_with_cxx11_abi():
    """Which of two interfaces compiled extensions must have; none are loaded."""
    return True


def get_device_module(device=None):
    """The module for a kind of device; without one, for the default device's.

    Args:
        device: a device, or its name.

    Raises:
        RuntimeError: there is no such module.

    >>> torch.get_device_module("cpu").__name__.split(".")[-1]
    'cpu'
    """
    if isinstance(device, Device):
        kind = device.type
    elif isinstance(device, str):
        kind = Device(device).type
    elif device is None:
        kind = get_default_device().type
    else:
        raise RuntimeError(
            f"Invalid value of device '{device}', expect torch.device, str, or None"
        )
    module = getattr(rl, kind, None)
    if module is None:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as "
            f"'torch.{kind}'."
        )
    return module


# -- checks that programs make ------------------------------------------------------------


def _checker(name, error, text):
    def check(cond, message=None):
        _check_with(error, cond, message)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raises {text} where a condition does not hold."
    return check


def _check_with(error_type, cond, message):
    """Raises an error of a type where a condition does not hold.

    Args:
        error_type: the type.
        cond: a truth value, or a question about open sizes.
        message: gives the error's words; None for PyTorch's own.

    Raises:
        TypeError: the condition is no truth value, or the message no function.
    """
    if not isinstance(cond, bool) and not isinstance(cond, SymBool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if isinstance(cond, SymBool) and cond.follows:
        cond.env.elements.check(cond.expr)
        return
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(
        "Expected cond to be True, but got False. (Could this error message be "
        "improved? If so, please report an enhancement request to PyTorch.)"
        if message is None
        else str(message())
    )


def _check_tensor_all_with(error_type, cond, message=None):
    """Raises an error of a type where not all of a tensor's elements hold.

    Args:
        error_type: the type.
        cond: the tensor, of truth values.
        message: gives the error's words; None for PyTorch's own.

    Raises:
        TypeError: it is no tensor, or of something else.
    """
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond, message=None):
    """Raises where not all of a tensor's elements hold.

    Raises:
        RuntimeError: that is so.

    >>> torch._check_tensor_all(torch.tensor([True, True]))
    """
    _check_tensor_all_with(RuntimeError, cond, message)


_check = _checker("_check", RuntimeError, "RuntimeError")
_check_index = _checker("_check_index", IndexError, "IndexError")
_check_value = _checker("_check_value", ValueError, "ValueError")
_check_type = _checker("_check_type", TypeError, "TypeError")
_check_not_implemented = _checker(
    "_check_not_implemented", NotImplementedError, "NotImplementedError"
)


def _check_is_size(i, message=None, *, max=None):
    """Raises where a number is no size.

    Raises:
        RuntimeError: it is negative, or above the largest that may be.
    """
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _shape_as_tensor(tensor):
    """The sizes of a tensor in a tensor.

    >>> _shape_as_tensor(rl.ones(2, 3))
    tensor([2, 3])
    """
    return make_tensor(tuple(tensor.shape), dtype=int64)
