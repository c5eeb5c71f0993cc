"""What makes programs of graphs: our own compiler, nothing at all, or a function."""

from __future__ import annotations

import functools

from rushlight._dynamo.exc import InvalidBackend

__all__ = [
    "find_backend",
    "list_backends",
    "lookup_backend",
    "register_backend",
]

# PyTorch's own backends. "eager" and those for looking only run the graph as it is.
OURS = ("inductor", "cudagraphs", "onnxrt", "openxla", "tvm")
PLAIN = ("eager", "aot_eager", "aot_eager_decomp_partition", "eager_noexcept")
_registered: dict = {}


def register_backend(compiler_fn=None, name=None, tags=()):
    """Gives a function for graphs a name.

    Args:
        compiler_fn: ``compiler_fn(graph_module, example_inputs)`` gives a function.
        name: by default the function's own.
        tags: kept for PyTorch's programs.
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    _registered[name or compiler_fn.__name__] = compiler_fn
    return compiler_fn


def lookup_backend(name):
    """The backend of a name; see `find_backend`."""
    return find_backend(name)


def list_backends(exclude_tags=("debug", "experimental")):
    """The names of backends for captured programs.

    Args:
        exclude_tags: leaves out backends that have one of these tags.

    >>> list_backends()
    ['inductor']
    """
    return sorted(["inductor", *_registered])


def find_backend(backend):
    """A function for graphs, ``"inductor"`` for our own, or ``"eager"``.

    Raises:
        InvalidBackend: there is no backend of that name.
    """
    if backend is None or backend in OURS:
        return "inductor"
    if isinstance(backend, str):
        if backend in PLAIN:
            return "eager"
        if backend in _registered:
            return _registered[backend]
    elif callable(backend):
        return backend
    raise InvalidBackend(backend)


_default: list = ["inductor"]


def set_default_backend(backend):
    """Says which backend ``compile`` takes where it is given none.

    Args:
        backend: a name or a function; None for ``"inductor"``.

    Raises:
        InvalidBackend: there is none of that name.

    >>> set_default_backend("eager")
    >>> get_default_backend()
    'eager'
    >>> set_default_backend(None)
    """
    chosen = "inductor" if backend is None else backend
    find_backend(chosen)
    _default[:] = [chosen]


def get_default_backend():
    """Which backend ``compile`` takes where it is given none."""
    return _default[0]
