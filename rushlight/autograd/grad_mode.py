"""Switches of the calling thread: recording on or off, inference mode."""

import functools
import threading
import types

from rushlight.autograd.methods import set_version, version_of
from rushlight.core import state
from rushlight.core.state import is_grad_enabled, is_inference_mode_enabled
from rushlight.core.truth import truth_of_argument
from rushlight.core.warning import warn

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

_switch = state.set_grad_enabled
# Marks of compiled functions, as `inspect` has them, which takes long to import.
_GENERATOR, _COROUTINE = 0x20, 0x80


def _marks(function):
    """The marks of what a function, a method or a partial call of one runs."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return getattr(code, "co_flags", 0)


class ModeDecorator:
    """A context manager that also decorates functions, generators and coroutines.

    Each call, and each step of a generator or a coroutine, runs inside a fresh copy of the
    context.
    """

    __slots__ = ()

    def __call__(self, function):
        if isinstance(function, type):
            warn(
                "Decorating classes is deprecated and will be disabled in future "
                "versions. You should only decorate functions or methods. To preserve the "
                "current behavior of class decoration, you can directly decorate the "
                "`__init__` method and nothing else.",
                FutureWarning,
            )
            kind = function
            function = lambda *args, **kwargs: kind(*args, **kwargs)  # noqa: E731
        marks = _marks(function)
        if marks & _GENERATOR:
            return self._wrap_generator(function)
        if marks & _COROUTINE:
            return self._wrap_coroutine(function)

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def clone(self):
        """A context with the same settings."""
        return type(self)()

    def _wrap_coroutine(self, function):
        """The context holds while the coroutine runs, not while others of its loop do."""
        steps = types.coroutine(
            self._wrap_generator(lambda *args, **kw: function(*args, **kw).__await__())
        )

        @functools.wraps(function)
        async def wrapped(*args, **kwargs):
            return await steps(*args, **kwargs)

        return wrapped

    def _wrap_generator(self, function):
        """The context holds while the generator runs, not while its caller does."""

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            generator = function(*args, **kwargs)
            step, value = generator.send, None
            try:
                while True:
                    try:
                        with self.clone():
                            response = step(value)
                    except StopIteration as done:
                        return done.value
                    try:
                        value = yield response
                        step = generator.send
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step, value = generator.throw, error
            finally:
                with self.clone():
                    generator.close()

        return wrapped


class _FixedGradMode(ModeDecorator, state.GradModeScope):
    """A context of one mode, which a function given to it decorates at once."""

    __slots__ = ()

    def __new__(cls, orig_func=None):
        context = object.__new__(cls)
        return context if orig_func is None else context(orig_func)


class no_grad(_FixedGradMode):
    """Context, or decorator, in which operators record nothing for ``backward``.

    >>> import rushlight as rl
    >>> x = rl.ones(2, requires_grad=True)
    >>> with rl.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    __slots__ = ()
    mode = False


class enable_grad(_FixedGradMode):
    """Context, or decorator, in which operators record again, inside ``no_grad``.

    >>> import rushlight as rl
    >>> x = rl.ones(2, requires_grad=True)
    >>> with rl.no_grad(), rl.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    __slots__ = ()
    mode = True


class set_grad_enabled(ModeDecorator, state.GradModeScope):
    """Turns recording on or off at once; as a context, until the end of the block.

    >>> import rushlight as rl
    >>> with rl.set_grad_enabled(False):
    ...     rl.is_grad_enabled()
    False
    """

    __slots__ = ("mode",)

    def __init__(self, mode):
        self.mode = truth_of_argument("set_grad_enabled", "enabled", 1, mode)
        self.earlier = _switch(self.mode)

    def __call__(self, function):
        _switch(self.earlier)
        return super().__call__(function)

    def __enter__(self):
        _switch(self.mode)  # `earlier` is from before the call

    def clone(self):
        return type(self)(self.mode)

    def __repr__(self):
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(ModeDecorator, state.InferenceModeScope):
    """Context, or decorator, whose new tensors never take part in autograd.

    Cheaper than ``no_grad``: such tensors keep no version and no record of views.

    >>> import rushlight as rl
    >>> with rl.inference_mode():
    ...     y = rl.ones(2) * 2
    >>> y.is_inference()
    True
    """

    __slots__ = ("mode",)

    def __new__(cls, mode=True):
        context = object.__new__(cls)
        if isinstance(mode, bool):
            context.mode = mode
            return context
        context.mode = True
        return context(mode)

    def clone(self):
        return type(self)(self.mode)


class _Multithreading(threading.local):
    """Whether the thread's backwards may use others."""

    enabled = True


_MULTITHREADING = _Multithreading()


def is_multithreading_enabled():
    """Whether a backward of this thread may use others, were there a need of them."""
    return _MULTITHREADING.enabled


class set_multithreading_enabled(ModeDecorator, state.Scope):
    """Says at once whether backwards may use other threads; or until a block's end.

    A backward on the host stays on the thread that called it in any case.

    >>> with set_multithreading_enabled(False):
    ...     is_multithreading_enabled()
    False
    """

    __slots__ = ("earlier", "mode")

    def __init__(self, mode):
        self.mode = truth_of_argument("set_multithreading_enabled", "enabled", 1, mode)
        self.earlier = _MULTITHREADING.enabled
        _MULTITHREADING.enabled = mode

    def __call__(self, function):
        _MULTITHREADING.enabled = self.earlier  # only while the function runs
        return super().__call__(function)

    def _save(self):
        """Nothing: `earlier` is from before the call."""

    def _change(self):
        """Nothing: the call has done it."""

    def _restore(self):
        _MULTITHREADING.enabled = self.earlier

    def clone(self):
        return type(self)(self.mode)


class _unsafe_preserve_version_counter(ModeDecorator):
    """Context that hides in-place changes of some tensors from the version check."""

    def __init__(self, tensors):
        single = hasattr(tensors, "grad_fn")
        self.tensors = (tensors,) if single else tuple(tensors)
        self.versions = tuple(version_of(tensor) for tensor in self.tensors)

    def __enter__(self):
        pass

    def __exit__(self, *_raised):
        for tensor, version in zip(self.tensors, self.versions):
            set_version(tensor, version)
