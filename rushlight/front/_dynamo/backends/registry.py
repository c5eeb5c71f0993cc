"""What makes programs of graphs: our own compiler, nothing at all, or a function."""

import functools
import importlib

from rushlight._dynamo.exc import InvalidBackend

__all__ = ["find_backend", "list_backends", "lookup_backend", "register_backend"]

# PyTorch's own backends; `debugging` has those that run graphs as they are.
OURS = ("inductor", "cudagraphs", "onnxrt", "openxla", "tvm")
PLAIN = ("eager", "aot_eager", "aot_eager_decomp_partition", "eager_noexcept")
# name -> a function, or None for one of PyTorch's; and the tags that it has
_registered: dict = {name: None for name in OURS + PLAIN}
_tags: dict = {name: ("debug",) for name in PLAIN}


def register_backend(compiler_fn=None, name=None, tags=()):
    """Gives a function for graphs a name.

    Args:
        compiler_fn: ``compiler_fn(graph_module, example_inputs)`` gives a function.
        name: by default the function's own.
        tags: by which `list_backends` leaves it out.

    Raises:
        AssertionError: there is a backend of that name.
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    name = name or compiler_fn.__name__
    if name in _registered:
        raise AssertionError(f"duplicate name: {name}")
    _registered[name], _tags[name] = compiler_fn, tuple(tags)
    return compiler_fn


def lookup_backend(name):
    """The backend of a name; see `find_backend`."""
    return find_backend(name)


def list_backends(exclude_tags=("debug", "experimental")):
    """The names of backends for captured programs.

    Args:
        exclude_tags: leaves out backends that have one of these tags.

    >>> list_backends()
    ['cudagraphs', 'inductor', 'onnxrt', 'openxla', 'tvm']
    """
    left_out = set(exclude_tags or ())
    return sorted(one for one in _registered if not left_out & {*_tags.get(one, ())})


def find_backend(backend):
    """A function for graphs, or ``"inductor"`` for our own compiler.

    Raises:
        InvalidBackend: there is no backend of that name.
    """
    if backend is None or backend in OURS:
        return "inductor"
    if isinstance(backend, str):
        if backend in PLAIN:
            home = importlib.import_module("rushlight._dynamo.backends.debugging")
            return getattr(home, backend)
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
