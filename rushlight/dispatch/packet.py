"""All overloads of one name: what users call, as a function and as a method."""

from __future__ import annotations

import cython
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.calling import enable_vectorcall, raise_mismatch
from cython.cimports.rushlight.dispatch.dispatcher import (
    FUNCTIONAL,
    INPLACE,
    OUT,
    Operator,
)
from cython.cimports.rushlight.dispatch.interception import intercept
from cython.cimports.rushlight.dispatch.outputs import (
    check_output_type,
    refuse_gradient,
)
from cython.cimports.rushlight.dispatch.signature import (
    MAX_ARGS,
    Bound,
    asks_within,
    keyword_dict,
    release,
    watchers,
)

from rushlight.core import naming
from rushlight.core.facts import with_requires_grad
from rushlight.core.geometry import broadcast_sizes
from rushlight.core.tensor import install
from rushlight.dispatch.declared import (
    BATCHING,
    IMPLEMENTATION,
    KIND,
    NAMESPACE,
    RULE,
    VARIANTS,
)
from rushlight.dispatch.deprecated_signatures import reordered
from rushlight.dispatch.dispatcher import (
    find_packet,
    forget,
    forget_packet,
    keep_for_good,
    packets,
)
from rushlight.dispatch.interception import PASS_BY as _PASS_BY
from rushlight.dispatch.named_overload import overload_named
from rushlight.dispatch.overload_aliases import covering

METHODS = cython.declare(cython.int, 6)  # among an entry's variants, in place or not
PASS_BY = cython.declare(object, _PASS_BY)
_DESCRIBERS = cython.declare(list, [])


@cython.cclass
class OperatorPacket:
    """All overloads of one name, as a function and as a method.

    >>> import rushlight as rl
    >>> rl.add
    <built-in operator add>
    """

    def __init__(self, namespace, name, overloads):
        self.vectorcall = cython.cast(cython.p_void, packet_vectorcall)
        self.name = name
        self.overloads = list(overloads)
        self.first = self.overloads[0]
        if self.first.entry:
            keep_for_good(self)
        packets().setdefault((namespace, name), self)

    def add_overload(self, op):
        """Let one more schema answer to this name."""
        self.overloads.append(op)

    def remove_overload(self, op):
        """Forget a schema."""
        self.overloads.remove(op)

    def as_function(self):
        """The packet of the functions, which call their tensor ``input``, not ``self``.

        Integers they take one by one first at most: as methods they may follow the
        tensor, ``x.permute(0, 1)``.
        """
        if self.function is None:
            twin: OperatorPacket = OperatorPacket(
                self.first.namespace, self.name, self.overloads
            )
            twin.overloads = self.overloads
            twin.strict = True
            self.function = twin
        return self.function

    def as_method(self):
        """The packet of the methods: modes and types can tell it from the function."""
        op: Operator
        own = [
            op
            for op in self.overloads
            if op.entry is None or op.entry[VARIANTS] & METHODS
        ]
        if len(own) in (0, len(self.overloads)):
            own = self.overloads  # and those that are added to it
        twin: OperatorPacket = MethodPacket(self.first.namespace, self.name, own)
        twin.overloads = own
        twin.method = True
        return twin

    @property
    def doc(self):
        """What the operator computes, in a sentence."""
        return _introspection().sentence(self)

    @property
    def __signature__(self):
        return _introspection().signature(self)

    @property
    def __text_signature__(self):
        return str(_introspection().signature(self))

    def __getattr__(self, name):
        if name in ("__name__", "__qualname__"):
            return self.name
        if name == "__objclass__" and self.method:
            return Tensor
        if name == "__module__":
            if not (self.strict or self.method):  # ops.aten.add, not the function
                return f"{naming.package}._ops.{self.first.namespace}"
            place = self.first.entry[NAMESPACE] if self.first.entry else None
            return f"{naming.package}.{place}" if place else naming.package
        if name.startswith("__"):
            raise AttributeError(f"the operator '{self.name}' has no {name}")
        for op in self.overloads:
            parts = op.name.split(".")
            if (parts[1] if len(parts) > 1 else "default") == name:
                return op
        for op in self.overloads:
            found = overload_named(op, name)
            if found is None and op.out is not None:
                found = overload_named(op.out, name)
            if found is not None:
                return found
        found = covering(self.overloads, name)
        if found is None:
            raise AttributeError(f"the operator '{self.name}' has no overload '{name}'")
        return found

    def __repr__(self):
        if self.method:
            return f"<method '{self.name}' of 'Tensor' objects>"
        return f"<built-in operator {self.name}>"

    def __str__(self):
        if self.method:
            return repr(self)
        return f"{self.first.namespace}.{self.first.name.split('.')[0]}"

    def __reduce__(self):
        if self.method:
            return (getattr, (Tensor, self.name))
        find = find_function if self.strict else find_packet
        return (find, (self.first.namespace, self.first.name.split(".")[0]))


