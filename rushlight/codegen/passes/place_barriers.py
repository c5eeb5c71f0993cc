"""Lets the threads of a block wait where one reads what another has put in shared memory.

Law: between a thread's write of a shared array and another's read of it, and between that
read and the next write, all threads of the block pass one barrier; no barrier is where some
threads of a block do not come. A statement that reads the array that it writes is taken to
read its own thread's elements, and writes of one array not to meet.

    for k in range(8):             for k in range(8):
        tile[t] = x[k * 32 + t]        barrier()
        sum += tile[31 - t]     ->     tile[t] = x[k * 32 + t]
                                       barrier()
                                       sum += tile[31 - t]

Follows TVM's `ThreadSync`, which looks at each body of a loop twice as well.
"""

from rushlight.ir import expr as ir
from rushlight.ir.rewrite import bodies_of, expressions_of, map_statement

NOTHING = frozenset(), frozenset()


def place_barriers(function):
    """The function of a grid with barriers between its threads' accesses.

    Raises:
        ValueError: a barrier would be where only some threads of a block come.
    """
    return function.with_body(_Barriers(function).block(function.body, NOTHING)[0])


class _Barriers:
    """Walks statements with what was read and written since the last barrier."""

    def __init__(self, function):
        self.shared = set(_shared_arrays(function.body))
        self.divergent = set()  # names of values that threads of a block differ in
        self.found: dict = {}  # of statements: what they read and write

    def block(self, statements, pending):
        """Statements with barriers, and what is read and written after the last of them."""
        result = []
        for s in statements:
            self.note(s)
            reads, writes = self.accesses(s)
            if reads & pending[1] or writes & pending[0]:
                result.append(ir.Barrier())
                pending = NOTHING
            if bodies_of(s) and (reads or writes):
                s, pending = self.nested(s, pending)
            else:
                pending = reads | pending[0], writes | pending[1]
            result.append(s)
        return tuple(result), pending

    def nested(self, s, pending):
        """A loop or branch with barriers inside of it."""
        ends = [pending]

        def inside(body):
            made, end = self.block(body, pending)
            ends.append(end)
            return made

        made = map_statement(s, lambda e: e, inside)
        together = tuple(frozenset().union(*parts) for parts in zip(*ends))
        if isinstance(s, (ir.For, ir.While)) and together != pending:
            return self.nested(s, together)
        if self.differs(s) and _waits(made):
            raise ValueError(
                "barrier: threads of a block would have to wait for each other where "
                f"only some of them come\n  in: {_head(s)}\n  remedy: place what is in "
                "shared memory, or a sum over threads, at a loop around this condition, "
                "bind loops that have as many turns as the block has threads, or choose "
                "sizes that divide"
            )
        return made, together

    def note(self, s):
        """Notes which names threads differ in."""
        if isinstance(s, (ir.Let, ir.Declare, ir.Assign)) and self.varies(s.value):
            self.divergent.add(s.var.name)
        if isinstance(s, ir.For) and self.differs(s):
            self.divergent.add(s.var.name)

    def differs(self, s):
        """Whether threads of a block may go on differently at a statement."""
        return any(map(self.varies, expressions_of(s)))

    def varies(self, e):
        """Whether threads of a block may have different values of an expression."""
        if isinstance(e, ir.Place):
            return e.name == "thread"
        if isinstance(e, ir.Var):
            return e.name in self.divergent
        return isinstance(e, ir.Load) or any(map(self.varies, e.args))

    def accesses(self, s):
        """The shared arrays that a statement, with all inside of it, reads and writes."""
        if id(s) not in self.found:
            named = [self.named(e) for e in expressions_of(s)]
            reads = frozenset().union(*named) if named else frozenset()
            writes = frozenset()
            if isinstance(s, ir.Store):
                writes = self.named(s.pointer)
                reads -= writes
            for body in bodies_of(s):
                for inner in body:
                    read, written = self.accesses(inner)
                    reads, writes = reads | read, writes | written
            self.found[id(s)] = reads, writes, s  # kept, so that no id comes again
        return self.found[id(s)][:2]

    def named(self, e):
        """The shared arrays that an expression names."""
        found, seen, pending = set(), set(), [e]
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, ir.Var) and node.name in self.shared:
                found.add(node.name)
            pending += node.args
        return frozenset(found)


def _shared_arrays(body):
    for s in body:
        if isinstance(s, ir.Array) and s.shared:
            yield s.var.name
        for inner in bodies_of(s):
            yield from _shared_arrays(inner)


def _waits(s):
    """Whether threads meet in a statement, at a barrier or to exchange values."""
    if isinstance(s, ir.Barrier) or any(map(_exchanges, expressions_of(s))):
        return True
    return any(map(_waits, (inner for body in bodies_of(s) for inner in body)))


def _exchanges(e):
    return isinstance(e, ir.Exchange) or any(map(_exchanges, e.args))


def _head(s):
    """A statement's first line."""
    return str(s).strip().partition("\n")[0]
