"""Puts nodes into a graph: constants, operators by their schemas, conversions."""

import enum

import rushlight as torch
from rushlight.jit import _runtime, _schemas, _types
from rushlight.jit._schemas import Misfit
from rushlight.jit._sources import Range, error
from rushlight.jit._sugar import Fixed, PythonValue, Stored, Sugar, Undefined
from rushlight.jit._types import (
    BoolType,
    ComplexType,
    DeviceObjType,
    FloatType,
    IntType,
    ListType,
    NoneType,
    NumberType,
    OptionalType,
    StringType,
    TensorType,
    TupleType,
)
from rushlight.jit.ir import Block, Node, Value

INT, FLOAT, BOOL = IntType.get(), FloatType.get(), BoolType.get()
STR, NONE, TENSOR = StringType.get(), NoneType.get(), TensorType.get()
NUMBER, COMPLEX, DEVICE = NumberType.get(), ComplexType.get(), DeviceObjType.get()
NUMBERS = (INT, FLOAT, COMPLEX, NUMBER)
_IMPLICIT = {INT: "IntImplicit", FLOAT: "FloatImplicit", NUMBER: "ScalarImplicit"}
AS_GIVEN, FROM_TENSORS, FROM_NUMBERS, WITH_NUMBERS = range(4)

_CONSTANTS = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    complex: COMPLEX,
    str: STR,
    type(None): NONE,
}


