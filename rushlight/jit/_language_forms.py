"""The language's own forms: ``annotate``, ``range``, ``isinstance``, ``print``, …"""

import ast

import rushlight as torch
from rushlight.jit import _types
from rushlight.jit._emitter import INT, NONE, TENSOR, Emitter
from rushlight.jit._sugar import Closure, Counted, Fixed, Range, Super, Zipped
from rushlight.jit._types import DictType, ListType, TupleType
from rushlight.jit.ir import Value

_WORD_OPERATORS = {
    "len": "aten::len",
    "abs": "aten::abs",
    "round": "aten::round",
    "sum": "aten::sum",
    "sorted": "aten::sorted",
    "ord": "aten::ord",
    "chr": "aten::chr",
    "hex": "aten::hex",
    "bin": "aten::bin",
    "oct": "aten::oct",
    "any": "aten::any",
    "all": "aten::all",
    "divmod": "aten::divmod",
    "pow": "aten::pow",
    "hash": "aten::hash",
    "str": "aten::str",
}


class Forms(Emitter):
    """Translates calls that the language has by name."""

    def form_annotate(self, tree):
        """``annotate(type, value)``."""
        kind = self.names.type_of(tree.args[0], self.place(tree.args[0]))
        return self.typed(tree.args[1], kind)

    def typed(self, tree, kind):
        """An expression whose type is said beside it."""
        before, self.expected = self.expected, kind
        try:
            if isinstance(tree, ast.List) and isinstance(kind, ListType):
                values = [self.expression(item) for item in tree.elts]
                element = kind.getElementType()
                narrow = all(value.type.isSubtypeOf(element) for value in values)
                return self.list_of(values, tree, element if narrow else None)
            sugar = self.sugar(tree)
        finally:
            self.expected = before
        value = self.value(sugar, tree)
        if isinstance(tree, ast.Dict) and isinstance(kind, DictType):
            return value.setType(kind)
        if value.type.isSubtypeOf(kind):
            if value.type != kind and value.node is not None and value.type == NONE:
                return self.one("prim::Constant", [], tree, kind, value=None)
            return value
        found = self.conversion(_argument(kind), value.type, {}, 1)
        if found is not None:
            return self.convert(found, value, tree)
        raise self.refuse(
            f"Variable annotated with type {kind} but is being assigned to a value of type "
            f"{value.type}",
            tree,
        )

    def form_unchecked_cast(self, tree):
        """``unchecked_cast(type, value)`` of archives."""
        kind = self.names.type_of(tree.args[0], self.place(tree))
        return self.one(
            "prim::unchecked_cast", [self.expression(tree.args[1])], tree, kind
        )

    def form_uninitialized(self, tree):
        """``uninitialized(type)`` of archives."""
        kind = self.names.type_of(tree.args[0], self.place(tree))
        return self.one("prim::Uninitialized", [], tree, kind)

    def form_isinstance(self, tree):
        """``isinstance(value, types)``."""
        return self.condition(tree).value

    def form_hasattr(self, tree):
        """``hasattr(value, name)``: known when the program is translated."""
        return self.condition(tree).value

    def form_is_scripting(self, tree):
        """``torch.jit.is_scripting()``: true here."""
        return self.constant(True, tree)

    def form_false(self, tree):
        """What is never so in a translated program."""
        return self.constant(False, tree)

    def form_getattr(self, tree):
        """``getattr(value, name)`` with a literal name."""
        owner = self.sugar(tree.args[0])
        name = tree.args[1]
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            raise self.refuse(
                "getattr's second argument must be a string literal", tree
            )
        if (
            len(tree.args) == 3
            and isinstance(owner, Value)
            and not self.has(owner, name.value)
        ):
            return self.sugar(tree.args[2])
        return self.attribute(owner, name.value, tree)

    def has(self, owner, name):
        """Whether a value has an attribute."""
        kind = owner.type
        if isinstance(kind, _types.ClassType):
            known = (kind.attributes, kind.constants, kind.methods, kind.properties)
            if any(name in each for each in known):
                return True
            return kind.is_module and self.unit.member(kind, name) is not None
        if isinstance(kind, TupleType):
            return name in kind.fields
        return hasattr(torch.Tensor, name) if kind == TENSOR else False

    def form_range(self, tree):
        """``range(…)``."""
        ends = [self.fit_int(argument) for argument in tree.args]
        simple = len(ends) == 1
        if simple:
            ends = [self.constant(0, tree), *ends]
        if len(ends) == 2:
            ends.append(self.constant(1, tree))
        return Range(*ends, simple)

    def fit_int(self, tree):
        value = self.expression(tree)
        if value.type == TENSOR:
            return self.convert("IntImplicit", value, tree)
        if value.type != INT:
            raise self.refuse(f"range() takes integers, not '{value.type}'", tree)
        return value

    def form_enumerate(self, tree):
        """``enumerate(values, start)``."""
        start = self.constant(0, tree)
        if len(tree.args) == 2:
            start = self.expression(tree.args[1])
        for keyword in tree.keywords:
            start = self.expression(keyword.value)
        return Zipped([Counted(start), self.sugar(tree.args[0])])

    def form_zip(self, tree):
        """``zip(…)``."""
        return Zipped([self.sugar(argument) for argument in tree.args])

    def form_iter(self, tree):
        """``iter(values)``."""
        return self.sugar(tree.args[0])

    def form_print(self, tree):
        """``print(…)``."""
        values = [self.expression(argument) for argument in tree.args]
        self.add("prim::Print", values, tree)
        return self.none(tree)

    def form_super(self, tree):
        """``super()``."""
        return Super(self.env["self"])

    def form_len(self, tree):
        """``len(value)``; known for tuples and modules that hold others."""
        sugar = self.sugar(tree.args[0])
        if isinstance(sugar, Fixed):
            return self.constant(len(sugar.items), tree)
        value = self.value(sugar, tree)
        items = self.iterated(value, tree)
        if items is not None:
            return self.constant(len(items), tree)
        if isinstance(value.type, _types.ClassType):
            return self.call_method(value, "__len__", [], {}, tree)
        return self.call("aten::len", [value], tree)

    def form_list(self, tree):
        """``list(values)``."""
        if not tree.args:
            return self.list_of([], tree)
        sugar = self.sugar(tree.args[0])
        if isinstance(sugar, (Range, Zipped)):
            return self.gathered(sugar, tree)
        value = self.value(sugar, tree)
        if isinstance(value.type, DictType):
            return self.call("aten::keys", [value], tree)
        if value.type == TENSOR:
            return self.call("aten::unbind", [value], tree)
        if isinstance(value.type, TupleType):
            return self.list_of(self.unpack(value, tree), tree)
        return self.call("aten::list", [value], tree)

    def form_tuple(self, tree):
        """``tuple(values)`` of what has a known length."""
        if not tree.args:
            return self.tuple_of([], tree)
        return self.tuple_of(
            [self.value(i, tree) for i in self.spread(self.sugar(tree.args[0]), tree)],
            tree,
        )

    def form_dict(self, tree):
        """``dict(…)``."""
        if not tree.args:
            flat = []
            for keyword in tree.keywords:
                flat += [
                    self.constant(keyword.arg, tree),
                    self.expression(keyword.value),
                ]
            kind = (
                self.expected
                if isinstance(self.expected, DictType) and not flat
                else None
            )
            return self.dict_of(flat, tree, kind)
        sugar = self.sugar(tree.args[0])
        if isinstance(sugar, (Range, Zipped)):
            sugar = self.gathered(sugar, tree)
        return self.call("aten::dict", [self.value(sugar, tree)], tree)

    def form_reversed(self, tree):
        """``reversed(values)``, of a list or what is known one by one."""
        sugar = self.sugar(tree.args[0])
        value = sugar if isinstance(sugar, Fixed) else self.value(sugar, tree)
        items = value.items if isinstance(value, Fixed) else self.iterated(value, tree)
        if items is not None:
            return Fixed(items[::-1])
        end = [self.none(tree), self.none(tree), self.constant(-1, tree)]
        return self.call("aten::slice", [value, *end], tree)

    def form_min(self, tree):
        """``min`` of numbers or of a list."""
        return self.least_or_most("min", tree)

    def form_max(self, tree):
        """``max`` of numbers or of a list."""
        return self.least_or_most("max", tree)

    def least_or_most(self, word, tree):
        values = [self.expression(argument) for argument in tree.args]
        if len(values) == 1 and isinstance(values[0].type, TupleType):
            values = self.unpack(values[0], tree)
        if values[0].type == TENSOR:
            return self.call(f"aten::{word}", values, tree)
        found = values[0]
        if len(values) == 1:
            return self.call(f"prim::{word}", values, tree)
        for value in values[1:]:
            found = self.call(f"prim::{word}", [found, value], tree)
        return found

    def word(self, name, tree):
        """A builtin function of Python that is one operator."""
        operands, named = self.operands(tree)
        values, named = self.values(operands, named, tree)
        if name == "abs" and values[0].type != TENSOR:
            return self.call("prim::abs", values, tree)
        if values and isinstance(values[0].type, _types.ClassType):
            return self.call_method(values[0], f"__{name}__", values[1:], named, tree)
        return self.call(_WORD_OPERATORS[name], values, tree, **named)

    def form_fork(self, tree):
        """``fork(function, …)``: runs beside the program."""
        callee = self.sugar(tree.args[0])
        rest = [self.sugar(argument) for argument in tree.args[1:]]
        named = {keyword.arg: self.sugar(keyword.value) for keyword in tree.keywords}
        node = self.add("prim::fork", [], tree)
        outer, self.block = self.block, self.inner(node)
        if isinstance(callee, Closure):
            result = self.inside(callee.tree)
        else:
            result = self.value(self.apply(callee, rest, named, tree), tree)
        self.block.returns.add(result)
        self.block = outer
        return node.makes(_types.FutureType(result.type))


def _argument(kind):
    from rushlight.jit._schemas import Argument

    return Argument("value", kind, size=0)


def _word_form(name):
    def form(self, tree):
        return self.word(name, tree)

    form.__doc__ = f"``{name}(…)``."
    return form


for _name in _WORD_OPERATORS:
    if not hasattr(Forms, f"form_{_name}"):
        setattr(Forms, f"form_{_name}", _word_form(_name))