@cython.cclass
class MethodPacket(OperatorPacket):
    """All overloads of one name as a method.

    Functions are no descriptors, as PyTorch's built-in ones are none: a class may hold
    one, ``activation = torch.relu``, and call it by ``self.activation(x)``.
    """

    def __get__(self, obj, kind):
        if obj is None:
            return self
        return BoundOperator(self, obj)


def describe_with(load):
    """Hand in what loads the module that knows docstrings: few programs ask for one."""
    _DESCRIBERS[:] = [load]


def _introspection():
    return _DESCRIBERS[0]()


def _docstring(packet):
    return _introspection().docstring(packet)


def _docstring_of_bound(method):
    return _docstring(method.packet)


def find_function(namespace, name):
    """The packet that users call as a function, by name: what pickles refer to."""
    return find_packet(namespace, name).as_function()


@cython.final
@cython.cclass
class BoundOperator:
    """A method looked up on a tensor and not called at once."""

    packet = cython.declare(object)
    owner = cython.declare(object)

    def __init__(self, packet, owner):
        self.packet = packet
        self.owner = owner

    def __call__(self, *args, **kwargs):
        return self.packet(self.owner, *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.packet, name)

    @property
    def __self__(self):
        return self.owner

    @property
    def __signature__(self):
        return _introspection().signature(self.packet, bound=True)

    @property
    def __text_signature__(self):
        return str(_introspection().signature(self.packet, bound=True))

    def __repr__(self):
        return f"<bound operator {self.packet.name} of a Tensor>"

    def __reduce__(self):
        return getattr, (self.owner, self.packet.name)


@cython.cfunc
def packet_vectorcall(
    self: p_object, args: pp_object, nargsf: cython.size_t, kwnames: p_object
) -> object:
    packet: OperatorPacket = cython.cast(OperatorPacket, self)
    bound: Bound
    op: Operator
    n: cython.Py_ssize_t = (nargsf << 1) >> 1
    code: cython.int
    ours: cython.bint = kwnames != cython.NULL and has_python_keyword(kwnames)
    if ours and packet.first.signature.find("out") < 0:
        if not is_out_alone(packet, args[n], kwnames):
            return call_with_keywords(packet, args, n, kwnames)
        if cython.cast(object, args[n]) is not None:
            return write_to(packet, args, n)
        if packet.method or not has_out(packet):
            raise TypeError(f"{packet.name}() got an unexpected keyword argument 'out'")
        kwnames = cython.NULL
    if (
        kwnames != cython.NULL
        and packet.first.scales_second
        and state().included & RECORDING
    ):
        scaled = scaled_second(packet, args, n, kwnames)
        if scaled is not None:
            return cython.cast(object, self)(*scaled[0], **scaled[1])
    started: cython.bint = False  # all slots are filled, and nobody else has the call
    bound.n_made = 0
    bound.strict = packet.strict
    op = packet.first
    try:
        code = op.signature.bind(args, n, kwnames, cython.address(bound))
        if code:
            op = choose_overload(packet, args, n, kwnames, cython.address(bound), code)
        if bound.exotic or watchers:
            answer = intercept(packet, args, n, kwnames)
            if answer is not PASS_BY:
                return answer
        started = True
        result = op.call(bound.slots)
    except (NotImplementedError, IndexError):
        if started:
            refuse_first(op, bound.slots)
        raise
    finally:
        if bound.n_made:
            release(cython.address(bound))
    if op.return_type is not None and isinstance(result, tuple):
        # plain, or named after the operator that it was made with
        return result if type(result) is op.return_type else op.return_type(result)
    if not op.returns and result is not None:
        return written_list(packet, args, n, kwnames)
    return tuple(result) if type(result) is list else result


