"""Conditions: what is known when a program is translated, and what they tell of types."""

import ast
from typing import NamedTuple

from rushlight.jit import _types
from rushlight.jit._emitter import BOOL, INT, NONE, STR
from rushlight.jit._expressions import Expressions
from rushlight.jit._sugar import PythonValue, Sugar
from rushlight.jit._types import ListType, OptionalType, TupleType
from rushlight.jit.ir import Value


class Condition(NamedTuple):
    """A truth value, whether it is known, and which types it tells of names."""

    value: Value
    known: bool | None
    if_true: dict
    if_false: dict


class Conditions(Expressions):
    """Translates conditions."""

    def condition(self, tree):
        """A condition, with what it tells of types."""
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            inner = self.condition(tree.operand)
            if inner.known is not None:
                return self.settled(
                    not inner.known, tree, inner.if_false, inner.if_true
                )
            value = self.call("aten::__not__", [inner.value], tree)
            return Condition(value, None, inner.if_false, inner.if_true)
        if isinstance(tree, ast.BoolOp):
            return self.both_or_either(tree)
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
            return self.comparison(tree)
        if isinstance(tree, ast.Call):
            return self.called_condition(tree)
        return self.truth(self.sugar(tree), tree)

    def settled(self, known, tree, if_true=None, if_false=None):
        """A condition that is known now."""
        return Condition(
            self.constant(known, tree), known, if_true or {}, if_false or {}
        )

    def truth(self, sugar, tree):
        """The truth of something, as ``bool`` tells it."""
        value = self.value(sugar, tree)
        known = self.known(value)
        if value.type != BOOL:
            kind = value.type
            if isinstance(kind, _types.ClassType):
                value = self.call_method(value, "__bool__", [], {}, tree)
            elif kind == NONE:
                return self.settled(False, tree)
            else:
                words = f"Could not cast value of type {kind} to bool"
                if (
                    isinstance(
                        kind, (OptionalType, ListType, TupleType, _types.DictType)
                    )
                    or kind == STR
                ):
                    raise self.refuse(words, tree)
                self.graph.count_one()
                value = self.call("aten::Bool", [value], tree)
        known = (
            bool(known[0]) if known and not isinstance(sugar, Sugar) or known else None
        )
        return Condition(value, known, {}, {})

    def comparison(self, tree):
        op, left_tree, right_tree = tree.ops[0], tree.left, tree.comparators[0]
        left, right = self.expression(left_tree), self.expression(right_tree)
        if isinstance(op, (ast.Is, ast.IsNot)) and NONE in (left.type, right.type):
            return self.is_none(op, left, right, left_tree, right_tree, tree)
        return Condition(self.compared(op, left, right, tree), None, {}, {})

    def is_none(self, op, left, right, left_tree, right_tree, tree):
        if left.type == NONE and right.type != NONE:
            left, right, left_tree = right, left, right_tree
        positive = isinstance(op, ast.Is)
        if left.type == NONE:
            return self.settled(positive, tree)
        if not isinstance(left.type, (OptionalType, _types.AnyType, _types.UnionType)):
            return self.settled(not positive, tree)
        value = self.compared(op, left, right, tree)
        refined: dict = {}
        if isinstance(left_tree, ast.Name):
            if isinstance(left.type, OptionalType):
                refined = {left_tree.id: left.type.getElementType()}
            elif isinstance(left.type, _types.UnionType):
                rest = [k for k in left.type.containedTypes() if k != NONE]
                refined = {
                    left_tree.id: rest[0] if len(rest) == 1 else _types.UnionType(rest)
                }
        none = {left_tree.id: NONE} if isinstance(left_tree, ast.Name) else {}
        return (
            Condition(value, None, none, refined)
            if positive
            else Condition(value, None, refined, none)
        )

    def called_condition(self, tree):
        callee = (
            self.sugar(tree.func)
            if isinstance(tree.func, (ast.Name, ast.Attribute))
            else None
        )
        word = getattr(callee, "name", None) if not isinstance(callee, Value) else None
        import rushlight as torch

        if isinstance(callee, PythonValue) and callee.python is torch.jit.isinstance:
            word = "isinstance"
        if word == "isinstance":
            return self.is_instance(tree)
        if word == "hasattr":
            owner = self.sugar(tree.args[0])
            name = tree.args[1].value
            if isinstance(owner, Value):
                return self.settled(self.has(owner, name), tree)
            return self.settled(hasattr(getattr(owner, "python", None), name), tree)
        return self.truth(self.sugar(tree), tree)

    def is_instance(self, tree):
        value = self.expression(tree.args[0])
        listed = tree.args[1]
        listed = listed.elts if isinstance(listed, (ast.Tuple, ast.List)) else [listed]
        kinds = []
        for part in listed:
            if isinstance(part, ast.Name) and part.id in ("list", "tuple", "dict"):
                kinds.append(part.id)
            elif isinstance(part, ast.Constant) and part.value is not None:
                words = "Expression of type const cannot be used in a type expression"
                raise self.refuse(words, part)
            else:
                kinds.append(self.names.type_of(part, self.place(part)))
        actual = value.type
        parts = self.alternatives(actual)
        held = [part for part in parts if any(self.is_of(part, kind) for kind in kinds)]
        if (
            len(held) == len(parts)
            or not held
            and not isinstance(actual, _types.AnyType)
        ):
            return self.settled(bool(held), tree)
        refined, other = self.narrowed(tree.args[0], parts, held, kinds)
        result = self.one("prim::isinstance", [value], tree, BOOL, types=list(kinds))
        return Condition(result, None, refined, other)

    @staticmethod
    def alternatives(kind):
        """The types that a value of a type may be of."""
        if isinstance(kind, OptionalType):
            return [kind.getElementType(), NONE]
        if isinstance(kind, _types.UnionType):
            return kind.containedTypes()
        if kind == _types.NumberType.get():
            return [INT, _types.FloatType.get(), _types.ComplexType.get()]
        return [kind]

    @staticmethod
    def is_of(part, kind):
        if isinstance(kind, str):
            word = {"list": ListType, "tuple": TupleType, "dict": _types.DictType}[kind]
            return isinstance(part, word)
        return part.isSubtypeOf(kind) and not isinstance(part, _types.AnyType)

    @staticmethod
    def narrowed(tree, parts, held, kinds):
        if not isinstance(tree, ast.Name):
            return {}, {}
        if not held:
            return ({tree.id: kinds[0]} if not isinstance(kinds[0], str) else {}), {}
        rest = [part for part in parts if part not in held]
        one = held[0] if len(held) == 1 else _types.UnionType(held)
        other = rest[0] if len(rest) == 1 else _types.UnionType(rest)
        return {tree.id: one}, {tree.id: other}

    def both_or_either(self, tree):
        """``and`` and ``or``: what stands right is computed where it decides."""
        conjunction = isinstance(tree.op, ast.And)
        left = self.condition(tree.values[0])
        for right in tree.values[1:]:
            left = self.joined(conjunction, left, right, tree)
        return left

    def joined(self, conjunction, left, right_tree, tree):
        if left.known is not None:
            if left.known is not conjunction:
                return left
            before = dict(self.env)
            self.refine(left.if_true if conjunction else left.if_false, tree)
            found = self.condition(right_tree)
            self.env = before
            return found
        node = self.add("prim::If", [left.value], tree)
        short = self.inner_value(
            node, lambda: self.constant(not conjunction, tree), {}, tree
        )
        refined = left.if_true if conjunction else left.if_false
        found: list = []

        def other():
            found.append(self.condition(right_tree))
            return found[0].value

        long = self.inner_value(node, other, refined, tree)
        node.blocks_ = [long, short] if conjunction else [short, long]
        value = node.makes(BOOL)
        if conjunction:
            return Condition(value, None, {**left.if_true, **found[0].if_true}, {})
        return Condition(value, None, {}, {**left.if_false, **found[0].if_false})

    def inner_value(self, node, make, refined, tree):
        """A block of one value."""
        outer, before = self.block, dict(self.env)
        block = self.block = self.inner(node)
        self.refine(refined, tree)
        block.returns.add(make())
        self.block, self.env = outer, before
        return block

    def refine(self, refined, tree):
        """Names are of narrower types from here on."""
        for name, kind in refined.items():
            value = self.env.get(name)
            if isinstance(value, Value) and value.type != kind:
                if kind == NONE:
                    self.env[name] = self.none(tree)
                else:
                    self.env[name] = self.one(
                        "prim::unchecked_cast", [value], tree, kind
                    ).named(name)

    def chosen(self, tree):
        """``a if test else b``."""
        test = self.condition(tree.test)
        if test.known is not None:
            before = dict(self.env)
            self.refine(test.if_true if test.known else test.if_false, tree)
            found = self.sugar(tree.body if test.known else tree.orelse)
            self.env = before
            return found
        node = self.add("prim::If", [test.value], tree)
        self.graph.count_one()
        first = self.inner_value(
            node, lambda: self.expression(tree.body), test.if_true, tree
        )
        second = self.inner_value(
            node, lambda: self.expression(tree.orelse), test.if_false, tree
        )
        (a,), (b,) = first.returns.inputs_, second.returns.inputs_
        kind = _types.unify(a.type, b.type)
        if kind is None:
            raise self.refuse(
                f"if-expression's true branch has type {a.type} but false branch has type "
                f"{b.type}",
                tree,
            )
        return node.makes(kind)
