"""Expressions of programs: literals, operators, comparisons, attributes, indices."""

import ast

import rushlight as torch
from rushlight.jit import _builtins, _schemas, _types
from rushlight.jit._calls import Calls
from rushlight.jit._emitter import BOOL, INT, NONE, NUMBERS, STR, TENSOR, is_sugar
from rushlight.jit._signs import BINARY, COMPARED, MIRRORED, OVERLOADED, TENSOR_FORMS
from rushlight.jit._sources import NotSupportedError, Untranslatable, error, unsupported
from rushlight.jit._sugar import (
    Builtin,
    ClassValue,
    Creator,
    Fixed,
    Method,
    Namespace,
    PythonValue,
    Special,
    Super,
    TypeName,
    Undefined,
)
from rushlight.jit._types import DictType, ListType, OptionalType, TupleType
from rushlight.jit.ir import Value
from rushlight.operators.extensions import METHODS

# Methods without a schema, with the type that has them.
_FORMED = {"format": STR, "tolist": TENSOR}
WORDS = (
    "annotate isinstance hasattr getattr len range enumerate zip print super unchecked_cast "
    "uninitialized list tuple dict min max abs round sum sorted reversed str ord chr hex bin "
    "oct any all divmod hash iter pow"
).split()


class Expressions(Calls):
    """Translates expressions to values, or to what names stand for."""

    def expression(self, tree):
        """The value of an expression."""
        return self.value(self.sugar(tree), tree)

    def sugar(self, tree):
        """What an expression stands for."""
        way = getattr(self, "_" + type(tree).__name__.lower(), None)
        if way is None:
            raise unsupported(tree, self.place(tree))
        return way(tree)

    # -- names and literals ------------------------------------------------------------

    def _constant(self, tree):
        if tree.value is Ellipsis:
            raise self.refuse("ellipsis is only supported as an index", tree)
        if isinstance(tree.value, bytes):
            raise self.refuse("bytes literals aren't supported", tree)
        if type(tree.value) in (int, float, complex):
            return self.literal(tree.value, tree)
        return self.constant(tree.value, tree)

    def _name(self, tree):
        name = tree.id
        if name in self.env:
            found = self.env[name]
            if isinstance(found, Undefined):
                raise self.refuse_undefined(found, tree)
            if isinstance(found, Value) and not self.is_module_itself(found):
                self.graph.read(name)
            return found
        found = self.names.find(name)
        if found is None:
            raise self.refuse(f"undefined value {name}", tree)
        return self.named(found[0], name, tree)

    def is_module_itself(self, value):
        """Whether a value is the module whose method this is."""
        own = getattr(value.type, "is_module", False)
        return own and value is self.graph.params[0]

    def named(self, python, name, tree):
        """What an object that a name was found to be stands for."""
        if isinstance(python, (Namespace, Special, TypeName, ClassValue, Builtin)):
            return python
        if python is super:
            return Special("super")
        if getattr(python, "__module__", None) == "builtins" and name in WORDS:
            return Special(name)
        return PythonValue(python, name)

    def _joinedstr(self, tree):
        template, parts = "", []
        for part in tree.values:
            if isinstance(part, ast.Constant):
                template += str(part.value).replace("{", "{{").replace("}", "}}")
                continue
            if part.format_spec is not None or part.conversion != -1:
                what = "formatting" if part.conversion == -1 else "conversion"
                raise error(
                    f"Don't support {what} in JoinedStr",
                    self.place(tree),
                    NotSupportedError,
                )
            template += "{}"
            parts.append(part.value)
        whole = self.constant(template, tree)
        given = [self.expression(part) for part in parts]
        return self.one("aten::format", [whole, *given], tree, STR)

    def _list(self, tree):
        return self.list_of([self.expression(item) for item in tree.elts], tree)

    def _tuple(self, tree):
        items = [self.sugar(item) for item in tree.elts]
        if any(is_sugar(item) and not isinstance(item, PythonValue) for item in items):
            return Fixed(items)
        return self.tuple_of([self.value(item, tree) for item in items], tree)

    def _dict(self, tree):
        flat = [
            self.expression(e) for pair in zip(tree.keys, tree.values) for e in pair
        ]
        return self.dict_of(flat, tree, positions=[*zip(tree.keys, tree.values)])

    # -- operators ---------------------------------------------------------------------

    def binary(self, name, left, right, tree):
        """An operator of two operands, on an object through its method."""
        if isinstance(left.type, _types.ClassType) and name in OVERLOADED:
            return self.call_method(left, OVERLOADED[name], [right], {}, tree)
        if TENSOR in (left.type, right.type):
            name = TENSOR_FORMS.get(name, name)
            if name == "matmul" and left.type != right.type:
                words = self.misfits("aten::matmul", [left, right], {})
                raise self.refuse(words, tree)
            if left.type in NUMBERS and name in MIRRORED:
                name, left, right = MIRRORED[name], right, left
        return self.call(f"aten::{name}", [left, right], tree)

    def _binop(self, tree):
        left = self.expression(tree.left)
        if isinstance(tree.op, ast.Mod):
            if left.type == STR:
                return self.percent_format(left, tree)
            if isinstance(tree.left, ast.Name):
                self.graph.read(tree.left.id)
        right = self.expression(tree.right)
        return self.binary(BINARY[type(tree.op)], left, right, tree)

    def percent_format(self, template, tree):
        """``"%d of %s" % values``."""
        right = self.expression(tree.right)
        return self.one("aten::percentFormat", [template, right], tree, STR)

    def _unaryop(self, tree):
        if isinstance(tree.op, ast.Not):
            return self.condition(tree).value
        operand = self.expression(tree.operand)
        if isinstance(tree.op, ast.UAdd):
            return operand
        known = self.known(operand)
        if isinstance(tree.op, ast.USub):
            if known and type(known[0]) in (int, float, complex):
                self.graph.count_one()  # the operation that was known
                return self.constant(-known[0], tree)
            return self.unary("neg", operand, tree)
        return self.unary("bitwise_not", operand, tree)

    def unary(self, name, operand, tree):
        """An operator of one operand, on an object through its method."""
        if isinstance(operand.type, _types.ClassType):
            return self.call_method(operand, OVERLOADED[name], [], {}, tree)
        return self.call(f"aten::{name}", [operand], tree)

    def _compare(self, tree):
        if len(tree.ops) == 1:
            return self.condition(tree).value
        parts, left = [], tree.left
        for op, right in zip(tree.ops, tree.comparators):
            parts.append(ast.copy_location(ast.Compare(left, [op], [right]), tree))
            left = right
        return self.expression(ast.copy_location(ast.BoolOp(ast.And(), parts), tree))

    def compared(self, op, left, right, tree):
        """One comparison of two values."""
        if isinstance(op, (ast.In, ast.NotIn)):
            found = self.contains(left, right, tree)
            return (
                found
                if isinstance(op, ast.In)
                else self.call("aten::__not__", [found], tree)
            )
        if isinstance(op, (ast.Is, ast.IsNot)):
            word = "__is__" if isinstance(op, ast.Is) else "__isnot__"
            return self.one_of_two(f"aten::{word}", left, right, tree)
        if isinstance(left.type, _types.EnumType) and left.type == right.type:
            return self.one(f"aten::{COMPARED[type(op)]}", [left, right], tree, BOOL)
        return self.binary(COMPARED[type(op)], left, right, tree)

    def contains(self, item, container, tree):
        """Whether something is in a list, dictionary, text or object."""
        if isinstance(container.type, _types.ClassType):
            names = (
                self.unit.items(container.type) if container.type.is_module else None
            )
            known = self.known(item)
            if names is not None and known:
                return self.constant(known[0] in names, tree)
            return self.call_method(container, "__contains__", [item], {}, tree)
        return self.call("aten::__contains__", [container, item], tree)

    def one_of_two(self, kind, left, right, tree):
        """``is`` and ``is not``, of values of any types."""
        return self.one(kind, [left, right], tree, BOOL)

    def _boolop(self, tree):
        return self.condition(tree).value

    def _ifexp(self, tree):
        return self.chosen(tree)

    def _listcomp(self, tree):
        return self.comprehended(tree)

    _dictcomp = _listcomp

    # -- attributes --------------------------------------------------------------------

    def _attribute(self, tree):
        return self.attribute(self.sugar(tree.value), tree.attr, tree)

    def attribute(self, owner, name, tree):
        """What an attribute of something stands for."""
        if isinstance(owner, Value):
            return self.attribute_of_value(owner, name, tree)
        if isinstance(owner, Namespace):
            return self.names.member(owner, name)
        if isinstance(owner, ClassValue):
            return self.attribute_of_class(owner, name, tree)
        if isinstance(owner, Super):
            return Method(owner.self_value, f"super.{name}")
        if isinstance(owner, PythonValue):
            try:
                found = getattr(owner.python, name)
            except AttributeError:
                if isinstance(owner.python, type(torch)):
                    words = f"object has no attribute {name}"
                else:
                    kind = type(owner.python).__name__
                    words = f"python value of type '{kind}' has no attribute '{name}'"
                raise self.refuse(words, tree) from None
            return self.named(found, name, tree)
        raise self.refuse(f"attribute lookup is not defined on {owner.kind}", tree)

    def attribute_of_class(self, owner, name, tree):
        if isinstance(owner.type, _types.EnumType):
            if name in owner.type.python.__members__:
                return self.constant(owner.type.python[name], tree)
        elif isinstance(owner.type, _types.ClassType):
            found = owner.type.static_methods.get(name) or owner.type.methods.get(name)
            if found is not None:
                return self.function_value(found)
            if name == "__new__":
                return Creator(owner.type)
        raise self.refuse(f"class '{owner.type.name}' has no attribute '{name}'", tree)

    def attribute_of_value(self, owner, name, tree):
        kind = owner.type
        if isinstance(kind, _types.ClassType):
            return self.attribute_of_object(owner, name, tree)
        if isinstance(kind, _types.InterfaceType):
            if name in kind.methods:
                return Method(owner, name)
        elif isinstance(kind, TupleType) and name in kind.fields:
            at = kind.fields.index(name)
            return self.tuple_item(owner, at, tree)
        elif isinstance(kind, _types.EnumType) and name in ("name", "value"):
            result = STR if name == "name" else kind.value
            return self.one(f"prim::Enum{name.capitalize()}", [owner], tree, result)
        elif kind == _types.DeviceObjType.get() and name in ("type", "index"):
            return self.call(_builtins.PROPERTIES[name], [owner], tree)
        elif (
            kind == TENSOR
            and name in _builtins.PROPERTIES
            and name not in ("type", "index")
        ):
            return self.call(_builtins.PROPERTIES[name], [owner], tree)
        elif isinstance(kind, OptionalType):
            raise self.refuse(
                f"'{kind}' object has no attribute or method '{name}'. Did you forget to "
                "check that the value is not None (unwrap the Optional)?",
                tree,
            )
        if isinstance(kind, _types.CustomType):
            found = METHODS.get(f"{kind.name}.{name}")
            if found is not None:
                return Builtin(found, owner)
        if kind != _FORMED.get(name) and not _schemas.overloads(f"aten::{name}"):
            raise self.refuse(
                f"'{kind}' object has no attribute or method '{name}'.", tree
            )
        return Builtin(f"aten::{name}", owner)

    def attribute_of_object(self, owner, name, tree):
        kind = owner.type
        if name in kind.constants:
            return self.constant(kind.constants[name], tree)
        if name in kind.attributes:
            return self.read_attribute(owner, name, tree)
        if name in kind.methods:
            return Method(owner, name)
        if self.unit.accessor(kind, name, "get") is not None:
            return self.call_method(owner, f"__{name}_getter", [], {}, tree)
        if name in kind.static_methods:
            return self.function_value(kind.static_methods[name])
        found = self.unit.member(kind, name) if kind.is_module else None
        if found is not None:
            return self.member(owner, name, found, tree)
        words = f"Tried to access nonexistent attribute or method '{name}' of type '{kind.name}'"
        if kind.is_module:
            words = f"Module '{kind.name.rpartition('.')[2]}' has no attribute '{name}'"
        raise self.refuse(words + self.unit.hint(kind, name), tree)

    def read_attribute(self, owner, name, tree):
        """The value of an object's attribute."""
        value = self.one(
            "prim::GetAttr", [owner], tree, owner.type.attributes[name], name=name
        )
        return value.named(name)

    # -- indices -----------------------------------------------------------------------

    def _subscript(self, tree):
        owner = self.sugar(tree.value)
        if isinstance(owner, Fixed):
            return self.fixed_item(owner, tree)
        if isinstance(owner, PythonValue) and not self.is_data(owner.python):
            raise self.refuse(
                f"'{type(owner.python).__name__}' object is not subscriptable", tree
            )
        value = self.value(owner, tree)
        return self.item(value, tree.slice, tree)

    @staticmethod
    def is_data(python):
        """Whether an object is a value that a program can hold."""
        return isinstance(python, (str, tuple, list, dict))

    def fixed_item(self, owner, tree):
        known = self.known(self.expression(tree.slice))
        if known is None:
            raise self.refuse("Only constant indices are supported here", tree)
        return owner.items[known[0]]

    def item(self, value, index, tree):
        """``value[index]``."""
        kind = value.type
        if isinstance(kind, _types.ClassType):
            return self.item_of_object(value, index, tree)
        if isinstance(index, ast.Slice) and kind != TENSOR:
            return self.part(value, index, tree)
        if isinstance(kind, TupleType):
            return self.item_of_tuple(value, index, tree)
        if isinstance(kind, (ListType, DictType)) or kind == STR:
            return self.call("aten::__getitem__", [value, self.expression(index)], tree)
        if kind == TENSOR:
            return self.indexed(value, index, tree)
        raise self.refuse(f"'{kind}' object is not subscriptable", tree)

    def item_of_object(self, value, index, tree):
        kind = value.type
        if kind.is_module:
            found = self.unit.items(kind)
            known = self.known(self.expression(index))
            if found is None or known is None:
                raise self.refuse(
                    "Unable to extract string literal index. ModuleList and ModuleDict are "
                    "indexed by literals only",
                    tree,
                )
            names = list(found)
            name = names[known[0]] if isinstance(known[0], int) else known[0]
            return self.attribute(value, name, tree)
        return self.call_method(
            value, "__getitem__", [self.expression(index)], {}, tree
        )

    def part(self, value, index, tree):
        """``value[a:b:c]`` of a list, tuple or text."""
        given = self.ends_of(index, tree)
        if isinstance(value.type, TupleType):
            known = [self.known(end) for end in given]
            if None in known:
                raise self.refuse("tuple slice indices must be integer constants", tree)
            chosen = slice(*(k[0] for k in known))
            return self.tuple_of(self.unpack(value, tree)[chosen], tree)
        return self.call("aten::slice", [value, *given], tree)

    def ends_of(self, index, tree):
        """Start, stop and step of a slice; what is left out is made last."""
        ends = [index.lower, index.upper, index.step]
        given = [None if end is None else self.expression(end) for end in ends]
        if given[2] is None:
            given[2] = self.constant(1, tree)
        return [self.none(tree) if end is None else end for end in given]

    def item_of_tuple(self, value, index, tree):
        known = self.known(self.expression(index))
        if known is None or type(known[0]) is not int:
            raise self.refuse(
                f"Cannot index into a {value.type} with a non-integer literal because "
                "we cannot resolve the output type",
                tree,
            )
        count = len(value.type.elements())
        if not -count <= known[0] < count:
            raise self.refuse(
                f"Tuple index out of range. Tuple is length {count} and index is {known[0]}",
                tree,
            )
        return self.tuple_item(value, known[0] % count, tree)

    def tuple_item(self, value, at, tree):
        """One part of a tuple."""
        kind = value.type.elements()[at]
        if value.node is not None and value.node.kind_ == "prim::TupleConstruct":
            self.graph.count_one()
            return value.node.inputs_[at]
        return self.one(
            "prim::TupleIndex", [value, self.constant(at, tree)], tree, kind
        )

    def indexed(self, value, index, tree):
        """``tensor[…]``: selections and slices one after the other, then gathered."""
        value, gathered = self.viewed(value, index, tree)
        if not gathered:
            return value
        return self.call("aten::index", [value, self.indices(gathered, tree)], tree)

    def indices(self, gathered, tree):
        """The list of indices of ``aten::index``: None where nothing is taken."""
        return self.list_of(gathered, tree, _types.OptionalType.ofTensor())

    def viewed(self, value, index, tree):
        """The view that integers, slices and None give, and the tensors left over."""
        parts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
        state = _Walk(value)
        gathered: list = []
        emitted = [self.index_part(part, tree) for part in parts]
        for at, (kind, given) in enumerate(emitted):
            if kind == "ellipsis":
                rest = sum(self.takes(k, g) for k, g in emitted[at + 1 :])
                state.dim = -rest if rest else None
                gathered = (
                    self.skip(value, gathered, rest, tree)
                    if self.later(emitted, at)
                    else gathered
                )
                continue
            self.index_one(state, kind, given, gathered, tree)
        return state.value, gathered

    @staticmethod
    def takes(kind, given):
        """How many dimensions an index is of."""
        return 0 if kind == "none" else 1

    @staticmethod
    def later(emitted, at):
        return any(kind == "tensor" for kind, _ in emitted[at + 1 :])

    def skip(self, value, gathered, rest, tree):
        raise Untranslatable("an ellipsis before an index that is a tensor")

    def index_part(self, part, tree):
        """What kind of index a part is, with what it is given."""
        if isinstance(part, ast.Constant) and part.value is Ellipsis:
            return "ellipsis", None
        if isinstance(part, ast.Slice):
            return "slice", part
        value = self.expression(part)
        if value.type == NONE:
            return "none", None
        if value.type == INT:
            return "select", value
        if value.type == TENSOR:
            return "tensor", value
        if isinstance(value.type, ListType):
            return "tensor", self.call("aten::tensor", [value], part)
        raise self.refuse(
            "Unsupported operation: indexing tensor with unsupported index type "
            f"'{value.type}'. Only ints, slices, lists and tensors are supported",
            tree,
        )

    def index_one(self, state, kind, given, gathered, tree):
        dim = state.dim
        if kind == "none":
            at = dim if dim is None or dim >= 0 else dim - 1
            place = self.constant(-1 if at is None else at, tree)
            state.value = self.call("aten::unsqueeze", [state.value, place], tree)
            state.move(1 if dim is not None and dim >= 0 else 0)
            self.pass_by(gathered, tree)
            return
        if dim is None:
            raise self.refuse("too many indices after an ellipsis", tree)
        place = self.constant(dim, tree)
        if kind == "select":
            state.value = self.call("aten::select", [state.value, place, given], tree)
            state.move(0 if dim >= 0 else 1)
            return
        if kind == "slice":
            ends = self.ends_of(given, tree)
            if (given.lower, given.upper, given.step) != (None, None, None):
                state.value = self.call(
                    "aten::slice", [state.value, place, *ends], tree
                )
            self.pass_by(gathered, tree)
        else:
            while dim > len(gathered):
                gathered.append(self.none(tree))
            gathered.append(given)
        state.move(1)

    def pass_by(self, gathered, tree):
        if gathered:
            gathered.append(self.none(tree))

    def iterated(self, value, tree):
        """Whether a loop over a value knows its items already, and which."""
        if isinstance(value.type, TupleType):
            return self.unpack(value, tree)
        if isinstance(value.type, _types.ClassType) and value.type.is_module:
            found = self.unit.items(value.type)
            if found is not None:
                return [self.attribute(value, name, tree) for name in found]
        return None


class _Walk:
    """Where indexing has come to: the view so far, the next dimension."""

    def __init__(self, value):
        self.value, self.dim = value, 0

    def move(self, by):
        """Goes on by dimensions; from the end, up to the last one."""
        if self.dim is None:
            return
        before, self.dim = self.dim, self.dim + by
        if self.dim == 0 and by and before < 0:
            self.dim = None
