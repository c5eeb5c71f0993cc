"""``autocast``: which operators compute in which precision, as a dispatch key.

Inside of the block every call of the thread passes the ``Autocast`` key first. Operators
with a policy have a kernel there that converts their arguments and calls on without the
key; all others are passed by.
"""

import contextlib
import functools
import importlib
import threading
import warnings

import rushlight as rl
from rushlight.core.state import (
    KeysScope,
    Scope,
    exclude_keys,
    excluded_keys,
    include_keys,
    included_keys,
)
from rushlight.core.tensor import Tensor
from rushlight.core.truth import truth_of_argument
from rushlight.dispatch.declared import AUTOCAST, AUTOCAST_CUDA, FUNCTIONAL
from rushlight.dispatch.dispatcher import packets
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.library import Library
from rushlight.dispatch.python_key import set_casts

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_BIT = 1 << DispatchKey.Autocast

_DEVICES = {"cpu": "bfloat16", "cuda": "float16", "mps": "float16", "xpu": "float16"}
_SUPPORTED = ("bfloat16", "float16")
# Kinds of devices with policies of their own: where an entry says them, and the key.
_KINDS = {"cpu": (AUTOCAST, "AutocastCPU"), "cuda": (AUTOCAST_CUDA, "AutocastCUDA")}


class _Threads(threading.local):
    """The settings of each thread."""

    def __init__(self):
        self.enabled = dict.fromkeys(_DEVICES, False)
        self.dtypes = dict(_DEVICES)
        self.cache_enabled = True
        self.depth = 0
        self.cache = {}


_threads = _Threads()


# -- kernels of the key -----------------------------------------------------------------


def _castable(value, kind):
    """Whether a value is a tensor that policies convert: short or single precision."""
    return (
        isinstance(value, Tensor)
        and value.is_floating_point()
        and value.dtype is not rl.float64
        and value.device.type == kind
    )


def _converted(value, dtype):
    """A tensor in another type; the conversion of a parameter is kept for the block."""
    if value.dtype is dtype:
        return value
    kept = (
        _threads.cache_enabled
        and value.requires_grad
        and value.is_leaf
        and value.dtype is rl.float32
        and dtype is not rl.float32
        and rl.is_grad_enabled()
    )
    if not kept:
        return value.to(dtype)
    found = _threads.cache.get(id(value))
    if found is None:
        found = _threads.cache[id(value)] = value, value.to(dtype)
    return found[1]


def _all_converted(values, dtype, kind):
    """Arguments with the tensors among them, and in lists, converted."""
    converted = []
    for value in values:
        if _castable(value, kind):
            value = _converted(value, dtype)
        elif isinstance(value, (list, tuple)) and any(
            _castable(item, kind) for item in value
        ):
            value = type(value)(_all_converted(value, dtype, kind))
        converted.append(value)
    return converted


def _tensors(values, kind):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value, kind)
        elif _castable(value, kind):
            yield value


def _short(values, kind):
    return getattr(rl, _threads.dtypes[kind])


def _long(values, kind):
    return rl.float32


def _widest(values, kind):
    """The short type, or float32 once an operand has it; PyTorch's order of questions.

    Raises:
        RuntimeError: an operand before the first of float32 is of the other short type.
    """
    short = _short(values, kind)
    for value in _tensors(values, kind):
        if value.dtype is rl.float32:
            return rl.float32
        if value.dtype is not short:
            raise RuntimeError(
                "Unexpected floating ScalarType in at::autocast::prioritize: "
                f"{value.dtype} in a block for {short}"
            )
    return short


def _summed(values, kind):
    named = any(isinstance(value, rl.dtype) for value in values)
    return None if named else rl.float32


def _at_entry(values, kind):
    return None


# By declaration.
_POLICIES = {
    "short": _short,
    "long": _long,
    "widest": _widest,
    "summed": _summed,
    "at_entry": _at_entry,
}


