"""Loops: repeated where the items are known, else ``prim::Loop``."""

import ast
from enum import EnumType

from rushlight.jit import _exits, _types
from rushlight.jit._assignments import Assignments
from rushlight.jit._conditions import Condition
from rushlight.jit._emitter import BOOL, INT, STR, TENSOR
from rushlight.jit._sources import NotSupportedError, error
from rushlight.jit._sugar import Counted, Fixed, PythonValue, Range, Undefined, Zipped
from rushlight.jit._types import ListType
from rushlight.jit.ir import Value

_LONGEST = 9223372036854775807


class Loops(Assignments):
    """Translates loops and comprehensions."""

    def do_for(self, tree):
        """``for``: repeated where the items are known one by one, else a loop."""
        self.refuse_else(tree)
        sugar = self.sugar(tree.iter)
        items = self.static_items(sugar, tree)
        if items is not None and not getattr(tree, "jumps", False):
            for item in items:
                self.assign(tree.target, item, tree)
                self.statements(tree.body)
                if self.ends:
                    return
            return
        if items is not None:
            sugar = self.value(sugar, tree) if not isinstance(sugar, Fixed) else sugar
            sugar = self.list_of([self.value(item, tree) for item in items], tree)
        count, item = self.walk(sugar, tree)
        self.loop(
            tree, count, lambda at: self.assign(tree.target, item(at), tree), None
        )

    def refuse_else(self, tree):
        if tree.orelse:
            raise error(
                "else branches of loops aren't supported",
                self.place(tree),
                NotSupportedError,
            )

    def static_items(self, sugar, tree):
        """The items of what is known one by one, or None."""
        if isinstance(sugar, Fixed):
            return sugar.items
        if isinstance(sugar, PythonValue) and isinstance(sugar.python, (tuple,)):
            return self.unpack(self.value(sugar, tree), tree)
        if isinstance(sugar, PythonValue) and isinstance(sugar.python, EnumType):
            return [self.constant(member, tree) for member in sugar.python]
        if isinstance(sugar, Value):
            return self.iterated(sugar, tree)
        if isinstance(sugar, Zipped):
            parts = [
                None if isinstance(p, (Counted, Range)) else self.static_items(p, tree)
                for p in sugar.parts
            ]
            if any(
                p is None and not isinstance(s, Counted)
                for p, s in zip(parts, sugar.parts)
            ):
                return None
            return self.zipped_items(sugar, parts, tree)
        return None

    def zipped_items(self, sugar, parts, tree):
        least = min(len(p) for p in parts if p is not None)
        rows = []
        for at in range(least):
            row = []
            for part, own in zip(parts, sugar.parts):
                if part is None:
                    number = self.constant(at, tree)
                    row.append(
                        self.call("aten::add", [own.start, number], tree)
                        if self.known(own.start) != (0,)
                        else number
                    )
                else:
                    row.append(part[at])
            rows.append(Fixed(row))
        return rows

    def walk(self, sugar, tree):
        """How often a loop over something runs, and what each turn is given."""
        if isinstance(sugar, Range):
            return self.walk_range(sugar, tree)
        if isinstance(sugar, Zipped):
            return self.walk_zipped(sugar, tree)
        value = self.value(sugar, tree)
        if isinstance(value.type, _types.DictType):
            value = self.call("aten::keys", [value], tree)
        if value.type == TENSOR:
            return self.call("aten::len", [value], tree), lambda at: self.call(
                "aten::select", [value, self.constant(0, tree), at], tree
            )
        if isinstance(value.type, ListType) or value.type == STR:
            return self.call("aten::len", [value], tree), lambda at: self.call(
                "aten::__getitem__", [value, at], tree
            )
        raise self.refuse(f"'{value.type}' object is not iterable", tree)

    def walk_range(self, sugar, tree):
        if sugar.simple:
            return sugar.stop, lambda at: at
        ends = [sugar.start, sugar.stop, sugar.step]
        count = self.call("aten::__range_length", ends, tree)
        return count, lambda at: self.call(
            "aten::__derive_index", [at, sugar.start, sugar.step], tree
        )

    def walk_zipped(self, sugar, tree):
        walks = [
            None if isinstance(p, Counted) else self.walk(p, tree) for p in sugar.parts
        ]
        counts = [walk[0] for walk in walks if walk is not None]
        count = counts[0]
        for other in counts[1:]:
            count = self.call("prim::min", [count, other], tree)

        def item(at):
            row = []
            for walk, part in zip(walks, sugar.parts):
                if walk is not None:
                    row.append(walk[1](at))
                elif self.known(part.start) == (0,):
                    row.append(at)
                else:
                    row.append(self.call("aten::add", [at, part.start], tree))
            return Fixed(row)

        return count, item

    def do_while(self, tree):
        """``while``."""
        self.refuse_else(tree)
        most = self.constant(_LONGEST, tree)
        self.loop(tree, most, None, lambda: self.condition(tree.test))

    def loop(self, tree, count, start, test):
        """A ``prim::Loop``: names that it sets and that are there before go round."""
        carried = self.carried_names(tree)
        kinds: dict = {}
        while True:
            node = self.loop_once(tree, count, start, test, carried, kinds)
            if node is not None:
                return

    def carried_names(self, tree):
        """Names that the body sets."""
        found: dict = {}
        for part in (*tree.body, getattr(tree, "target", None)):
            for inner in ast.walk(part) if part is not None else ():
                if isinstance(inner, ast.Name) and isinstance(
                    inner.ctx, (ast.Store, ast.Del)
                ):
                    found[inner.id] = None
                elif isinstance(inner, ast.AugAssign) and isinstance(
                    inner.target, ast.Name
                ):
                    found[inner.target.id] = None
        return list(found)

    def loop_once(self, tree, count, start, test, carried, kinds):
        """The loop with types as they are known; None where they had to widen."""
        before, size = dict(self.env), len(self.block.nodes_)
        names = [n for n in carried if n in before or n in kinds]
        first = self.condition_before(test, tree)
        if first.known is False and test is not None:
            return first
        initial = []
        for name in names:
            if isinstance(before.get(name), Value):
                initial.append(before[name])
            elif name in kinds:
                initial.append(self.uninitialized(self.block, kinds[name], tree))
            else:
                initial.append(self.value(before[name], tree))
        node = self.add("prim::Loop", [count, first.value, *initial], tree)
        outer = self.block
        block = self.block = self.inner(node)
        at = block.param(INT)
        for name, value in zip(names, initial):
            kind = kinds.get(name, value.type)
            self.env[name] = block.param(kind, name.strip("_"))
        self.refine(first.if_true, tree)
        if start is not None:
            start(at)
        self.statements(tree.body)
        self.ends = False
        wider = self.widened(names, initial, kinds, carried, tree)
        if not wider:
            self.close_loop(tree, test, names)
        self.block = outer
        if wider:
            self.undo(outer, size)
            self.env = before
            return None
        self.leave_loop(node, names, initial, kinds, before, first, tree)
        return node

    def condition_before(self, test, tree):
        if test is None:
            return self.settled(True, tree)
        found = test()
        if found.known is True:
            return Condition(found.value, True, {}, {})
        return found

    def widened(self, names, initial, kinds, carried, tree):
        """Whether a name needs a wider type, which is then noted."""
        wider = False
        for name, value in zip(names, initial):
            kind = kinds.get(name, value.type)
            after = self.env.get(name)
            if not isinstance(after, Value):
                if after is None or isinstance(after, Undefined):
                    continue
                after = self.env[name] = self.value(after, tree)
            if after.type.isSubtypeOf(kind):
                continue
            unified = _types.unify(kind, after.type)
            if unified is None:
                raise self.refuse(
                    f"Variable '{name}' previously had type {kind} but is now being assigned "
                    f"to a value of type {after.type}",
                    tree,
                )
            kinds[name] = unified
            wider = True
        if _exits.RESULT in carried and _exits.RESULT not in names:
            found = self.env.get(_exits.RESULT)
            if isinstance(found, Value):
                kinds[_exits.RESULT] = self.declared() or found.type
                wider = True
        return wider

    def close_loop(self, tree, test, names):
        """The condition of another turn, and the names as they are then."""
        goes_on = (
            self.env.get(_exits.GOES_ON) if getattr(tree, "jumps", False) else None
        )
        if test is None:
            again = goes_on or self.constant(True, tree)
        elif goes_on is None:
            again = test().value
        else:
            node = self.add("prim::If", [goes_on], tree)
            self.inner_value(node, lambda: test().value, {}, tree)
            self.inner_value(node, lambda: self.constant(False, tree), {}, tree)
            again = node.makes(BOOL)
        self.block.returns.add(again)
        for name in names:
            found = self.env.get(name)
            if not isinstance(found, Value):
                found = self.value(
                    found if found is not None else Undefined(f"{name} is not defined"),
                    tree,
                )
            self.block.returns.add(found)

    def leave_loop(self, node, names, initial, kinds, before, first, tree):
        """Names after the loop; those that only its body knows are gone."""
        after = dict(before)
        for name, value in zip(names, initial):
            kind = kinds.get(name, value.type)
            after[name] = node.makes(kind).named(name.strip("_"))
        self.env = after

    def undo(self, block, size):
        """Takes the nodes behind a place out again."""
        for node in reversed(block.nodes_[size:]):
            self.forget(node)
        del block.nodes_[size:]

    def forget(self, node):
        for inner in node.blocks_:
            for child in reversed(inner.nodes_):
                self.forget(child)
            self.forget(inner.returns)
        for value in node.inputs_:
            value.uses.remove(node)
        node.inputs_ = []

    def comprehended(self, tree):
        """A comprehension: a list or dictionary that a loop fills."""
        if len(tree.generators) != 1:
            raise self.refuse(
                "Only a single generator is supported in comprehensions", tree
            )
        generator = tree.generators[0]
        is_list = isinstance(tree, ast.ListComp)
        made = self.list_of([], tree) if is_list else self.dict_of([], tree)
        sugar = self.sugar(generator.iter)
        items = self.static_items(sugar, tree)
        before = dict(self.env)
        if items is not None and not generator.ifs and is_list:
            done = []
            for item in items:
                self.assign(generator.target, item, tree)
                done.append(self.expression(tree.elt))
            self.env = before
            return self.list_of(done, tree)
        if items is not None:
            sugar = self.list_of([self.value(item, tree) for item in items], tree)
        found = self.fill(tree, generator, sugar, made)
        self.env = before
        return found

    def fill(self, tree, generator, sugar, made):
        """The loop of a comprehension."""
        is_list = isinstance(tree, ast.ListComp)
        count, item = self.walk(sugar, tree)
        node = self.add("prim::Loop", [count, self.constant(True, tree)], tree)
        outer = self.block
        block = self.block = self.inner(node)
        at = block.param(INT)
        self.assign(generator.target, item(at), tree)
        self.under(generator.ifs, lambda: self.fill_one(tree, made, is_list), tree)
        block.returns.add(self.constant(True, tree))
        self.block = outer
        return made

    def under(self, tests, make, tree):
        """Runs something where all conditions are met."""
        if not tests:
            make()
            return
        test = self.condition(tests[0])
        node = self.add("prim::If", [test.value], tree)
        outer = self.block
        self.block = self.inner(node)
        self.refine(test.if_true, tree)
        self.under(tests[1:], make, tree)
        self.inner(node)
        self.block = outer

    def fill_one(self, tree, made, is_list):
        if is_list:
            value = self.expression(tree.elt)
            made.setType(ListType(value.type))
            self.call("aten::append", [made, value], tree)
            return
        key, value = self.expression(tree.key), self.expression(tree.value)
        made.setType(_types.DictType(key.type, value.type))
        self.call("aten::_set_item", [made, key, value], tree)

    def gathered(self, sugar, tree):
        """``list(range(…))`` and the like."""
        made = self.list_of([], tree)
        count, item = self.walk(sugar, tree)
        node = self.add("prim::Loop", [count, self.constant(True, tree)], tree)
        outer = self.block
        block = self.block = self.inner(node)
        value = self.value(item(block.param(INT)), tree)
        made.setType(ListType(value.type))
        self.call("aten::append", [made, value], tree)
        block.returns.add(self.constant(True, tree))
        self.block = outer
        return made