@cython.cfunc
def scaled_second(
    packet: OperatorPacket, args: pp_object, n: cython.Py_ssize_t, kwnames: p_object
) -> object:
    """The arguments where a tensor is the factor: the second operand times it.

    A program that is recorded would have to read the number, and keep it.
    """
    rows = packet.first.signature.rows
    values: list = [cython.cast(object, args[i]) for i in range(n)]
    keywords: dict = keyword_dict(args, n, kwnames)
    factor = keywords.get(rows[len(rows) - 1][0])
    if not isinstance(factor, Tensor) or factor.ndim or factor.requires_grad:
        return None
    del keywords[rows[len(rows) - 1][0]]
    if n > 1:
        values[1] = values[1] * factor
    elif rows[1][0] in keywords:
        keywords[rows[1][0]] = keywords[rows[1][0]] * factor
    return values, keywords


@cython.cfunc
def written_list(
    packet: OperatorPacket, args: pp_object, n: cython.Py_ssize_t, kwnames: p_object
) -> object:
    """The list that a call has written to, as the caller gave it; operators give none."""
    i: cython.Py_ssize_t = 0
    if not packet.strict:
        return None
    if n == 0:
        i = cython.cast(tuple, cython.cast(object, kwnames)).index("self")
    return cython.cast(object, args[i])


# Sums of a tensor and a product, whose sizes are told of before what they are made of.
_PRODUCTS = frozenset(("addmm_", "addmv_", "baddbmm_"))


def refuse_product(own, first, second):
    """Refuse a product of other sizes than the tensor that it is added to in place."""
    rows = len(first) - 1
    sizes = [*first[:rows], *second[rows:]]
    if list(own) != sizes:
        raise RuntimeError(
            f"Bad in-place call: input tensor size {list(own)} and output tensor size "
            f"{sizes} should match"
        )


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_first(op: Operator, slots: pp_object) -> cython.int:
    """What is refused before a missing kernel is: writes past autograd, and shapes."""
    i: cython.int
    t: Tensor
    grad_mode: cython.bint = state().grad_mode
    sizes: list = []
    pointwise: cython.bint = (
        bool(op.entry) and op.entry[IMPLEMENTATION][KIND] == "pointwise"
    )
    # a function without a derivative, of results that could have one, is not watched
    kept_type: cython.bint = not pointwise or op.entry[RULE][0] != "promote_float"
    recorded: cython.bint
    refused: cython.bint
    for i in range(op.n_args):
        value = cython.cast(object, slots[i])
        if not isinstance(value, Tensor):
            continue
        t = value
        if grad_mode and t.wants_grad and op.form == OUT:
            # where nothing is recorded, what is written alone matters
            recorded = op.functional.derivative is not None or not pointwise
            if i < op.n_args - 1:
                refused = recorded and not op.out_detached
            else:
                refused = not op.out_leaf and (recorded or kept_type)
            if refused:
                refuse_gradient(op.base_name())
        if op.form != OUT or i < op.n_args - 1:
            sizes.append(t.shape)
    if not isinstance(cython.cast(object, slots[0]), Tensor):
        return (
            0  # a list of tensors: each call of the operators within has had its look
        )
    if op.form == INPLACE and grad_mode and sizes:
        t = cython.cast(object, slots[0])
        if t.wants_grad and t.is_leaf:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place "
                "operation."
            )
    if pointwise and op.form != FUNCTIONAL and op.entry[RULE][0] == "promote":
        from rushlight.dispatch.kernels import promoted_type

        last: cython.int = op.n_args - (op.form == OUT)
        values = [cython.cast(object, slots[i]) for i in range(last)]
        target = cython.cast(object, slots[op.n_args - 1 if op.form == OUT else 0])
        if isinstance(target, Tensor):
            check_output_type(
                op.out_rule,
                promoted_type([v for v in values if isinstance(v, Tensor)]),
                target,
                op.base_name(),
            )
    if op.form == INPLACE and op.name in _PRODUCTS and len(sizes) == 3:
        refuse_product(*sizes)
    each: cython.bint = bool(op.entry) and op.entry[BATCHING] == "elementwise"
    if (pointwise or each) and len(sizes) > 1:
        broadcast = broadcast_sizes(sizes)
        if op.form == INPLACE and tuple(broadcast) != tuple(sizes[0]):
            raise RuntimeError(
                f"output with shape {list(sizes[0])} doesn't match the broadcast shape "
                f"{list(broadcast)}"
            )
        target = cython.cast(object, slots[op.n_args - 1])
        if op.form == OUT and isinstance(target, Tensor):
            for i in range(op.n_args - 1):  # an operand that is written to cannot grow
                if cython.cast(object, slots[i]) is target and tuple(
                    broadcast
                ) != tuple(target.shape):
                    raise RuntimeError(
                        f"output with shape {list(target.shape)} doesn't match the "
                        f"broadcast shape {list(broadcast)}"
                    )
    return 0


