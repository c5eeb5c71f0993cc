"""Arguments and results as octets: what ``save`` writes and ``load`` reads without a program.

Functions and classes go by name. Whoever is called looks them up in what its own program
has loaded: in the main program, in this package, in modules that are not Python's own.
"""

import io
import pickle
import sys
from types import SimpleNamespace

import rushlight as rl
from rushlight.core.state import AttributeScope
from rushlight.utils import _pytree as pytree

FUNCTION, REFERENCE, WORKER, TENSOR = "\0function", "\0rref", "\0worker", "\0tensor"
settings = SimpleNamespace(pickle=False)
_kinds: dict = {}  # type -> its tag, and what it is sent as
_makers: dict = {}  # tag -> what makes the value again


def register(kind, tag, dump, make):
    """Send values of a type as plain ones.

    Args:
        kind: the type.
        tag: its name on the wire.
        dump: makes a list of plain values of one.
        make: makes one of the list.
    """
    _kinds[kind], _makers[tag] = (tag, dump), make


def allow_pickle():
    """A block in which values that ``load`` would refuse are pickled, and unpickled.

    Whoever can reach this process can make it run any program then.
    """
    return AttributeScope(settings, pickle=True)


def _plain(value):
    for kind, (tag, dump) in _kinds.items():
        if isinstance(value, kind):
            return {tag: dump(value)}
    if callable(value) and hasattr(value, "__qualname__"):
        return {FUNCTION: [value.__module__, value.__qualname__]}
    return value


def _is_tagged(value):
    if not isinstance(value, dict) or len(value) != 1:
        return False
    tag = next(iter(value))
    return tag == FUNCTION or tag in _makers


def _restored(value):
    if not _is_tagged(value):
        return value
    tag, facts = next(iter(value.items()))
    return resolve(*facts) if tag == FUNCTION else _makers[tag](facts)


def resolve(module, name):
    """The function or class of a name that this program has loaded.

    Args:
        module: the module's name.
        name: the name in it, with dots.

    Raises:
        RuntimeError: there is none, or it is one of Python's own.
    """
    package = module.partition(".")[0]
    own = module == "__main__" or package not in sys.stdlib_module_names
    found = sys.modules.get(module) if own and package != "builtins" else None
    for part in name.split("."):
        found = getattr(found, part, None) if part != "<locals>" else None
    if not callable(found):
        raise RuntimeError(
            f"rpc: {module}.{name} is not a function that may be called here\n"
            "  remedy: define it in the program, or in a module that it imports"
        )
    return found


def encode(value):
    """A value as octets.

    Args:
        value: tensors, numbers, text, functions, references, and containers of them.
    """
    plain = pytree.tree_map(_plain, value)
    stream = io.BytesIO()
    try:
        rl.save(plain, stream)
        if not settings.pickle:
            return b"S" + stream.getvalue()
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        if not settings.pickle:
            raise TypeError(
                f"rpc: {error}\n  remedy: send tensors, numbers, text and containers"
            ) from error
    return b"P" + pickle.dumps(plain)


def decode(octets):
    """The value of octets.

    Args:
        octets: what ``encode`` made.

    Raises:
        UnpicklingError: they name what is not allowed.
    """
    if octets[:1] == b"P":
        if not settings.pickle:
            raise pickle.UnpicklingError(
                "rpc: a pickle has come, and none is allowed\n  remedy: "
                "rpc.allow_pickle() on both sides, where all are trusted"
            )
        plain = pickle.loads(octets[1:])
    else:
        plain = rl.load(io.BytesIO(octets[1:]))
    return pytree.tree_map(_restored, plain, is_leaf=_is_tagged)
