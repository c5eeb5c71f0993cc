"""Context managers that decorate functions, under PyTorch's names."""

import functools

from rushlight.autograd.grad_mode import ModeDecorator

__all__ = ["context_decorator"]


class _DecoratorContextManager(ModeDecorator):
    """A base for context managers that also decorate functions and generators.

    >>> class loud(_DecoratorContextManager):
    ...     def __enter__(self):
    ...         print("in")
    ...
    ...     def __exit__(self, *raised):
    ...         print("out")
    >>> @loud()
    ... def work():
    ...     print("work")
    >>> work()
    in
    work
    out
    """

    def __enter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __enter__")

    def __exit__(self, *raised):
        raise NotImplementedError(f"{type(self).__name__} has no __exit__")

    def clone(self):
        """A context with the same settings; override it where there are any."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One without settings, which decorates without parentheses, too."""

    def __new__(cls, orig_func=None):
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)


class _Each(ModeDecorator):
    def __init__(self, make):
        self.make = make

    def clone(self):
        return self.make()


def context_decorator(ctx, func):
    """A function whose calls run inside a context.

    Args:
        ctx: a context manager, or a function that makes one for each call.
        func: the function; a generator is inside at each of its steps.
    """
    if not callable(ctx) or hasattr(ctx, "__enter__"):
        context = ctx

        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            with context:
                return func(*args, **kwargs)

        return wrapped
    return _Each(ctx)(func)