@cython.cfunc
def choose_overload(
    packet: OperatorPacket,
    args: pp_object,
    n: cython.Py_ssize_t,
    kwnames: p_object,
    bound: cython.pointer(Bound),
    code: cython.int,
) -> Operator:
    """The first further overload that takes the arguments."""
    op: Operator
    i: cython.int
    for i in range(1, len(packet.overloads)):
        op = packet.overloads[i]
        release(bound)
        if op.signature.bind(args, n, kwnames, bound) == 0:
            return op
    older = reordered(
        packet,
        tuple([cython.cast(object, args[i]) for i in range(n)]),
        keyword_dict(args, n, kwnames),
    )
    if older is not None:
        return bind_reordered(packet, older[0], older[1], bound)
    raise_mismatch(packet.name, packet.overloads, args, n, kwnames, code, packet.method)


@cython.cfunc
def bind_reordered(
    packet: OperatorPacket,
    values: tuple,
    keywords: dict,
    bound: cython.pointer(Bound),
) -> Operator:
    """Bind arguments that came in an older order; the caller keeps them alive."""
    op: Operator
    i: cython.int
    raw: p_object[64]
    names: tuple = tuple(keywords)
    given: list = [*values, *keywords.values()]
    if len(given) > 64:
        raise TypeError(f"{packet.name}() got {len(given)} arguments")
    for i in range(len(given)):
        raw[i] = cython.cast(p_object, given[i])
    code: cython.int = 0
    for op in packet.overloads:
        release(bound)
        code = op.signature.bind(raw, len(values), cython.cast(p_object, names), bound)
        if code == 0:
            return op
    raise_mismatch(
        packet.name,
        packet.overloads,
        raw,
        len(values),
        cython.cast(p_object, names),
        code,
        packet.method,
    )


@cython.cfunc
@cython.exceptval(check=False)
def has_python_keyword(kwnames: p_object) -> cython.bint:
    """Whether ``out`` or ``requires_grad``, which no schema lists, is given."""
    for name in cython.cast(tuple, cython.cast(object, kwnames)):
        if name == "out" or name == "requires_grad":
            return True
    return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_out_alone(
    packet: OperatorPacket, value: p_object, kwnames: p_object
) -> cython.bint:
    """Whether all that is named is ``out``, and it is a tensor or None."""
    names: tuple = cython.cast(tuple, cython.cast(object, kwnames))
    item = cython.cast(object, value)
    return (
        len(names) == 1
        and not packet.method
        and (item is None or type(item) is Tensor)
        and names[0] == "out"
        and not watchers
        and packet.first.n_args < MAX_ARGS
        and packet.first.signature.find("out") < 0
    )