def _policy(said):
    """The type for a call's arguments, or None: by a word, or by what a function says."""
    if not isinstance(said, tuple):
        return _POLICIES[said]
    word_for = getattr(importlib.import_module(said[0]), said[1])

    def dtype_for(values, kind):
        word = word_for(*values)
        return None if word is None else _POLICIES[word](values, kind)

    return dtype_for


def _kernel(operator, dtype_for, kind):
    """What the key does for one operator: convert, and call on without the key."""

    def run(keys, *args):
        if not _threads.enabled[kind]:  # the block is one for another kind of device
            return operator.redispatch(keys.remove(DispatchKey.Autocast), *args)
        before = excluded_keys()
        try:
            exclude_keys(_BIT)
            dtype = dtype_for(args, kind)
            converted = args if dtype is None else _all_converted(args, dtype, kind)
            return operator.redispatch(keys.remove(DispatchKey.Autocast), *converted)
        finally:
            exclude_keys(before, True)

    return run


def run_with_casts(operator, args, kwargs):
    """Calls an operator on the operands that autocast would give it, without the key.

    For recorders that stand above the key: the casts are calls like others there.

    Returns:
        What the operator gives; `NotImplemented` where no block concerns it.
    """
    values = [*args, *kwargs.values()]
    for kind, (place, _) in _KINDS.items():
        said = operator.entry[place] if operator.entry else None
        concerned = (
            said is not None
            and operator.form == FUNCTIONAL
            and _threads.enabled[kind]
            and not (excluded_keys() & _BIT)
            and next(_tensors(values, kind), None) is not None
        )
        if concerned:
            with KeysScope(0, _BIT):
                dtype = _policy(said)(values, kind)
                if dtype is not None:
                    values = _all_converted(values, dtype, kind)
                named = dict(zip(kwargs, values[len(args) :], strict=True))
                return operator(*values[: len(args)], **named)
    return NotImplemented


_libraries: dict = {}
_registering = threading.RLock()


def _register(kind):
    """Gives the operators that are there their kernels for a kind of device, once."""
    if kind in _libraries:
        return
    with _registering:  # a thread that comes meanwhile waits until all have theirs
        if kind not in _libraries:
            _libraries[kind] = _library_of(kind)


def _library_of(kind):
    library = Library("aten", "IMPL")
    set_casts(run_with_casts, lambda kind: _threads.enabled[kind])
    place, key = _KINDS[kind]
    for packet in packets().values():
        for operator in packet.overloads:
            said = operator.entry[place] if operator.entry else None
            if said is not None and operator.form == FUNCTIONAL:
                kernel = _kernel(operator, _policy(said), kind)
                library.impl(operator, kernel, key, with_keyset=True)
    return library


# -- settings -----------------------------------------------------------------------------


def _known(device_type):
    if not isinstance(device_type, str):
        raise ValueError(
            f"Expected `device_type` of type `str`, got: `{type(device_type)}`"
        )
    if device_type not in _DEVICES:
        rl.device(device_type)  # says which there are
        raise RuntimeError(
            f"User specified an unsupported autocast device_type '{device_type}'"
        )
    return device_type


def is_autocast_available(device_type):
    """Whether there are policies for a kind of device.

    Args:
        device_type: ``"cpu"``, ``"cuda"`` and the like.

    >>> torch.amp.is_autocast_available("cpu")
    True
    """
    rl.device(device_type)  # says which there are
    return device_type in _DEVICES


def is_autocast_enabled(device_type=None):
    """Whether a block is active in this thread, for a device type: CUDA's by default.

    Args:
        device_type: ``"cpu"``, ``"cuda"`` and the like; ``"cuda"`` by default.

    >>> is_autocast_enabled("cpu")
    False
    """
    if device_type is None:
        device_type = "cuda"
    return _threads.enabled[_known(device_type)]


