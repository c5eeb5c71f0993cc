"""Operators and kernels from outside: what Rushlight itself is built with.

A library defines operators by schema, gives them kernels for dispatch keys, and makes
them differentiable. Everything it adds goes away again with ``_destroy`` or with the
end of a ``_scoped_library``.
"""

import contextlib
import functools
import inspect

from rushlight.core.warning import warn_once
from rushlight.dispatch import schema as schemas
from rushlight.dispatch.dispatcher import (
    Derivative,
    Operator,
    count_foreign,
    count_replacement,
    forget,
    forget_packet,
    packets,
)
from rushlight.dispatch.guard import Guard
from rushlight.dispatch.infer import infer_schema
from rushlight.dispatch.keys import BACKENDS, DispatchKey, KeySet, keys_named
from rushlight.dispatch.packet import OperatorPacket
from rushlight.dispatch.python_kernels import PythonKernel, set_fallback
from rushlight.dispatch.tags import GIVEN

_COMPOSITE = "CompositeImplicitAutograd"


def fallthrough_kernel(*args):
    """Register this for a key that calls should pass by."""
    raise RuntimeError("fallthrough_kernel only marks a key; it is never called")


class Library:
    """A set of operator definitions and kernels under one namespace.

    Args:
        ns: the namespace, such as ``"mylib"``.
        kind: ``"DEF"`` or ``"FRAGMENT"`` to define operators, ``"IMPL"`` to add kernels
            to operators that exist.
        dispatch_key: where ``impl`` registers by default.

    >>> import rushlight as rl
    >>> lib = rl.library.Library("doc_example", "DEF")
    >>> lib.define("twice(Tensor x) -> Tensor")
    'twice'
    >>> lib.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
    >>> rl.ops.doc_example.twice(rl.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported library kind: {kind}")
        if kind == "DEF" and ns in ("aten", "prims"):
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with "
                "another name."
            )
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key
        self._undo = []

    def define(self, schema, alias_analysis="", *, tags=()):
        """Define an operator by its schema; returns its name.

        Raises:
            RuntimeError: the name exists already, or this is an ``"IMPL"`` library.
        """
        if self.kind == "IMPL":
            raise RuntimeError("a library of kind 'IMPL' cannot define operators")
        parsed = schemas.parse(schema)
        name = f"{parsed.name}.{parsed.overload}" if parsed.overload else parsed.name
        base = parsed.name
        packet = packets().get((self.ns, base))
        if packet is not None and any(op.name == name for op in packet.overloads):
            raise RuntimeError(
                f"Tried to register an operator ({self.ns}::{schema}) with the same name "
                "and overload name multiple times."
            )
        rows, returns = schemas.argument_rows(parsed), schemas.return_rows(parsed)
        written = bool(rows) and bool(rows[0][5] & schemas.WRITTEN)
        fresh = bool(returns) and returns[0][2] != 2
        op = Operator(
            self.ns,
            name,
            rows,
            returns,
            form=1 if written and not fresh else 0,
            is_view=bool(returns) and returns[0][2] == 1,
        )
        if packet is None:
            OperatorPacket(self.ns, base, [op])
            self._undo.append(lambda: forget_packet(self.ns, base))
        else:
            packet.add_overload(op)
            self._undo.append(lambda: packet.remove_overload(op))
        self._undo.append(lambda: forget(op))
        if tags:
            GIVEN[op] = tags if isinstance(tags, (list, tuple, set)) else (tags,)
            self._undo.append(lambda: GIVEN.pop(op, None))
        return name

    def _operator(self, op_name):
        if isinstance(op_name, Operator):
            return op_name
        if isinstance(op_name, OperatorPacket):
            return op_name.overloads[0]
        return find_operator(op_name, self.ns)

    def impl(
        self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=True
    ):
        """Run ``fn`` for an operator at a dispatch key.

        Args:
            fn: called with the schema's arguments by position, or `fallthrough_kernel`.
            dispatch_key: a key's name, ``"CompositeImplicitAutograd"`` for a
                decomposition that autograd sees through, or
                ``"CompositeExplicitAutograd"`` for every backend.
            with_keyset: pass the keys of the call as first argument, for
                ``op.redispatch(keyset.below(key), ...)``.
            allow_override: replace what was registered from Python before.

        Raises:
            RuntimeError: there is a kernel, which may not be replaced.
        """
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        count_replacement()
        op = self._operator(op_name)
        key = dispatch_key or self.dispatch_key or _COMPOSITE
        if key == _COMPOSITE:
            self._count_foreign(op)
            before = op.composite
            op.set_composite(PythonKernel(_fitted(op, fn, with_keyset)))
            self._undo.append(lambda: op.set_composite(before))
            return
        keys = keys_named(key)
        # casts stand above the kernels that a plan is made of
        above = {one[0] if isinstance(one, tuple) else one for one in keys}
        if above != {DispatchKey.Autocast}:
            self._count_foreign(op)
        for one in keys:
            if isinstance(one, tuple):
                self._set_for_backend(op, *one, fn, with_keyset)
            else:
                self._set(op, one, fn, with_keyset, allow_override)
        if key == "CompositeExplicitAutograd":
            make_general(op, keys)
            self._undo.append(lambda: forget_general(op))

    def _set_for_backend(self, op, key, backend, fn, with_keyset):
        before = op.by_backend.get((int(key), int(backend)))
        kernel = PythonKernel(fn, with_keyset)
        if fn is fallthrough_kernel:
            kernel = PythonKernel(_below(op, key), True)
        op.set_backend_kernel(key, backend, kernel)
        self._undo.append(lambda: op.set_backend_kernel(key, backend, before))

    def _set(self, op, key, fn, with_keyset, allow_override):
        before = op.kernels.get(int(key))
        if isinstance(before, PythonKernel) and not allow_override:
            raise RuntimeError(
                "This is not allowed since there's already a kernel registered from "
                f"python overriding {op.name}'s behavior for {key.name} dispatch key and "
                f"{op.namespace} namespace."
            )
        general = (op, int(key)) in _general
        _general.discard((op, int(key)))
        if before is not None and fn is not fallthrough_kernel and not general:
            warn_once(
                "Warning only once for all operators,  other operators may also be "
                "overridden.\n  Overriding a previously registered kernel for the same "
                "operator and the same dispatch key\n"
                f"  operator: {op.namespace}::{op.name}\n  dispatch key: {key.name}",
                key="a kernel is overridden",
            )
        if fn is fallthrough_kernel:
            op.set_fallthrough(key)
            self._undo.append(lambda: op.clear_fallthrough(key))
            return
        op.set_kernel(key, PythonKernel(_fitted(op, fn, with_keyset), with_keyset))
        self._undo.append(lambda: op.set_kernel(key, before))

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        """Run ``fn(op, *args)`` for every operator that has no kernel at a key.

        Args:
            fn: called with the operator and its arguments by position.
            dispatch_key: a key's name; the library's own by default.
            with_keyset: ``fn(keys, op, *args)``, for ``op.redispatch`` with other keys.
        """
        key = dispatch_key or self.dispatch_key
        if not key:
            raise ValueError("fallback needs a dispatch key")
        count_replacement()
        self._count_foreign(None)
        for one in keys_named(key):
            if isinstance(one, tuple):
                raise ValueError(f"fallbacks serve keys, not one backend of one: {key}")
            set_fallback(one, fn, with_keyset)
            self._undo.append(functools.partial(set_fallback, one, None))

    def pointwise(self, op_name, kernel, *, dtype="promote"):
        """Compute an operator by a ``@pointwise`` expression, as built-in ones are.

        Args:
            kernel: a function of symbolic scalars, one for each schema argument.
            dtype: how the result's type follows from the operands': ``"promote"``,
                ``"promote_float"``, ``"bool"`` or ``"same"``.
        """
        from rushlight.codegen.frontend.pointwise import Pointwise, pointwise
        from rushlight.dispatch.kernels import PointwiseKernel

        count_replacement()
        op = self._operator(op_name)
        source = kernel if isinstance(kernel, Pointwise) else pointwise(kernel)
        rows = op.signature.rows
        static = tuple(i for i, row in enumerate(rows) if 7 <= row[1] <= 25)
        promoting = tuple(i for i, row in enumerate(rows) if row[1] in (0, 4))
        made = PointwiseKernel(source, op, dtype, promoting, static, "")
        for key in (DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.Meta):
            op.set_kernel(key, made)
            self._undo.append(functools.partial(op.set_kernel, key, None))

    def derivative(self, op_name, formula, *, saved=(), inputs=None):
        """Make an operator differentiable at the cost of a built-in one.

        Args:
            formula: ``formula(needs, grad, *saved)`` returns the gradient of the one
                differentiable input, or a tuple with one for each; bit ``i`` of
                ``needs`` says whether input ``i`` wants it.
            saved: names of arguments, or ``"result"``, that the formula receives.
            inputs: names of the differentiable inputs; by default all tensors.
        """
        count_replacement()
        op = self._operator(op_name)
        names = [row[0] for row in op.signature.rows]
        if inputs is None:
            inputs = [row[0] for row in op.signature.rows if row[1] <= 4]
        groups = tuple(
            (names.index(name), op.signature.rows[names.index(name)][1] in (2, 3))
            for name in inputs
        )
        kept = tuple(
            (1, 0, 0) if name == "result" else (0, names.index(name), 0)
            for name in saved
        )
        flags = 4 if "result" in saved else 0
        before = op.derivative
        op.set_derivative(
            Derivative(
                "",
                "",
                kept,
                groups,
                flags,
                tuple(range(max(1, len(op.returns)))),
                formula,
            )
        )
        self._undo.append(lambda: op.set_derivative(before))

    def _count_foreign(self, op):
        """No plan has an operator in it, or where it is None any, that is not ours."""
        count_foreign(op, 1)
        self._undo.append(lambda: count_foreign(op, -1))

    def _destroy(self):
        """Take back all that this library registered."""
        count_replacement()
        while self._undo:
            self._undo.pop()()


def _fitted(op, fn, with_keyset):
    """A function that takes all of an operator's arguments by position, and calls ``fn``.

    Keyword-only arguments are passed by name, and what ``fn`` has no place for is left
    out where it has its default.
    """
    rows, defaults = op.signature.rows, op.signature.defaults
    names = [row[0] for row in rows if row[3]]
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return fn
    kinds = [parameter.kind for parameter in parameters]
    positions = sum(kind in _BY_POSITION for kind in kinds) - with_keyset
    any_number = inspect.Parameter.VAR_POSITIONAL in kinds
    named = bool(names) and not _BY_NAME.isdisjoint(kinds)
    if not named and (any_number or positions >= len(rows)):
        return fn
    count = len(rows) - len(names)

    def fitted(*slots):
        first, slots = slots[:with_keyset], slots[with_keyset:]
        args = slots[:count]
        while not any_number and len(args) > positions:
            default = defaults[len(args) - 1]
            if type(args[-1]) is not type(default) or args[-1] != default:
                break
            args = args[:-1]
        keywords = zip(names, slots[count:], defaults[count:])
        return fn(*first, *args, **{n: v for n, v, d in keywords if v is not d})

    return functools.update_wrapper(fitted, fn)


_BY_POSITION = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_BY_NAME = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}


def _below(op, key):
    """What passes a call on as if a key were not there."""

    def pass_on(keys, *args):
        return op.redispatch(keys.below(key), *args)

    return pass_on


@contextlib.contextmanager
def _scoped_library(*args):
    library = Library(*args)
    try:
        yield library
    finally:
        library._destroy()


def find_operator(name, namespace=None):
    """The operator called ``ns::name.overload``.

    Raises:
        RuntimeError: there is none of that name.
    """
    if "::" in name:
        namespace, _, name = name.partition("::")
    base, _, overload = name.partition(".")
    packet = packets().get((namespace, base))
    for op in packet.overloads if packet is not None else ():
        if op.name == name or (overload == "default" and op.name == base):
            return op
    if packet is not None and not overload:
        return packet.overloads[0]
    raise RuntimeError(f"operator {namespace}::{name} does not exist")


def define(qualname, schema, *, lib=None, tags=()):
    """Define the operator ``ns::name`` with a schema that starts at its arguments.

    Args:
        qualname: ``"namespace::name"``.
        schema: the schema, from its arguments on.
        lib: the library that the operator goes away with.
        tags: what can be said of it.

    With a `Library` in place of the name it is a decorator: the schema has the operator's
    name, and the function is what it does.

    >>> import rushlight as rl
    >>> rl.library.define("doc_define::half", "(Tensor x) -> Tensor")
    >>> rl.library.impl("doc_define::half", "cpu", lambda x: x / 2)(rl.ones(1))
    tensor([0.5000])
    """
    if isinstance(qualname, Library):
        return impl(qualname, qualname.define(schema))
    namespace, _, name = qualname.partition("::")
    library = lib or _fragment(namespace)
    library.define(name + schema, tags=tags)


def impl(qualname, types, func=None, *, lib=None):
    """Run ``func`` for an operator on device types; a decorator without ``func``.

    Args:
        qualname: ``"namespace::name"``.
        types: a kind of device or a dispatch key, or several.
        func: takes the schema's arguments.
        lib: the library that it goes away with.

    ``impl(library, name, dispatch_key="")``, with a `Library` first, is a decorator, too.

    Raises:
        ValueError: there is no such kind.

    >>> import rushlight as rl
    >>> rl.library.define("doc_impl::half", "(Tensor x) -> Tensor")
    >>> @rl.library.impl("doc_impl::half", "cpu")
    ... def half(x):
    ...     return x / 2
    >>> rl.ops.doc_impl.half(rl.ones(1))
    tensor([0.5000])
    """
    if isinstance(qualname, Library):
        return functools.partial(_implemented, qualname, types, func or "")
    if func is None:
        return lambda function: impl(qualname, types, function, lib=lib)
    namespace, _, name = qualname.partition("::")
    library = lib or _fragment(namespace)
    for kind in (types,) if isinstance(types, str) else types:
        key = _DEVICE_KEYS.get(kind, kind)
        if key != _COMPOSITE and not _is_key(key):
            raise ValueError(
                f"unknown device type '{kind}': one of {', '.join(_DEVICE_KEYS)}"
            )
        library.impl(name, func, key)
    return func


def _is_key(name):
    with contextlib.suppress(ValueError):
        return bool(keys_named(name))
    return False


def _implemented(library, name, key, function):
    library.impl(name, function, key)
    return function


_DEVICE_KEYS = {
    "default": "CompositeExplicitAutograd",
    "cpu": "CPU",
    "cuda": "CUDA",
    "meta": "Meta",
    "privateuseone": "PrivateUse1",
}
register_kernel = impl
_fragments = {}


def _fragment(namespace):
    if namespace not in _fragments:
        _fragments[namespace] = Library(namespace, "FRAGMENT")
    return _fragments[namespace]


# Operators from outside whose results' sizes a function tells, and the function.
with_fakes: dict = {}
# Operators and keys whose kernel was given for all backends: one's own replaces it quietly.
_general: set = set()


def make_general(op, keys):
    """Has other kernels of an operator at some keys replace those there quietly."""
    _general.update((op, int(one)) for one in keys)


def forget_general(op):
    """Forgets which kernels of an operator were given for all backends."""
    _general.difference_update([one for one in _general if one[0] is op])


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=True):
    """Give an operator a function for shapes: what runs for meta tensors.

    Args:
        op: the operator, or its name ``ns::name``.
        func: takes the operator's arguments; a decorator without it.
        lib: the library that the function goes away with.
        allow_override: replace what was registered before.

    >>> import rushlight as rl
    >>> @rl.library.custom_op("doc_fake::twice", mutates_args=())
    ... def twice(x: rl.Tensor) -> rl.Tensor:
    ...     return x * 2
    >>> _ = rl.library.register_fake("doc_fake::twice", lambda x: rl.empty_like(x))
    >>> twice(rl.ones(3, device="meta")).shape
    rushlight.Size([3])
    """
    if func is None:
        return lambda function: register_fake(
            op, function, lib=lib, allow_override=allow_override
        )
    namespace, _, name = qualname_of(op).partition("::")
    library = lib or _fragment(namespace)
    library.impl(name, func, "Meta", allow_override=allow_override)
    found = library._operator(name)
    with_fakes[found] = func
    if lib is not None:
        lib._undo.append(lambda: with_fakes.pop(found, None))
    return func


def qualname_of(op):
    if isinstance(op, str):
        return op
    return getattr(op, "_qualname", None) or f"{op.namespace}::{op.name}"


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """Make an operator differentiable by ``backward(ctx, *grads)``.

    Args:
        setup_context: ``setup_context(ctx, inputs, output)`` saves what backward needs.
        op: the operator, or its name ``ns::name``.
        backward: from what arrives to the gradients of the arguments.
        lib: the library that the formula goes away with.

    >>> import rushlight as rl
    >>> @rl.library.custom_op("doc_learns::twice", mutates_args=())
    ... def twice(x: rl.Tensor) -> rl.Tensor:
    ...     return x * 2
    >>> rl.library.register_autograd("doc_learns::twice", lambda ctx, grad: grad * 2)
    >>> x = rl.ones(1, requires_grad=True)
    >>> twice(x).backward()
    >>> x.grad
    tensor([2.])
    """
    from rushlight.autograd.outside import recorder

    namespace, _, name = qualname_of(op).partition("::")
    (lib or _fragment(namespace)).impl(
        name,
        recorder(find_operator(name, namespace), backward, setup_context),
        "Autograd",
        with_keyset=True,
        allow_override=True,
    )


def _excluded(*keys):
    """Calls inside pass the given keys by, in this thread."""
    return Guard(exclude=KeySet.of(*keys))


__all__ = [
    "BACKENDS",
    "Library",
    "define",
    "fallthrough_kernel",
    "find_operator",
    "impl",
    "infer_schema",
    "register_autograd",
    "register_fake",
    "register_kernel",
]