@cython.cfunc
def write_to(packet: OperatorPacket, args: pp_object, n: cython.Py_ssize_t) -> object:
    """The ``out=`` form of the first overload, if it takes the arguments."""
    bound: Bound
    op: Operator = packet.first
    target = cython.cast(object, args[n])
    names: tuple = ("out",)
    bound.n_made = 0
    bound.strict = packet.strict
    try:
        if (
            op.out is not None
            and op.device_arg < 0
            and op.return_type is None
            and len(op.returns) == 1
            and op.returns[0][0] == 0
            and op.name != "sum"
            and op.name != "prod"
            and not op.signature.bind(args, n, cython.NULL, cython.address(bound))
            and not bound.exotic
        ):
            bound.slots[op.n_args] = cython.cast(p_object, target)
            try:
                return op.out.call(bound.slots)
            except (NotImplementedError, IndexError):
                refuse_first(op.out, bound.slots)
                raise
    finally:
        release(cython.address(bound))
    return call_with_keywords(packet, args, n, cython.cast(p_object, names))


@cython.cfunc
def call_with_keywords(
    packet: OperatorPacket, args: pp_object, n: cython.Py_ssize_t, kwnames: p_object
) -> object:
    """``requires_grad`` is set on a factory's result; ``out`` chooses another form."""
    i: cython.Py_ssize_t
    asked: cython.bint = watchers > 0
    for i in range(n + len(cython.cast(tuple, cython.cast(object, kwnames)))):
        asked = asked or asks_within(cython.cast(object, args[i]))
    if asked:
        answer = intercept(packet, args, n, kwnames)
        if answer is not PASS_BY:
            return answer
    keywords = keyword_dict(args, n, kwnames)
    if (
        "requires_grad" not in keywords
        or packet.first.signature.find("requires_grad") >= 0
    ):
        if "out" in keywords and packet.first.signature.find("out") < 0:
            return call_with_out(packet, args, n, kwnames)
        keywords = keyword_dict(args, n, kwnames)
    elif packet.first.device_arg < 0:
        raise TypeError(
            f"{packet.name}() got an unexpected keyword argument 'requires_grad'"
        )
    wanted = keywords.pop("requires_grad", False)
    if wanted is not None and type(wanted) is not bool:
        raise TypeError(
            f"{packet.name}(): argument 'requires_grad' must be bool, not "
            f"{type(wanted).__name__}"
        )
    result = cython.cast(object, cython.cast(p_object, packet))(
        *[cython.cast(object, args[i]) for i in range(n)], **keywords
    )
    return with_requires_grad(result, wanted)