class Emitter:
    """Adds nodes at the end of the current block of a graph."""

    def __init__(self, unit, source, graph):
        self.unit, self.source, self.graph = unit, source, graph
        self.block = graph

    def place(self, tree):
        """Where a part of the tree stands."""
        return (
            tree
            if isinstance(tree, Range) or tree is None
            else Range.of(self.source, tree)
        )

    def refuse(self, message, tree):
        """The exception for what is wrong at a part of the tree."""
        return error(message, self.place(tree))

    def refuse_undefined(self, sugar, tree):
        """The exception for a name that not every way here defines."""
        made = self.refuse(sugar.message, sugar.place or tree)
        if sugar.place is None:
            return made
        used = self.place(tree).highlight()
        return type(made)(f"\n{made}and was used here:\n{used}\n")

    def add(self, kind, inputs, tree, **attributes):
        """A node at the end of the block; it has no results yet."""
        return self.block.append(
            Node(self.graph, kind, inputs, self.place(tree), **attributes)
        )

    def one(self, kind, inputs, tree, result, **attributes):
        """A node with one result, which is given back."""
        return self.add(kind, inputs, tree, **attributes).makes(result)

    def inner(self, node):
        """A block inside of a node."""
        block = Block(self.graph, node)
        node.blocks_.append(block)
        return block

    # -- constants ---------------------------------------------------------------------

    def literal(self, number, tree):
        """The value of a number in the source, one for all places that have it."""
        for node in self.graph.literals:
            known = node.attributes["value"]
            if type(known) is type(number) and repr(known) == repr(number):
                return node.outputs_[0]
        node = Node(self.graph, "prim::Constant", [], self.place(tree), value=number)
        node.owner = self.graph
        self.graph.literals.append(node)
        return node.makes(_CONSTANTS[type(number)])

    def constant(self, python, tree=None):
        """The value of an object of Python.

        Raises:
            ScriptError: programs have no values of its type.
        """
        kind = _CONSTANTS.get(type(python))
        if kind is not None:
            return self.one("prim::Constant", [], tree, kind, value=python)
        if isinstance(python, (torch.dtype, torch.layout, torch.memory_format)):
            return self.one(
                "prim::Constant", [], tree, INT, value=_runtime.code_of(python)
            )
        if isinstance(python, torch.device):
            return self.one("prim::Constant", [], tree, DEVICE, value=python)
        if isinstance(python, torch.Tensor):
            return self.one("prim::Constant", [], tree, TENSOR, value=python)
        if isinstance(python, enum.Enum):
            kind = self.unit.enum_type(type(python), self.place(tree))
            return self.one("prim::Constant", [], tree, kind, value=python)
        if isinstance(python, (bool, int, float, str)):
            for plain in (int, float, str):
                if isinstance(python, plain):
                    return self.constant(plain(python), tree)
        return self.constants(python, tree)

    def constants(self, python, tree):
        """A list, tuple or dictionary of constants."""
        if isinstance(python, (tuple, torch.Size)):
            return self.tuple_of([self.constant(item, tree) for item in python], tree)
        if isinstance(python, list):
            return self.list_of([self.constant(item, tree) for item in python], tree)
        if isinstance(python, dict):
            flat = [self.constant(v, tree) for pair in python.items() for v in pair]
            return self.dict_of(flat, tree)
        raise self.refuse(
            f"python value of type '{type(python).__name__}' cannot be used as a value. "
            "Perhaps it is a closed over global variable? If so, please consider passing "
            "it in as an argument or use a local variable instead.",
            tree,
        )

    def none(self, tree=None):
        """The value None."""
        return self.constant(None, tree)

    def known(self, value):
        """The constant that a value is, in a tuple of one; None where it is none."""
        if value.node is not None and value.node.kind_ == "prim::Constant":
            return (value.node.attributes["value"],)
        return None

    def tuple_of(self, values, tree, kind=None):
        """A tuple of values."""
        kind = kind or TupleType([value.type for value in values])
        return self.one("prim::TupleConstruct", values, tree, kind)

    def list_of(self, values, tree, element=None):
        """A list of values of one type."""
        if element is None:
            element = values[0].type if values else TENSOR
            for value in values[1:]:
                wider = _types.unify(element, value.type)
                if wider is None:
                    raise self.refuse(
                        "Lists must contain only a single type\nExpected: "
                        f"{element} but got {value.type}",
                        tree,
                    )
                element = wider
        return self.one("prim::ListConstruct", values, tree, ListType(element))

    def dict_of(self, flat, tree, kind=None, positions=()):
        """A dictionary of keys and values in turn."""
        if kind is None:
            keys, values = zip(*positions) if positions else ((), ())
            key = self.one_type("Dict keys", flat[::2], tree, keys) if flat else STR
            value = TENSOR
            if flat:
                value = self.one_type("Dict values", flat[1::2], tree, values)
            kind = _types.DictType(key, value)
        return self.one("prim::DictConstruct", flat, tree, kind)

    def one_type(self, what, values, tree, positions=()):
        """The type that holds all values."""
        kind = values[0].type
        for at, value in enumerate(values):
            wider = _types.unify(kind, value.type)
            if wider is None:
                raise self.refuse(
                    f"{what} must contain only a single type. Expected: {kind} but found "
                    f"{value.type} instead",
                    positions[at] if positions else tree,
                )
            kind = wider
        return kind

    def value(self, sugar, tree):
        """The value of the graph that something is.

        Raises:
            ScriptError: it is nothing that a program can hold.
        """
        if isinstance(sugar, Value):
            return sugar
        if isinstance(sugar, Undefined):
            raise self.refuse_undefined(sugar, tree)
        if isinstance(sugar, Fixed):
            return self.tuple_of([self.value(item, tree) for item in sugar.items], tree)
        if isinstance(sugar, PythonValue):
            return self.python_constant(sugar, tree)
        if isinstance(sugar, Stored):
            return self.constant(sugar.python, tree)
        raise self.refuse(f"{sugar.kind} cannot be used as a value", tree)

    def python_constant(self, sugar, tree):
        """The value of a Python object that was named."""
        python = sugar.python
        if isinstance(python, torch.Tensor):
            raise self.refuse(
                "python value of type 'Tensor' cannot be used as a value. Perhaps it is a "
                "closed over global variable? If so, please consider passing it in as an "
                "argument or use a local variable instead.",
                tree,
            )
        return self.constant(python, tree)

    # -- operators ---------------------------------------------------------------------

    def call(self, name, operands, tree, **named):
        """The result of an operator on operands.

        Raises:
            ScriptError: no overload takes them.
        """
        found = self.fits(name, operands, named, tree)
        if found is None:
            raise self.refuse(self.misfits(name, operands, named), tree)
        return self.run_schema(name, *found, tree)

    def fits(self, name, operands, named, tree):
        """The first overload that takes the operands, with what it is given."""
        tensors = any(v.type == TENSOR for v in (*operands, *named.values()))
        for way in (AS_GIVEN, WITH_NUMBERS, FROM_TENSORS, FROM_NUMBERS):
            for schema in _schemas.overloads(name):
                variables: dict = {}
                if way == WITH_NUMBERS and schema.operator is None:
                    continue
                if way >= FROM_NUMBERS and not tensors and schema.operator is not None:
                    continue  # only the registry's overloads take numbers for tensors
                try:
                    listed = self.listed(schema, operands, tree)
                    given = _schemas.place(schema, listed, named)
                    plan = self.plan(schema, given, variables, way)
                except Misfit:
                    continue
                return schema, given, plan, variables
        return None

    def listed(self, schema, operands, tree):
        """Operands with the last ones put into the list that the schema ends in."""
        plain = [a for a in schema.arguments if not a.kwarg_only]
        if (
            not plain
            or len(operands) <= len(plain)
            or not isinstance(plain[-1].type, ListType)
        ):
            return operands
        rest = operands[len(plain) - 1 :]
        element = plain[-1].type.getElementType()
        if plain[-1].N or any(value.type != element for value in rest):
            return operands
        return [*operands[: len(plain) - 1], self.list_of(rest, tree, element)]

    def plan(self, schema, given, variables, way):
        """How each operand becomes what the schema wants.

        Raises:
            Misfit: one cannot.
        """
        plan = []
        for argument, value in zip(schema.arguments, given):
            if value is ...:
                plan.append(None)
                continue
            how = self.conversion(argument, value.type, variables, way)
            if how is None:
                raise Misfit(
                    f"Expected a value of type '{argument.type}' for argument "
                    f"'{argument.name}' but instead found type '{value.type}'."
                )
            plan.append(how)
        return plan

    def conversion(self, argument, actual, variables, way):
        """A word for how a type becomes the argument's; None where it cannot."""
        formal = argument.type
        if _schemas.bind(formal, actual, variables):
            return "as it is"
        bare = formal.getElementType() if isinstance(formal, OptionalType) else formal
        if isinstance(bare, _types.UnionType):
            for part in bare.containedTypes():
                inner = _schemas.Argument(argument.name, part, size=0)
                how = self.conversion(inner, actual, variables, way)
                if how is not None:
                    return how
        if isinstance(bare, ListType):
            element = bare.getElementType()
            if isinstance(actual, TupleType):
                if all(
                    _schemas.bind(element, part, variables)
                    for part in actual.elements()
                ):
                    return "list of tuple"
            if actual in (INT, FLOAT) and actual == element and argument.N != 0:
                return f"list of {argument.N}" if argument.N else "as it is"
            if (
                isinstance(actual, ListType)
                and way in (1, 2)
                and actual.getElementType() == TENSOR
            ):
                return "as it is" if element in (INT, FLOAT) else None
        if way in (FROM_TENSORS, FROM_NUMBERS):
            if actual == TENSOR and bare in _IMPLICIT:
                return _IMPLICIT[bare]
            if actual == NUMBER and bare in (INT, FLOAT):
                return "Int" if bare == INT else "Float"
            if actual == STR and bare == DEVICE:
                return "device"
        if way >= FROM_NUMBERS and bare == TENSOR and actual in (*NUMBERS, BOOL):
            return "as it is"
        return None

    def coerced(self, value, kind, tree):
        """The value as a type, where it becomes one without being asked; else as it is."""
        if value.type.isSubtypeOf(kind):
            return value
        node = value.node
        built = node is not None and node.kind_ == "prim::TupleConstruct"
        if built and isinstance(kind, TupleType) and kind.name is None:
            parts = kind.elements()
            if len(parts) == len(node.inputs_):
                pairs = zip(node.inputs_, parts)
                return self.tuple_of(
                    [self.coerced(each, part, tree) for each, part in pairs], tree
                )
        argument = _schemas.Argument("value", kind, size=0)
        how = self.conversion(argument, value.type, {}, FROM_TENSORS)
        return value if how is None else self.convert(how, value, tree)

    def convert(self, how, value, tree):
        """The operand, made into what the schema wants."""
        if how == "list of tuple":
            parts = self.unpack(value, tree)
            return self.list_of(parts, tree)
        if how == "as it is":
            return value
        if how.startswith("list of "):
            return self.list_of([value] * int(how.split()[-1]), tree)
        kind = {"IntImplicit": INT, "FloatImplicit": FLOAT, "Int": INT, "Float": FLOAT}
        kind |= {"ScalarImplicit": NUMBER, "device": DEVICE}
        made = self.add(f"aten::{how}", [value], tree)
        for schema in _schemas.overloads(f"aten::{how}"):
            if schema.arguments[0].type == value.type:
                made.schema = schema
        return made.makes(kind[how])

    def unpack(self, value, tree):
        """The parts of a tuple."""
        node = value.node
        if node is not None and node.kind_ == "prim::TupleConstruct":
            return list(node.inputs_)
        made = self.add("prim::TupleUnpack", [value], tree)
        return [made.makes(part) for part in value.type.elements()]

    def run_schema(self, name, schema, given, plan, variables, tree):
        """The node of an overload, defaults filled in; gives its result back."""
        inputs = []
        for argument, value, how in zip(schema.arguments, given, plan):
            if value is ...:
                inputs.append(self.default(argument, tree))
            else:
                inputs.append(self.convert(how, value, tree))
        node = self.add(name, inputs, tree)
        node.schema = schema
        results = [_schemas.solve(kind, variables) for kind in schema.returns]
        if not results:
            return self.none(tree)
        made = [node.makes(kind) for kind in results]
        return made[0] if len(made) == 1 else self.tuple_of(made, tree)

    def default(self, argument, tree):
        """The value of an argument that was left out."""
        value = argument.default
        if argument.decoded and isinstance(value, str):
            value = getattr(torch, value.removeprefix("torch."), value)
        if isinstance(value, (list, tuple)):
            return self.list_of([self.constant(v, tree) for v in value], tree, INT)
        return self.constant(value, tree)

    def misfits(self, name, operands, named):
        """What the error says of each overload."""
        schemas = _schemas.overloads(name)
        if not schemas:
            return (
                f"Unknown builtin op: {name}.\nHere are some suggestions: \n\n"
                "The original call is"
            )
        shown = []
        for schema in schemas:
            try:
                given = _schemas.place(schema, operands, named)
                self.plan(schema, given, {}, AS_GIVEN)
            except Misfit as misfit:
                shown.append(f"  {schema}:\n  {misfit}")
        if len(shown) == 1:
            return (
                "\n"
                + shown[0].strip().replace(":\n  ", ":\n")
                + "\n\nThe original call is"
            )
        variants = "\n  \n".join(shown)
        return (
            "\nArguments for call are not valid.\nThe following variants are available:"
            f"\n  \n{variants}\n\nThe original call is"
        )

    # -- functions and methods of the program ------------------------------------------

    def fit_function(self, schema, operands, named, tree):
        """Operands of a function of the program, in order, defaults filled in."""
        try:
            given = _schemas.place(schema, operands, named)
        except Misfit as misfit:
            raise self.refuse(
                f"\n{schema}:\n{misfit}\n\nThe original call is", tree
            ) from None
        done = []
        for argument, value in zip(schema.arguments, given):
            if value is ...:
                done.append(self.constant(argument.default, tree))
                continue
            done.append(self.fit(value, argument, tree, schema))
        return done

    def accepts(self, schema, operands, named):
        """Whether a function takes operands of these types."""
        try:
            given = _schemas.place(schema, operands, named)
        except Misfit:
            return False
        return all(
            value is ...
            or self.conversion(argument, value.type, {}, AS_GIVEN) is not None
            for argument, value in zip(schema.arguments, given)
        )

    def fit(self, value, argument, tree, schema):
        """The operand as the type that a function wants."""
        kind, name = argument.type, argument.name
        for way in (AS_GIVEN, FROM_TENSORS):
            how = self.conversion(argument, value.type, {}, way)
            if how is not None:
                return self.convert(how, value, tree)
        known = value.node.kind_ if value.node is not None else None
        if (
            known == "prim::ListConstruct"
            and not value.node.inputs_
            and isinstance(kind, ListType)
        ):
            return value.setType(kind)
        raise self.refuse(
            f"\n{schema}:\nExpected a value of type '{kind}' for argument '{name}' but "
            f"instead found type '{value.type}'.\n\nThe original call is",
            tree,
        )


def is_sugar(thing):
    """Whether something is no value of a graph."""
    return isinstance(thing, Sugar)
