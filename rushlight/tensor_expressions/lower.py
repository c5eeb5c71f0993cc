"""From a schedule to loops: bounds of every loop, buffers, guards, then statements.

A stage that is computed at its reader's loop covers what everybody who reads it inside
that loop needs there, found from the index expressions: they are linear in the loops, or
else the whole tensor is computed. Readers are measured before what they read.
"""

import keyword
from math import prod

from rushlight.codegen.passes.partition_loops import partition_loops
from rushlight.codegen.schedule.gpu_lowering import positions_of
from rushlight.codegen.target import NVIDIA, current, using
from rushlight.ir import expr as ir
from rushlight.ir.linear import Linear, linear, variables
from rushlight.ir.rewrite import map_expr
from rushlight.tensor_expressions import cuda
from rushlight.tensor_expressions.buffers import Buffer, exceeds
from rushlight.tensor_expressions.expressions import (
    GuardedRead,
    Read,
    Size,
    guarded,
    reads,
    replace_reads,
    substitute,
)
from rushlight.tensor_expressions.nest import Nest
from rushlight.tensor_expressions.schedule import Schedule, Split
from rushlight.tensor_expressions.threads import AXES, BLOCKS, Grid

DEVICES = "cuda", "ptx"
STACK_BYTES = 1 << 18  # larger buffers of nested stages are refused