@cython.cfunc
def call_with_out(
    packet: OperatorPacket, args: pp_object, n: cython.Py_ssize_t, kwnames: p_object
) -> object:
    """Bind without ``out``, then call the out= form; ``out=None`` changes nothing."""
    i: cython.int
    positional = tuple([cython.cast(object, args[i]) for i in range(n)])
    keywords = keyword_dict(args, n, kwnames)
    out = keywords.pop("out")
    if packet.method or not has_out(packet):
        raise TypeError(f"{packet.name}() got an unexpected keyword argument 'out'")
    if out is None:
        return cython.cast(object, cython.cast(p_object, packet))(
            *positional, **keywords
        )
    bound: Bound
    op: Operator
    first_code: cython.int = 0
    code: cython.int
    values: list = list(positional) + list(keywords.values())
    raw: p_object[64]
    if len(values) > 64:
        raise TypeError(f"{packet.name}() got {len(values)} arguments")
    for i in range(len(values)):
        raw[i] = cython.cast(p_object, values[i])
    names = tuple(keywords)
    for op in packet.overloads:
        bound.n_made = 0
        bound.strict = packet.strict
        code = op.signature.bind(
            raw, n, cython.cast(p_object, names), cython.address(bound)
        )
        first_code = first_code or code
        if code == 0 and op.out is not None:
            if op.name == "sum" or op.name == "prod":
                release(cython.address(bound))
                raise TypeError(
                    f"{op.name}() received an invalid combination of arguments: out= "
                    "goes with dim="
                )
            try:
                check_out(op, out)
                if op.device_arg >= 0:
                    take_options(op, cython.address(bound), out)
                bound.slots[op.n_args] = cython.cast(p_object, out)
                result = op.out.call(bound.slots)
                if op.out.return_type is not None and isinstance(result, tuple):
                    return op.out.return_type(result)
                return result
            except (NotImplementedError, IndexError):
                refuse_first(op.out, bound.slots)
                raise
            finally:
                release(cython.address(bound))
        release(cython.address(bound))
    if first_code:
        older = reordered(packet, positional, keywords)
        if older is not None:
            return cython.cast(object, cython.cast(p_object, packet))(
                *older[0], **older[1], out=out
            )
        raise_mismatch(
            packet.name,
            packet.overloads,
            raw,
            n,
            cython.cast(p_object, names),
            first_code,
            packet.method,
        )
    raise TypeError(f"{packet.name}() got an unexpected keyword argument 'out'")


@cython.cfunc
def has_out(packet: OperatorPacket) -> cython.bint:
    """Whether an operator writes to tensors that are there, in any form."""
    op: Operator
    for op in packet.overloads:
        if op.out is not None:
            return True
    return False


@cython.cfunc
def check_out(op: Operator, out: object):
    several: cython.bint = len(op.returns) > 1 or op.returns[0][0] == 2
    if several:
        if isinstance(out, (tuple, list)) and all(isinstance(t, Tensor) for t in out):
            return
        raise TypeError(
            f"{op.name.split('.')[0]}(): argument 'out' must be tuple of Tensors, not "
            f"{type(out).__name__}"
        )
    if not isinstance(out, Tensor):
        raise TypeError(
            f"{op.name.split('.')[0]}(): argument 'out' must be Tensor, not "
            f"{type(out).__name__}"
        )


@cython.cfunc
def take_options(op: Operator, bound: cython.pointer(Bound), out: Tensor):
    """A factory's result gets the type and the device of ``out``: none, or the same."""
    i: cython.int = op.signature.find("dtype")
    dtype = out.dtype_
    device = out.storage.device
    if i >= 0 and cython.cast(object, bound.slots[i]) is None:
        bound.slots[i] = cython.cast(p_object, dtype)
    elif i >= 0 and cython.cast(object, bound.slots[i]) is not dtype:
        raise RuntimeError(
            f"dtype {cython.cast(object, bound.slots[i])} does not match dtype of out "
            f"parameter ({dtype})"
        )
    if cython.cast(object, bound.slots[op.device_arg]) is None:
        bound.slots[op.device_arg] = cython.cast(p_object, device)
    elif cython.cast(object, bound.slots[op.device_arg]).type != device.type:
        raise RuntimeError(
            f"device type {cython.cast(object, bound.slots[op.device_arg]).type} does not "
            f"match device type of out parameter ({device.type})"
        )


def _install_vectorcall():
    operator: Operator = Operator("aten", "_probe", (), ())
    packet: OperatorPacket = OperatorPacket("aten", "_probe", [operator])
    field = cython.address(packet.vectorcall)
    enable_vectorcall(OperatorPacket, packet, field, 1 << 11)
    # a method descriptor, too: `x.add(y)` makes no bound object
    enable_vectorcall(MethodPacket, packet, field, (1 << 11) | (1 << 17))
    forget(operator)
    forget_packet("aten", "_probe")


_install_vectorcall()
# The compiler keeps the name for the classes' own docstrings, which they still answer with.
install("__doc__", property(_docstring), OperatorPacket)
install("__doc__", property(_docstring), MethodPacket)
install("__doc__", property(_docstring_of_bound), BoundOperator)
