"""Assignments: to names, attributes and places."""

import ast
import re

from rushlight.jit import _exits, _schemas, _types
from rushlight.jit._branches import Branches
from rushlight.jit._emitter import TENSOR
from rushlight.jit._signs import BINARY, TENSOR_FORMS
from rushlight.jit._sugar import Fixed, PythonValue, Undefined
from rushlight.jit._types import ListType, TupleType
from rushlight.jit.ir import Value

_HIDDEN = re.compile(r"_\d*|__goes_on|__did_return|__return_value")


class Assignments(Branches):
    """Translates assignments."""

    def do_assign(self, tree):
        """``targets = value``."""
        if getattr(tree, "is_result", False):
            self.returned(tree)
            return
        sugar = self.sugar(tree.value)
        for target in tree.targets:
            self.assign(target, sugar, tree)

    def declared(self):
        """The type that the function says it gives, or None."""
        returns = self.function.schema.returns
        return returns[0] if returns and not self.function.infer else None

    def returned(self, tree):
        """What ``return`` gives, as the type that was declared."""
        self.last_return = tree
        kind = self.declared()
        if kind is None:
            self.env[_exits.RESULT] = self.expression(tree.value)
            return
        before, self.expected = self.expected, kind
        value = self.expression(tree.value)
        self.expected = before
        literal = isinstance(tree.value, (ast.List, ast.Dict))
        empty = value.node is not None and not value.node.inputs_ and literal
        if empty and type(value.type) is type(kind):
            value = value.setType(kind)
        value = self.coerced(value, kind, tree)
        if not value.type.isSubtypeOf(kind):
            raise self.refuse(
                f"Return value was annotated as having type {kind} but is actually of type "
                f"{value.type}",
                tree,
            )
        self.env[_exits.RESULT] = value

    def do_annassign(self, tree):
        """``name: type = value``."""
        kind = self.names.type_of(tree.annotation, self.place(tree.annotation))
        if tree.value is None:
            raise self.refuse("a variable is annotated without a value", tree)
        self.assign(tree.target, self.typed(tree.value, kind), tree, kind)

    def assign(self, target, sugar, tree, kind=None):
        """Gives a name, attribute or place something."""
        if isinstance(target, ast.Name):
            self.set_name(target.id, sugar, tree)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.assign_parts(target, sugar, tree)
        elif isinstance(target, ast.Attribute):
            owner = self.expression(target.value)
            self.set_attribute(owner, target.attr, self.value(sugar, tree), tree, kind)
        elif isinstance(target, ast.Subscript):
            self.set_item(target, self.value(sugar, tree), tree)
        else:
            raise self.refuse("this cannot be assigned to", tree)

    def set_name(self, name, sugar, tree):
        """A name stands for something from here on."""
        if isinstance(sugar, PythonValue):
            try:
                sugar = self.value(sugar, tree)
            except RuntimeError:
                pass
        if isinstance(sugar, Value) and sugar.name is None:
            if self.is_named_here(sugar, name):
                sugar.named(name)
        elif isinstance(sugar, Undefined):
            raise self.refuse_undefined(sugar, tree)
        self.env[name] = sugar

    def is_named_here(self, value, name):
        """Whether a variable's name says something of a value: one of this block."""
        node = value.node
        return not _HIDDEN.fullmatch(name) and (
            node is None or node.owner is self.block
        )

    def assign_parts(self, target, sugar, tree):
        """``a, b = values``."""
        count = len(target.elts)
        starred = [i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)]
        if isinstance(sugar, Fixed):
            parts = sugar.items
        else:
            parts = self.parts_of(self.value(sugar, tree), count, starred, tree)
        if starred:
            at = starred[0]
            end = len(parts) - (count - at - 1)
            middle = self.tuple_of([self.value(p, tree) for p in parts[at:end]], tree)
            parts = [*parts[:at], middle, *parts[end:]]
        if len(parts) != count:
            if len(parts) < count:
                words = f"need {count} values to unpack but found only {len(parts)}"
            else:
                words = (
                    f"too many values to unpack: need {count} but found {len(parts)}"
                )
            raise self.refuse(words, target)
        for part, each in zip(parts, target.elts):
            self.assign(
                each.value if isinstance(each, ast.Starred) else each, part, tree
            )

    def parts_of(self, value, count, starred, tree):
        if isinstance(value.type, TupleType):
            return self.unpack(value, tree)
        if value.type == TENSOR:
            value = self.call("aten::unbind", [value], tree)
        if isinstance(value.type, ListType):
            if starred:
                raise self.refuse(
                    "cannot statically infer the expected size of a list in this context",
                    tree,
                )
            node = self.add("prim::ListUnpack", [value], tree)
            return [node.makes(value.type.getElementType()) for _ in range(count)]
        raise self.refuse(
            f"{value.type} cannot be used as a tuple", getattr(tree, "value", tree)
        )

    def set_attribute(self, owner, name, value, tree, kind=None):
        """``owner.name = value``."""
        own = owner.type
        if not isinstance(own, _types.ClassType):
            raise self.refuse(
                f"Tried to set an attribute: {name} on a non-class: {own}", tree
            )
        if self.unit.accessor(own, name, "set") is not None:
            self.call_method(owner, f"__{name}_setter", [value], {}, tree)
            return
        known = own.attributes.get(name)
        in_init = self.function.base_name == "__init__" and own is self.self_type
        if known is None and in_init and not own.is_module:
            known = own.attributes[name] = kind or value.type
        if known is None and own.is_module:
            known = self.unit.attribute_type(own, name)
        if known is None:
            raise self.refuse(
                f"Tried to set nonexistent attribute: {name}. Did you forget to "
                "initialize it in __init__()?",
                tree,
            )
        if not value.type.isSubtypeOf(known):
            empty = value.node is not None and value.node.kind_ == "prim::ListConstruct"
            if not (empty and not value.node.inputs_ and isinstance(known, ListType)):
                raise self.refuse(
                    f"Wrong type for attribute assignment. Expected {known} but got "
                    f"{value.type}",
                    tree,
                )
            value.setType(known)
        self.add("prim::SetAttr", [owner, value], tree, name=name)

    def set_item(self, target, value, tree):
        """``owner[index] = value``."""
        owner = self.expression(target.value)
        if owner.type == TENSOR:
            self.write(owner, target.slice, value, tree)
            return
        if isinstance(owner.type, _types.ClassType):
            index = self.expression(target.slice)
            self.call_method(owner, "__setitem__", [index, value], {}, tree)
            return
        index = self.expression(target.slice)
        self.call("aten::_set_item", [owner, index, value], tree)

    def write(self, owner, index, value, tree):
        """``tensor[…] = value``."""
        if value.type != TENSOR:
            value = self.call("aten::tensor", [value], tree)
            value = self.call("aten::to", [value, owner], tree)
        view, gathered = self.viewed(owner, index, tree)
        if gathered:
            indices = self.indices(gathered, tree)
            self.call("aten::index_put_", [view, indices, value], tree)
        else:
            self.call("aten::copy_", [view, value], tree)

    def do_augassign(self, tree):
        """``target += value``: tensors in place, lists at their end, numbers anew."""
        target = tree.target
        name = BINARY[type(tree.op)]
        if isinstance(target, ast.Attribute):
            held = self.expression(target.value)
            owner = self.value(self.attribute(held, target.attr, target), target)
            found = self.augmented(name, owner, self.expression(tree.value), tree)
            self.set_attribute(held, target.attr, found, tree)
            return
        owner = self.expression(ast.copy_location(_loaded(target), tree))
        right = self.expression(tree.value)
        found = self.augmented(name, owner, right, tree)
        if isinstance(target, ast.Subscript) and owner.type == TENSOR:
            return
        self.assign(target, found, tree)

    def augmented(self, name, owner, right, tree):
        """What ``owner += right`` gives."""
        if owner.type == TENSOR:
            return self.in_place(name, owner, right, tree)
        if isinstance(owner.type, ListType) and name == "add":
            return self.call("aten::add_", [owner, right], tree)
        return self.binary(name, owner, right, tree)

    def in_place(self, name, owner, right, tree):
        """An operator written into its first operand."""
        written = {
            "floordiv": "floor_divide_",
            **{k: v + "_" for k, v in TENSOR_FORMS.items()},
        }
        word = written.get(name, name + "_")
        if name == "matmul" or not _schemas.overloads(f"aten::{word}"):
            return self.binary(name, owner, right, tree)
        return self.call(f"aten::{word}", [owner, right], tree)

    def do_delete(self, tree):
        """``del``: of names and places."""
        for target in tree.targets:
            if isinstance(target, ast.Name):
                self.env.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                owner = self.expression(target.value)
                index = self.expression(target.slice)
                if isinstance(owner.type, _types.ClassType):
                    self.call_method(owner, "__delitem__", [index], {}, tree)
                else:
                    self.call("aten::Delete", [owner, index], tree)
            else:
                raise self.refuse("del of an attribute is not supported", tree)


def _loaded(target):
    """A target as an expression that reads it."""
    copied = ast.parse(ast.unparse(target), mode="eval").body
    for inner in ast.walk(copied):
        ast.copy_location(inner, target)
    return copied