class Program:
    """The kernels of a schedule, one for each tensor that is computed whole.

    Attributes:
        functions: triples of kernel, turns of its divided axis, and its tensors.
        scratch: tensors that are neither arguments nor computed inside a loop.
        threads: of kernels of a grid, by their names, how many a block has.
        shared: of those, the bytes of shared memory that launches have to ask for.
        sizes: those that are open, in the order of the kernels' integers.
        may_refuse: whether a kernel looks at indices that are data.
    """

    def __init__(self, schedule: Schedule, arguments, name):
        self.schedule, self.arguments, self.name_ = schedule, list(arguments), name
        self.names, self.buffers, self.functions = set(), {}, []
        self.grid, self.threads, self.shared = None, {}, {}
        self.may_refuse = False
        self.bodies = {
            stage: guarded(stage.tensor.name, self.inline(stage.body), strict=False)
            for stage in schedule.stages
            if not stage.inlined
        }
        self.check_outputs()
        self.sizes = open_sizes(self.arguments)
        known = set(map(id, self.arguments))
        whole = [s for s in self.bodies if not s.place]
        made = [tensor for stage in whole for tensor in stage.tensor.results]
        self.scratch = [tensor for tensor in made if id(tensor) not in known]
        planned = set()
        for number, stage in enumerate(whole):
            label = name if len(whole) == 1 else f"{name}_{number}_{stage.tensor.name}"
            self.functions.append(self.function(label, stage, planned))
        for stage in self.bodies:
            if stage not in planned:
                raise ValueError(
                    f"compute_at: {stage.tensor.name} is placed in "
                    f"{stage.place[0].tensor.name}, which has no loops of its own"
                )

    def __str__(self):
        """The loops of every kernel, as Python."""
        return "\n\n".join(str(function) for function, _, _ in self.functions)

    def check_outputs(self):
        """Refuses outputs that nobody outside sees: placed in a loop, or no argument."""
        passed = set(map(id, self.arguments))
        for tensor in self.schedule.outputs:
            if id(tensor) not in passed:
                raise ValueError(
                    f"{tensor.name} is an output of the schedule, and no argument of the "
                    "function\n  remedy: pass it to lower() or build() with the inputs"
                )
        given = {*map(id, self.arguments), *map(id, self.schedule.outputs)}
        for stage in self.schedule.stages:
            if id(stage.tensor) in given and (stage.place or stage.inlined):
                raise ValueError(
                    f"{'compute_inline' if stage.inlined else 'compute_at'}: "
                    f"{stage.tensor.name} is an argument or output of the function, "
                    "which has to be computed whole"
                )

    def name(self, wanted):
        """A name that this kernel doesn't use yet."""
        wanted = identifier(wanted)
        number, name = 1, wanted
        while name in self.names:
            name = f"{wanted}_{number}"
            number += 1
        self.names.add(name)
        return name

    def variable(self, wanted):
        return ir.Var(self.name(wanted), ir.i64)

    def function(self, label, stage, planned):
        """The kernel of a stage that is computed whole, with those placed inside."""
        from rushlight.codegen.lower import lower

        self.names = {"data", "ints", "begin", "end", "refused"}
        self.names |= {size.name for size in self.sizes}
        self.buffers, self.divided, self.refuses = {}, None, False
        used = [*self.arguments, *self.scratch]
        for tensor in used:
            pointer = ir.Var(self.name(tensor.name), ir.Pointer(tensor.type))
            origin = (0,) * len(tensor.shape)
            made = pointer, tensor.shape, origin
            self.buffers[tensor] = Buffer(*made, given=tensor.strides)
        self.grid = None
        if current().is_gpu and self.is_bound(stage):
            return self.grid_function(label, stage, planned, used)
        first = stage.leaves[0] if stage.leaves else None
        mark = None if first is None else stage.marks.get(id(first))
        if mark == "parallel" or mark in BLOCKS:
            self.divided = first
        nest = self.plan(stage, planned)
        body = nest.statements()
        entry = [
            ir.Let(self.buffers[t].pointer, ir.argument(n, t.type))
            for n, t in enumerate(used)
        ]
        if self.refuses:
            self.may_refuse = True
            body = self.with_faults(body)
        function = ir.Function(
            *(label, ir.KERNEL_PARAMETERS, (*entry, *self.named_sizes(), *body)),
            distinct=True,
        )
        trip_counts = 1 if self.divided is None else nest.sizes[id(first)]
        return lower(partition_loops(function)), trip_counts, used

    def named_sizes(self):
        """The statements that name open sizes."""
        return [ir.Let(size, ir.integer(n)) for n, size in enumerate(self.sizes)]

    def is_bound(self, root):
        """Whether a loop of a stage, or of one that is placed inside, is bound."""
        for stage in self.bodies:
            around = stage
            while around is not root and around.place:
                around = around.place[0]
            if around is root and any(mark in AXES for mark in stage.marks.values()):
                return True
        return False

    def grid_function(self, label, stage, planned, used):
        """The kernel of a stage whose loops are bound to blocks and threads."""
        from rushlight.codegen.lower import lower

        self.grid = Grid(self)
        body = self.plan(stage, planned).statements()
        if self.refuses:
            raise ValueError(
                f"bind: {stage.tensor.name} reads at indices that are data, which bound "
                "threads cannot refuse\n  remedy: te.if_then_else with a condition that "
                "bounds the index, or parallel()"
            )
        pointers = [self.buffers[tensor].pointer for tensor in used]
        function = self.grid.function(label, pointers, self.named_sizes(), body)
        self.threads[label] = self.grid.threads
        made = lower(function)
        self.shared[label] = positions_of(made.body)[1]
        return made, self.grid.blocks, used

    # ---- what is refused while the kernel runs

    flag = ir.Var("refused", ir.boolean)

    def note(self, faults):
        """Statements that remember that one of some conditions held."""
        steps = []
        for _, condition in faults:
            self.refuses = True
            steps.append(ir.Assign(self.flag, self.flag | condition))
        return steps

    def with_faults(self, body):
        """A kernel's body that tells at its end what it refused."""
        code = ir.Const(ir.i32, ir.FAULTS["refuse_index"])
        code = ir.select(self.flag, code, ir.Const(ir.i32, 0))
        start = ir.Declare(self.flag, ir.Const(ir.boolean, False))
        return (start, *body, ir.Return(code))

    # ---- reads

    def inline(self, body):
        """A body with the reads of inlined stages replaced by what they compute."""
        for stage in reversed(self.schedule.stages):
            if stage.inlined:
                body = replace_reads(body, stage.inlined_at)
        return body

    def load_reads(self, e, reader):
        """An expression with every read turned into a load from the tensor's buffer.

        Args:
            reader: whose it is, for errors.
        """

        def change(node):
            if not isinstance(node, Read):
                return node
            buffer = self.buffers.get(node.tensor)
            if buffer is None:
                self.refuse_place(node.tensor, reader)
                raise ValueError(
                    f"{node.tensor.name} is read but is neither an argument nor "
                    "computed before: give it to lower() or build()"
                )
            index = buffer.index(node.indices)
            if isinstance(node, GuardedRead):
                index = ir.select(node.args[-1], index, ir.Const(ir.i64, 0))
            return ir.load(buffer.pointer, index)

        return map_expr(e, change)

    def refuse_place(self, tensor, reader):
        """Raises what is wrong with the loop that a tensor is computed in, if it is in one."""
        for stage in self.bodies:
            if stage.tensor is tensor and stage.place:
                outer, leaf = stage.place
                raise ValueError(
                    f"compute_at: {tensor.name} is computed inside the loop {leaf.name} "
                    f"of {outer.tensor.name}, but {reader.name} reads it outside of it\n"
                    "  remedy: a loop around all that read it, or compute_root()"
                )

    # ---- bounds

    def plan(self, root, planned):
        """The nest of a stage, and those of all that are placed inside, readers first."""
        zero = ir.Const(ir.i64, 0)
        domain = [(zero, axis.extent) for axis in root.axis]
        nests = {root: Nest(self, root, domain)}
        for stage in reversed(list(self.bodies)):
            if stage.place and stage.place[0] in nests:
                outer, leaf = nests[stage.place[0]], stage.place[1]
                domain = in_steps(stage, self.needed(stage, outer, leaf, nests))
                if self.grid is not None:
                    self.grid.check_placed(stage, domain)
                nests[stage] = nest = Nest(self, stage, domain, outer, leaf)
                outer.inner.insert(0, nest)
                self.place_buffer(nest)
        planned |= set(nests)
        return nests[root]

    def place_buffer(self, nest):
        """Room for what a nested stage computes, of the size that its readers need."""
        tensor, shape = nest.stage.tensor, tuple(extent for _, extent in nest.domain)
        self.check_room(tensor, shape, nest.leaf)
        pointer = ir.Var(self.name(tensor.name), ir.Pointer(tensor.type))
        origin = tuple(first for first, _ in nest.domain)
        made = pointer, shape, origin, nest.stage.aligned
        grid = self.grid
        self.buffers[tensor] = (
            Buffer(*made) if grid is None else grid.buffer(nest.stage, *made)
        )

    def check_room(self, tensor, shape, leaf):
        if not all(isinstance(size, int) for size in shape):
            listed = ", ".join(map(str, shape))
            raise ValueError(
                f"compute_at: {tensor.name} needs [{listed}] elements inside the loop "
                f"{leaf.name}, and room there is of a known size\n  remedy: compute it at "
                "the inner loop of a split, inline, or whole"
            )
        if self.grid is None and prod(shape) * tensor.type.itemsize > STACK_BYTES:
            raise ValueError(
                f"compute_at: {tensor.name} needs {list(shape)} elements inside "
                f"the loop {leaf.name}, more than the stack should hold; choose an "
                "inner loop"
            )

    def needed(self, stage, outer, leaf, nests):
        """For each dimension, the first index and how many the readers need."""
        found, spans = [[] for _ in stage.axis], {}
        for reader, body in self.bodies.items():
            read = [r for r in reads(body) if r.tensor is stage.tensor]
            if not read:
                continue
            nest = nests.get(reader)
            if nest is None or not nest.is_inside(outer, leaf):
                self.refuse_place(stage.tensor, reader.tensor)
            inside = nest.spans_inside(outer, leaf)
            if self.grid is not None:
                inside = self.grid.seen(stage, inside, nest.thread_spans())
            spans |= inside
            values = nest.root_values()
            for item in read:
                for axis, at in enumerate(item.indices):
                    found[axis].append(linear(substitute(at, values), parts=True))
        return [
            range_of(forms, spans, size)
            for forms, size in zip(found, stage.tensor.shape)
        ]


