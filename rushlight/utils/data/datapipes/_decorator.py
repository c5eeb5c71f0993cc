"""What decorates pipes: their names as methods, and promises about them."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_origin, get_type_hints

from rushlight.utils.data.datapipes._typing import _DataPipeMeta, element_type, is_of
from rushlight.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe


class functional_datapipe:
    """Lets a class of pipes be made by a method of the pipe before.

    Args:
        name: of the method.
        enable_df_api_tracing: what the method returns stands for a table.

    >>> @rl.utils.data.functional_datapipe("doubled")
    ... class Doubler(rl.utils.data.IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return (2 * each for each in self.source)
    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2]).doubled())
    [2, 4]
    """

    name: str

    def __init__(self, name: str, enable_df_api_tracing=False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls):
        made = cls.__self__.cls if _is_wrapped(cls) else getattr(cls, "cls", cls)
        if isinstance(made, type) and issubclass(made, IterDataPipe):
            IterDataPipe.register_datapipe_as_function(
                self.name, cls, enable_df_api_tracing=self.enable_df_api_tracing
            )
        elif isinstance(made, type) and issubclass(made, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        return cls


def _is_wrapped(cls):
    return isinstance(getattr(cls, "__self__", None), non_deterministic)


_determinism: bool = False


class guaranteed_datapipes_determinism:
    """Refuses pipes that are not deterministic, inside of it."""

    prev: bool

    def __init__(self) -> None:
        global _determinism
        self.prev = _determinism
        _determinism = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _determinism
        _determinism = self.prev


class non_deterministic:
    """Says that a class of pipes is not deterministic, or that a function tells if it is.

    Args:
        arg: the class; or a function of its arguments that returns a bool.

    Raises:
        TypeError: it is neither.
    """

    cls: type[IterDataPipe] | None = None
    deterministic_fn: Callable[..., bool]

    def __init__(self, arg) -> None:
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(
                    "Only `IterDataPipe` can be decorated with `non_deterministic`, but "
                    f"{arg.__name__} is found"
                )
            self.cls = arg
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args, **kwargs):
        if self.cls is not None:
            if _determinism:
                self._refuse("non-deterministic")
            return self.cls(*args, **kwargs)
        given = args[0]
        if not (isinstance(given, type) and issubclass(given, IterDataPipe)):
            raise TypeError(
                f"Only `IterDataPipe` can be decorated, but {given.__name__} is found"
            )
        self.cls = given
        return self.deterministic_wrapper_fn

    def _refuse(self, what):
        raise TypeError(
            f"{self.cls.__name__} is {what}, but you set "
            "'guaranteed_datapipes_determinism'. You can turn off determinism for this "
            "DataPipe if that is acceptable for your application"
        )

    def deterministic_wrapper_fn(self, *args, **kwargs) -> IterDataPipe:
        """The pipe, unless its arguments make it something that is refused."""
        random = self.deterministic_fn(*args, **kwargs)
        if not isinstance(random, bool):
            raise TypeError(
                "deterministic_fn of `non_deterministic` decorator is required to return "
                f"a boolean value, but {type(random)} is found"
            )
        if _determinism and random:
            self._refuse("non-deterministic with the inputs")
        return self.cls(*args, **kwargs)  # type: ignore[misc]


def argument_validation(f):
    """Refuses arguments that are no pipes, or of other values, where a hint asks for one.

    Args:
        f: the function.

    Raises:
        TypeError: when the function is called with one.

    >>> @argument_validation
    ... def double(x):
    ...     return x * 2
    >>> double(2)
    4
    """
    signature = inspect.signature(f)
    hints = get_type_hints(f)

    @functools.wraps(f)
    def checked(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name)
            kind = get_origin(hint) or hint
            if isinstance(kind, _DataPipeMeta) and not isinstance(value, IterDataPipe):
                raise TypeError(
                    f"Expected argument '{name}' as a IterDataPipe, but found "
                    f"{type(value)}"
                )
        return f(*args, **kwargs)

    return checked


_runtime_validation_enabled: bool = True


class runtime_validation_disabled:
    """Leaves values unchecked, inside of it."""

    prev: bool

    def __init__(self) -> None:
        global _runtime_validation_enabled
        self.prev = _runtime_validation_enabled
        _runtime_validation_enabled = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _runtime_validation_enabled
        _runtime_validation_enabled = self.prev


def runtime_validation(f):
    """Checks each value of an ``__iter__`` against what the class says of its values.

    Args:
        f: the method.

    Raises:
        TypeError: another function is decorated.

    >>> class Words(rl.utils.data.IterDataPipe[str]):
    ...     @rl.utils.data.runtime_validation
    ...     def __iter__(self):
    ...         yield 3
    >>> list(Words())
    Traceback (most recent call last):
    RuntimeError: Expected an instance as subtype of <class 'str'>, but found 3(<class 'int'>)
    This exception is thrown by __iter__ of Words()
    """
    if f.__name__ != "__iter__":
        raise TypeError(
            f"Can not decorate function {f.__name__} with 'runtime_validation'"
        )

    @functools.wraps(f)
    def checked(self):
        if not _runtime_validation_enabled:
            yield from f(self)
            return
        hint = element_type(type(self))
        for value in f(self):
            if not is_of(value, hint):
                raise RuntimeError(
                    f"Expected an instance as subtype of {hint}, but found "
                    f"{value}({type(value)})"
                )
            yield value

    return checked