def set_autocast_enabled(device_type, enabled=None):
    """Switches conversion on or off for a device type in this thread.

    Args:
        device_type: ``"cpu"``, ``"cuda"`` and the like; a truth value alone is for CUDA.
        enabled: whether operators convert.

    >>> torch.set_autocast_enabled("cpu", True)
    >>> torch.is_autocast_enabled("cpu")
    True
    >>> torch.set_autocast_enabled("cpu", False)
    """
    if enabled is None and not isinstance(device_type, str):
        device_type, enabled = "cuda", device_type
    truth_of_argument("set_autocast_enabled", "enabled", 2, enabled)
    _threads.enabled[_known(device_type)] = enabled
    if device_type not in _KINDS:
        return
    if enabled:
        _register(device_type)
    if any(_threads.enabled[kind] for kind in _KINDS):
        include_keys(_BIT)
    else:
        include_keys(included_keys() & ~_BIT, True)


def get_autocast_dtype(device_type):
    """The short type of a device type, in this thread.

    Args:
        device_type: ``"cpu"``, ``"cuda"`` and the like.

    >>> torch.get_autocast_dtype("cpu")
    rushlight.bfloat16
    """
    return getattr(rl, _threads.dtypes[_known(device_type)])


def set_autocast_dtype(device_type, dtype):
    """Chooses the short type of a device type, in this thread.

    Args:
        device_type: ``"cpu"``, ``"cuda"`` and the like.
        dtype: the type.

    >>> torch.set_autocast_dtype("cpu", torch.bfloat16)
    >>> torch.get_autocast_dtype("cpu")
    rushlight.bfloat16
    """
    _threads.dtypes[_known(device_type)] = dtype.name


def is_autocast_cache_enabled():
    """Whether conversions of parameters are kept for the length of a block."""
    return _threads.cache_enabled