def range_of(forms, spans, size):
    """The first index and the count that cover linear forms, or the whole dimension."""
    whole = ir.Const(ir.i64, 0), size
    if not forms or any(form is None for form in forms):
        return whole
    ranges = [form.range_over(spans) for form in forms]
    if None in ranges or any(item[2] != ranges[0][2] for item in ranges):
        return whole
    rest = ranges[0][2]
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    if isinstance(size, int) and high - low + 1 >= size:
        return whole
    return Linear(low, rest).expression(), high - low + 1


def in_steps(stage, domain):
    """A domain grown to whole steps of the splits, where the tensor has as many elements.

    Such loops need no guards, so that what they compute can stay in registers.
    """
    factors = {id(s.parent): s.factor for s in stage.relations if isinstance(s, Split)}
    grown = []
    for axis, (first, count) in zip(stage.axis, domain):
        factor = factors.get(id(axis)) or 1
        more = -(-count // factor) * factor
        known = isinstance(first, ir.Const) and not exceeds(
            first.value + more, axis.extent
        )
        grown.append((first, more if known else count))
    return grown


def identifier(name):
    """A name as programs have them, from what users call a tensor."""
    letters = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "_"
    odd = letters[0].isdigit() or keyword.iskeyword(letters)
    return f"_{letters}" if odd else letters


def open_sizes(tensors):
    """The sizes that arrays tell, in order.

    Raises:
        ValueError: none of the tensors has such a size for a dimension.
    """
    found, used = {}, {}
    for tensor in tensors:
        for size in (*tensor.shape, *(tensor.strides or ())):
            if isinstance(size, Size):
                found[id(size)] = size
            elif isinstance(size, ir.Expr):
                used |= {id(inner): inner for inner in variables(size)}
    if set(used) - set(found):
        listed = ", ".join(used[key].name for key in set(used) - set(found))
        raise ValueError(
            f"te: no argument has {listed} elements along a dimension, which would tell it"
        )
    return list(found.values())


def lower(schedule, arguments, name="main", target="llvm") -> Program:
    """The loops of a schedule; ``print`` shows them.

    Args:
        schedule: what `create_schedule` gave.
        arguments: the tensors that the caller passes, inputs and outputs.
        name: of the function.
        target: as for `build`: of a device, bound loops are its blocks and threads.
    """
    if target not in DEVICES:
        return Program(schedule, arguments, name)
    with using(NVIDIA):
        return Program(cuda.divide(schedule), arguments, name)
