"""Branches: both ways of ``if``, and the names that they set."""

import ast

from rushlight.jit import _exits, _types
from rushlight.jit._conditions import Conditions
from rushlight.jit._emitter import STR
from rushlight.jit._sources import Range
from rushlight.jit._sugar import Undefined
from rushlight.jit.ir import Node, Value


class Branches(Conditions):
    """Translates ``if``, ``assert`` and ``raise``."""

    def do_if(self, tree):
        """``if``: both ways, then what they set; one way where it is known."""
        test = self.condition(tree.test)
        if test.known is not None:
            self.refine(test.if_true if test.known else test.if_false, tree)
            self.statements(tree.body if test.known else tree.orelse)
            return
        node = self.add("prim::If", [test.value], tree)
        self.graph.count_one()
        ways = []
        for refined, statements in (
            (test.if_true, tree.body),
            (test.if_false, tree.orelse),
        ):
            ways.append(self.way(node, refined, statements, tree))
        self.merge(node, ways, tree)

    def way(self, node, refined, statements, tree):
        """One branch: its block, its names afterwards, and whether it raises."""
        outer, before = self.block, dict(self.env)
        block = self.block = self.inner(node)
        self.refine(refined, tree)
        self.statements(statements)
        after, ends = self.env, self.ends
        self.block, self.env, self.ends = outer, before, False
        return block, after, ends

    def merge(self, node, ways, tree):
        """Names that the branches set are the node's results."""
        (first, env_a, ends_a), (second, env_b, ends_b) = ways
        if ends_a and ends_b:
            self.ends = True
            return
        names = [*env_a, *(name for name in env_b if name not in env_a)]
        merged = {}
        for name in names:
            a, b = env_a.get(name), env_b.get(name)
            if a is b:
                merged[name] = a
                continue
            if ends_a or ends_b:
                kept = b if ends_a else a
                if kept is not None:
                    merged[name] = self.carried_out(
                        node, name, kept, ends_a, ways, tree
                    )
                continue
            merged[name] = self.merged(node, name, a, b, ways, tree)
        self.env = merged

    def carried_out(self, node, name, kept, from_second, ways, tree):
        """A name's value where the other branch raises."""
        if not isinstance(kept, Value):
            return kept
        block = ways[1][0] if from_second else ways[0][0]
        if not self.is_inside(kept, block):
            return kept
        other = ways[0][0] if from_second else ways[1][0]
        block.returns.add(kept)
        other.returns.add(self.uninitialized(other, kept.type, tree))
        return node.makes(kept.type).named(name)

    @staticmethod
    def is_inside(value, block):
        """Whether a value is made in a block, or in one inside of it."""
        owner = value.node.owner if value.node is not None else None
        while owner is not None:
            if owner is block:
                return True
            owner = owner.parent.owner if owner.parent is not None else None
        return False

    def uninitialized(self, block, kind, tree):
        """A value that is never read."""
        node = block.append(
            Node(self.graph, "prim::Uninitialized", [], self.place(tree))
        )
        return node.makes(kind)

    def merged(self, node, name, a, b, ways, tree):
        """A name's value after both branches."""
        synthetic = name in (_exits.RESULT, _exits.RETURNED)
        (first, *_), (second, *_) = ways
        if (
            a is None
            or b is None
            or isinstance(a, Undefined)
            or isinstance(b, Undefined)
        ):
            present = b if a is None or isinstance(a, Undefined) else a
            if synthetic and isinstance(present, Value):
                missing = first if present is b else second
                filler = self.uninitialized(missing, present.type, tree)
                a, b = (filler, b) if present is b else (a, filler)
            else:
                which = "true" if a is None or isinstance(a, Undefined) else "false"
                return Undefined(
                    f"{name} is not defined in the {which} branch", self.all_of(tree)
                )
        a, b = self.in_block(first, a, tree), self.in_block(second, b, tree)
        kind = _types.unify(a.type, b.type)
        if kind is None and name == _exits.RESULT and self.declared() is not None:
            kind = self.declared()
        if kind is None:
            if name == _exits.RESULT:
                raise self.refuse(
                    f"Previous return statement returned a value of type {a.type} but this "
                    f"return statement returns a value of type {b.type}",
                    self.last_return or tree,
                )
            return Undefined(
                f"Type mismatch: {name} is set to type {a.type} in the true branch and type "
                f"{b.type} in the false branch",
                self.all_of(tree),
            )
        first.returns.add(a)
        second.returns.add(b)
        return self.made_by_both(node, kind, name)

    def all_of(self, tree):
        """The place of a statement, with all of its lines."""
        return Range.whole(self.source, tree)

    def made_by_both(self, node, kind, name):
        """A result of a branch; PyTorch reads the variable three times for it."""
        value = node.makes(kind)
        if not name.startswith("__"):
            value.name = name  # until names are given at last
            for _ in range(3):
                self.graph.read(name)
            self.graph.late.append((value, name))
        return value

    def in_block(self, block, thing, tree):
        """The value of something, made in a block where it is not one yet."""
        if isinstance(thing, Value):
            return thing
        outer, self.block = self.block, block
        try:
            return self.value(thing, tree)
        finally:
            self.block = outer

    def do_assert(self, tree):
        """``assert``: raises where the condition is not met."""
        test = self.condition(tree.test)
        if test.known is True:
            return
        node = self.add("prim::If", [test.value], tree)
        self.graph.count_one()
        self.inner(node)
        outer, self.block = self.block, self.inner(node)
        given = None if tree.msg is None else self.expression(tree.msg)
        known = self.known(given) if given is not None else ("",)
        message = self.constant(f"AssertionError: {known[0] if known else ''}", tree)
        if given is not None and known:
            self.graph.count_one()  # the sum that was known
        elif given is not None:
            message = self.call("aten::add", [message, given], tree)
        self.add("prim::RaiseException", [message, self.none(tree)], tree)
        self.graph.count_one()
        self.block = outer
        self.refine(test.if_true, tree)

    def do_raise(self, tree):
        """``raise``: the message and the class go into the program."""
        if tree.exc is None:
            raise self.refuse("raise without an exception is not supported", tree)
        name, message = "Exception", None
        exc = tree.exc
        if isinstance(exc, ast.Call):
            name = ast.unparse(exc.func)
            if exc.args:
                message = self.value(self.sugar(exc.args[0]), tree)
        elif isinstance(exc, (ast.Name, ast.Attribute)):
            name = ast.unparse(exc)
        else:
            raise self.refuse("exceptions must derive from BaseException", tree)
        if message is None:
            message = self.constant("", tree)
        elif message.type != STR:
            message = self.call("aten::str", [message], tree)
        kind = self.constant(self.exception_name(name), tree)
        self.add("prim::RaiseException", [message, kind], tree)
        self.ends = True

    def exception_name(self, name):
        """The exception's class with the module it is of."""
        found = self.names.find(name)
        module = getattr(found[0], "__module__", "builtins") if found else "builtins"
        return f"{module}.{name}"