def set_autocast_cache_enabled(enabled):
    """Says whether they are.

    Args:
        enabled: whether they are.

    >>> torch.set_autocast_cache_enabled(True)
    >>> torch.is_autocast_cache_enabled()
    True
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")
    _threads.cache_enabled = enabled


def clear_autocast_cache():
    """Forgets the conversions of parameters."""
    _threads.cache.clear()


def autocast_increment_nesting():
    """One block more; returns how many there are."""
    _threads.depth += 1
    return _threads.depth


def autocast_decrement_nesting():
    """One block less; returns how many there are."""
    _threads.depth -= 1
    return _threads.depth


def current_settings():
    """What a later ``settings`` block brings back."""
    kinds = tuple((k, _threads.enabled[k], _threads.dtypes[k]) for k in _KINDS)
    return kinds, _threads.cache_enabled


@contextlib.contextmanager
def settings(chosen):
    """Runs a block with the settings of another time."""
    kinds, cache = chosen
    if chosen == current_settings() and not any(enabled for _, enabled, _ in kinds):
        yield
        return
    with contextlib.ExitStack() as blocks:
        for kind, enabled, dtype in kinds:
            block = autocast(kind, getattr(rl, dtype), enabled, cache)
            blocks.enter_context(block)
        yield


# -- the block ----------------------------------------------------------------------------


class autocast(Scope):
    """Computes products in a short type and what loses by it in float32.

    A context manager and a decorator. Tensors stay as they are; operators convert their
    arguments.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``, whose operators have policies of their own;
            for a kind of device that is not there, nothing happens.
        dtype: the short type; bfloat16 on the CPU, float16 on others.
        enabled: False computes as outside of any block.
        cache_enabled: whether a parameter is converted once for the whole block.

    >>> import rushlight as rl
    >>> with autocast("cpu"):
    ...     product = rl.ones(2, 2) @ rl.ones(2, 2)
    >>> product.dtype
    rushlight.bfloat16
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        self.device = _known(device_type)
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = (
            is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        self._enabled = enabled and self._possible()

    def _possible(self):
        """Whether the device and the type allow it; says so where they do not.

        Raises:
            RuntimeError: the GPU does not know bfloat16.
        """
        if self.device == "cuda":
            if not rl.cuda.is_available():
                warnings.warn(
                    "CUDA is not available or torch_xla is imported. Disabling autocast.",
                    stacklevel=3,
                )
                return False
            if self.fast_dtype is rl.bfloat16 and not rl.cuda.is_bf16_supported():
                raise RuntimeError(
                    "Current CUDA Device does not support bfloat16. Please switch dtype "
                    "to float16."
                )
        elif self.fast_dtype.name not in _SUPPORTED:
            kind = self.device.upper()
            warnings.warn(
                f"In {kind} autocast, but the target dtype is not supported. Disabling "
                f"autocast.\n{kind} Autocast only supports dtypes of torch.bfloat16, "
                "torch.float16 currently.",
                stacklevel=3,
            )
            return False
        return True

    def _save(self):
        kind = self.device
        self.previous = (
            is_autocast_enabled(kind),
            get_autocast_dtype(kind),
            is_autocast_cache_enabled(),
            _threads.depth,
        )

    def _change(self):
        kind = self.device
        set_autocast_enabled(kind, self._enabled)
        set_autocast_dtype(kind, self.fast_dtype)
        set_autocast_cache_enabled(self._cache_enabled)
        autocast_increment_nesting()
        return self

    def _restore(self):
        enabled, dtype, cache, _threads.depth = self.previous
        if _threads.depth == 0:
            clear_autocast_cache()
        set_autocast_enabled(self.device, enabled)
        set_autocast_dtype(self.device, dtype)
        set_autocast_cache_enabled(cache)

    def __call__(self, func):
        @functools.wraps(func)
        def decorated(*args, **kwargs):
            with self:
                return func(*args, **kwargs)

        decorated.__script_unsupported = "@autocast() decorator"
        return decorated


def _cast(value, device_type, dtype):
    """A value with the floating-point tensors in it, at any depth, in a type."""
    if isinstance(value, Tensor):
        meant = (
            value.is_floating_point()
            and value.device.type == device_type
            and value.dtype is not rl.float64
        )
        return value.to(dtype) if meant else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, dict):
        return {
            _cast(key, device_type, dtype): _cast(item, device_type, dtype)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        made = [_cast(item, device_type, dtype) for item in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Decorates the ``forward`` of a ``Function`` for use in a block.

    Args:
        fwd: the static method.
        device_type: the kind of device whose block is meant.
        cast_inputs: a type that floating-point arguments get; the body then runs
            outside of the block.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> Double.apply(torch.ones(2))
    tensor([2., 2.])
    """
    if not isinstance(device_type, str):
        raise ValueError(
            f"Expected `device_type` of type `str`, got: `{type(device_type)}`"
        )
    if fwd is None:
        return functools.partial(
            custom_fwd, device_type=device_type, cast_inputs=cast_inputs
        )

    @functools.wraps(fwd)
    def decorate_fwd(*args, **kwargs):
        args[0]._dtype = get_autocast_dtype(device_type)
        active = is_autocast_enabled(device_type)
        if cast_inputs is None or not active:
            args[0]._fwd_used_autocast = active
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        with autocast(device_type=device_type, enabled=False):
            return fwd(
                *_cast(args, device_type, cast_inputs),
                **_cast(kwargs, device_type, cast_inputs),
            )

    return decorate_fwd


def custom_bwd(bwd=None, *, device_type):
    """Decorates ``backward`` so that it runs with the settings of ``forward``.

    Args:
        bwd: the method; a decorator without it.
        device_type: ``"cpu"``, ``"cuda"`` and the like.

    >>> @torch.amp.custom_bwd(device_type="cpu")
    ... def backward(ctx, grad):
    ...     return grad * 2
    >>> backward.__name__
    'backward'
    """
    if not isinstance(device_type, str):
        raise ValueError(
            f"Expected `device_type` of type `str`, got: `{type(device_type)}`"
        )
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args, **kwargs):
        used, dtype = args[0]._fwd_used_autocast, args[0]._dtype
        with autocast(device_type=device_type, enabled=used, dtype=dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
