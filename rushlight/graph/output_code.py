"""Programs as text: Python that runs with the package installed, and gives the same bits.

    @elementwise_kernel
    def fused_add_mul_0(x0: torch.float32, ...) -> torch.float32:    a group: one step a line
        # program.py:3, in soft: return (x + y) * 0.5                the user's line
        ...

    def call(args, numbers=(0.5,)):                                  the memory, step by step
        buf4 = empty_strided((2, 3), (3, 1), torch.float32, 24)
        fused_add_mul_0(buf4, arg0, arg1, p0)
        del arg0

What the text calls is `rushlight.graph.generated`. It is made of what the program was planned
from: operators stand as calls, though the program launches their kernels once it has heard
which these are.
"""

import linecache
import math
import re
from os.path import relpath

from rushlight.codegen.frontend.pointwise import described
from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.graph.fused_node import is_window
from rushlight.graph.fusion import Joined, _kind_of, operands_of
from rushlight.graph.memory_plan import moves_of
from rushlight.graph.reduction_nodes import Along
from rushlight.graph.steps import FRESH, NUMBER, TENSOR, TENSORS, Graph
from rushlight.graph.tape import Value
from rushlight.operators.matmul.matmul_epilogue import named

# What texts import of `rushlight.graph.generated`.
NAMES = frozenset(
    """as_given benchmark_compiled_module elementwise_kernel empty_strided epilogue fold_norm op
    rand_strided reinterpret_tensor row_kernel saved_arguments wrapped_number""".split()
)
MOST_WORDS = 5  # operators in a kernel's name
WIDTH = 88  # of a line that defines a kernel
MOST_LINES = 12  # of what a kernel computes, as one expression
HEADER = '''"""{about}"""

{paths}import rushlight as torch
from rushlight.graph.generated import (
{names}
)
'''
FOOTER = """

if __name__ == "__main__":
    benchmark_compiled_module(call, get_args)
"""


def code_of(graph, name="program", saved=None):
    """A program as text.

    Args:
        graph: of the program, with the items that it was planned from.
        name: of the user's function.
        saved: the name of the file beside the text that the arguments are in, and the
            bytes of each storage by its number; None for random arguments.
    """
    return Text(graph, name, saved).whole()


class Text:
    """The text of one program while it is written.

    Attributes:
        graph: what the program was planned from.
        kernels: the definitions of kernels, and the names by what they are.
        looks: storage -> the look of the variable that stands for it.
    """

    def __init__(self, graph: Graph, name, saved):
        self.graph, self.name, self.saved = graph, name, saved
        self.kernels, self.known = [], {}
        self.looks: dict = {}
        self.lines: list = []
        self.line = None  # the user's, that was told last
        self.given = graph.given_windows()

    def whole(self):
        """All of it."""
        self.call()
        parts = [*self.kernels, "\n".join(self.lines) + "\n", self.arguments()]
        body = "\n\n".join(parts) + FOOTER
        words = set(re.findall(r"\w+", body))
        used = sorted(words.intersection(NAMES))
        names = "\n".join(f"    {name}," for name in used)
        paths = "from pathlib import Path\n\n" * ("Path(" in body)
        head = HEADER.format(about=self.about(), paths=paths, names=names)
        return f"{head}\n\n{body}"

    def about(self):
        """What the program is, in a line."""
        launches = sum(item.group is not None for item in self.graph.items)
        calls = len(self.graph.items) - launches
        return (
            f"The compiled program of {self.name}: {launches} kernels, {calls} calls."
        )

    # -- storages ------------------------------------------------------------------------

    def variable(self, slot):
        """The name of what stands for a storage."""
        return f"arg{slot}" if slot in self.given else f"buf{slot}"

    def window(self, value):
        """A window as Python."""
        text = self.seen(value.slot, value.look)
        conjugate, negative = value.marks
        text += ".conj()" * conjugate + "._neg_view()" * negative
        return f"wrapped_number({text}.item())" if value.wrapped else text

    def seen(self, slot, look):
        """A storage's memory as it looks through a window."""
        own, variable = self.looks.get(slot), self.variable(slot)
        if own == look:
            return variable
        sizes, strides, offset, kind = look
        text = f"reinterpret_tensor({variable}, {sizes}, {strides}, {offset}"
        if own is None or own[3] != kind:
            text += f", torch.{kind}"
        return text + ")"

    # -- the call ------------------------------------------------------------------------

    def call(self):
        """Writes the function that takes the steps."""
        numbers = ", ".join(map(literal, self.graph.numbers))
        numbers += "," * (len(self.graph.numbers) == 1)
        signature = f"args, numbers=({numbers})" if numbers else "args"
        self.lines.append(f"@torch.no_grad()\ndef call({signature}):")
        self.take_arguments()
        default = self.graph.default_dtype
        inner = self.lines
        if default is not None and default.name != "float32":
            self.lines = []
        self.take_steps()
        if self.lines is not inner:
            inner.append("    before = torch.get_default_dtype()")
            inner.append(f"    torch.set_default_dtype({literal(default)})")
            inner += ["    try:", *(f"    {line}" for line in self.lines)]
            inner += ["    finally:", "        torch.set_default_dtype(before)"]
            self.lines = inner

    def take_arguments(self):
        """Writes what the arguments are, and what is kept of them."""
        if self.given:
            names = ", ".join(map(self.variable, self.given))
            self.say(f"{names}{',' * (len(self.given) == 1)} = args")
            self.say("args.clear()  # so that memory can be let go of")
        if self.graph.numbers:
            names = ", ".join(f"p{k}" for k in range(len(self.graph.numbers)))
            self.say(f"{names}{',' * (len(self.graph.numbers) == 1)} = numbers")
        for slot, value in self.given.items():
            look = f"{value.sizes}, {value.strides}, {value.offset}"
            name = self.variable(slot)
            self.say(f"{name} = as_given({name}, {look}, {literal(value.dtype)})")
            self.looks[slot] = value.look
        for one in self.graph.kept:
            self.say(
                "# the program makes it once, and keeps it while no parameter changes"
            )
            text = one.text.format(*map(self.window, one.sources))
            self.say(f"buf{one.number} = {text}")

    def take_steps(self):
        """Writes the steps, with the memory around them."""
        items = self.graph.items
        for item, moves in zip(items, moves_of(self.graph, items), strict=True):
            taken, asked, freed = moves
            if item.group is None:
                self.run(item.instr.call)
            else:
                self.launch(item, dict(taken), asked)
            names = [self.variable(slot) for slot in freed]
            if names:
                self.say(f"del {', '.join(names)}")
        wanted = [s for s, kind in enumerate(self.graph.wanted) if kind == 2]
        names = [self.variable(slot) for slot in wanted if slot in self.looks]
        self.say(f"return ({', '.join(names)}{',' * (len(names) == 1)})")

    def say(self, line):
        """One line of the call."""
        self.lines.append(f"    {line}")

    def user_line(self, line, lines, last=None):
        """Writes the user's line as a comment, where it is another one than the last."""
        if line is not None and line != last:
            lines.append(f"    # {shown(line)}")
        return line

    def run(self, call):
        """Writes an operator's call."""
        self.line = self.user_line(call.notes, self.lines, self.line)
        rows = call.op.signature.rows
        parts = []
        for i, value in enumerate(call.values):
            text = self.argument(call.kind(i), value)
            name, keyword, default = rows[i][0], rows[i][3], rows[i][2]
            if call.kind(i) not in (TENSOR, TENSORS, NUMBER) and value is default:
                parts.append((name, None, keyword))
            else:
                parts.append((name, text, keyword))
        text = f"torch.ops.{call.op}({', '.join(spelled(parts))})"
        self.say(self.results(call) + text)

    def results(self, call):
        """The left side of a call: the variables of what it makes."""
        names = []
        for kind, value in call.results:
            fresh = kind == FRESH and value.slot not in self.looks
            names.append(self.variable(value.slot) if fresh else "_")
            if fresh:
                self.looks[value.slot] = value.look
        while names and names[-1] == "_" and call.shape is None:
            names.pop()
        if not names or set(names) == {"_"}:
            return ""
        if call.shape is None:
            return f"{names[0]} = "
        return f"{', '.join(names)}{',' * (len(names) == 1)} = "

    def argument(self, kind, value):
        """An operator's argument as Python."""
        if kind == TENSOR:
            return self.window(value)
        if kind == TENSORS:
            parts = [
                self.window(one) if isinstance(one, Value) else literal(one)
                for one in value
            ]
            return f"[{', '.join(parts)}]"
        if kind == NUMBER:
            return f"p{value}"
        if isinstance(value, str) and value in named():
            return f"{self.epilogue(named()[value].function.joined)}.name"
        return literal(value)

    # -- kernels -------------------------------------------------------------------------

    def launch(self, item, taken, asked):
        """Writes the launch of a group's kernel, after what memory it needs."""
        group = item.group
        read, written = operands_of(group, item.stored)
        for one in written.values():
            self.allocate(one, taken, asked)
        kinds = [_kind_of(key, group.members) for key in read]
        joined = Joined(group.members, list(read), list(written))
        name = self.kernel(joined, kinds, [one.dtype.name for one in written.values()])
        operands = [*written.items(), *read.items()]
        shown = [self.operand(key, one, group.sizes) for key, one in operands]
        if not any(one.sizes == group.sizes for _, one in operands if is_window(one)):
            key, one = next(pair for pair in operands if is_window(pair[1]))
            shown[operands.index((key, one))] = self.spread(key, group.sizes)
        self.say(f"{name}({', '.join(shown)})")

    def allocate(self, one, taken, asked):
        """Writes where a storage's memory comes from, if it has none yet."""
        slot = one.slot
        if slot in self.looks:
            return
        self.looks[slot] = one.look
        if slot in taken:
            source = taken[slot]
            seen = self.seen(source, one.look)
            self.say(
                f"{self.variable(slot)} = {seen}  # the memory of {self.variable(source)}"
            )
            return
        n_bytes = self.graph.sizes.get(slot, 0)
        sizes, strides, _, kind = one.look
        device = self.graph.devices.get(slot)
        where = f", {literal(device)}" if device is not None else ""
        self.looks[slot] = sizes, strides, 0, kind
        look = f"{sizes}, {strides}, torch.{kind}, {n_bytes}{where}"
        self.say(f"{self.variable(slot)} = empty_strided({look})")

    def operand(self, key, one, sizes):
        """A kernel's operand as Python."""
        if not is_window(one):
            return f"p{one[1]}" if isinstance(one, tuple) else literal(one.item())
        if right_aligned(one, sizes) == key[3]:
            return self.seen(one.slot, one.look)
        return self.spread(key, sizes)

    def spread(self, key, sizes):
        """A window over all sizes of a group."""
        slot, offset, kind, steps = key
        return self.seen(slot, (tuple(sizes), tuple(steps), offset, kind))

    def kernel(self, joined, in_kinds, out_kinds):
        """The name of a group's kernel, which is defined where it is new."""
        axes = next((m.axes for m in joined.members if m.axes is not None), None)
        mark = "@elementwise_kernel" if axes is None else f"@row_kernel(dims={axes})"
        return self.define("fused", mark, joined, in_kinds, out_kinds)

    def epilogue(self, joined):
        """The name of what stands behind a product, which is defined where it is new."""
        kinds = [_kind_of(key, joined.members) for key in joined.inputs]
        made = {}
        for member in joined.members:
            made |= dict(zip(member.out_keys, member.out_types, strict=True))
        kinds_out = [made[key] for key in joined.outputs]
        return self.define("epilogue", "@epilogue", joined, kinds, kinds_out)

    def define(self, word, mark, joined, in_kinds, out_kinds):
        """Defines a kernel, or finds the one that is the same."""
        key = mark, joined.digest, tuple(in_kinds), tuple(out_kinds)
        if key not in self.known:
            words = [
                m.step.op.name.partition(".")[0].strip("_") for m in joined.members
            ]
            words = [*words[:MOST_WORDS], *["more"] * (len(words) > MOST_WORDS)]
            name = "_".join([word, *words, str(len(self.known))])
            self.known[key] = name
            self.kernels.append(
                self.definition(name, mark, joined, in_kinds, out_kinds)
            )
        return self.known[key]

    def definition(self, name, mark, joined, in_kinds, out_kinds):
        """A kernel's function."""
        takes = [f"x{k}: torch.{kind}" for k, kind in enumerate(in_kinds)]
        gives = [f"torch.{kind}" for kind in out_kinds]
        gives = gives[0] if len(gives) == 1 else f"({', '.join(gives)})"
        lines = [mark, f"def {name}({', '.join(takes)}) -> {gives}:"]
        if len(lines[1]) > WIDTH:
            lines[1:] = [
                f"def {name}(",
                *(f"    {one}," for one in takes),
                f") -> {gives}:",
            ]
        text = expression_of(joined, in_kinds)
        if len(text) <= MOST_LINES:
            lines += [f"    # {line}" for line in text]
        known = {key: f"x{k}" for k, key in enumerate(joined.inputs)}
        last, count = None, 0
        for member in joined.members:
            last = self.user_line(member.step.line, lines, last)
            values = [known[key] for key in member.in_keys]
            names = [f"v{count + k}" for k in range(len(member.out_keys))]
            count += len(names)
            lines.append(f"    {', '.join(names)} = {expression(member, values)}")
            known.update(zip(member.out_keys, names, strict=True))
        lines.append(f"    return {', '.join(known[key] for key in joined.outputs)}")
        return "\n".join(lines) + "\n"

    # -- the rest ------------------------------------------------------------------------

    def arguments(self):
        """The function that makes arguments to try the program with."""
        make, ends = "rand_strided", ("    return [", "    ]")
        lines = []
        if self.saved is not None:
            make = ""
            ends = "    return saved_arguments(", "    )"
            lines.append(f"        Path(__file__).with_name({self.saved[0]!r}),")
        for slot, value in self.given.items():
            look = f"{value.sizes}, {value.strides}, {value.offset}, {literal(value.dtype)}"
            held = "" if self.saved is None else f", {self.saved[1][slot]}"
            where = "" if value.device.on_host else f", {literal(value.device)}"
            lines.append(f"        {make}({look}{held}{where}),")
        return "\n".join(["def get_args():", ends[0], *lines, ends[1]]) + "\n"


def expression(member, values):
    """A member's expression of some values, as Python."""
    source, kinds = member.source, tuple(member.in_types)
    options = [*values]
    if tuple(member.compute) != kinds:
        options.append(f"compute={tuple(member.compute)}")
    if tuple(member.out_types) != kinds[:1]:
        options.append(f"out={tuple(member.out_types)}")
    if member.statics:
        options.append(f"static={literal(tuple(member.statics))}")
    if isinstance(source, Along):
        options += [f"{name}={value!r}" for name, value in source.options.items()]
    return f"op.{member.step.op}({', '.join(options)})"


def expression_of(joined, kinds):
    """The lines of what a kernel computes, as one expression of its values."""
    outputs, _ = joined.expressions(tuple(kinds), tuple(kinds), ())
    return described(outputs)


def spelled(parts):
    """Arguments as Python: those that are the defaults are left out where they can be.

    Args:
        parts: for each its name, its text or None for the default, whether it has a name.
    """
    found, skipped = [], False
    for name, text, keyword in parts:
        if text is None:
            skipped = True
        else:
            found.append(f"{name}={text}" if keyword or skipped else text)
    return found


def shown(line):
    """The user's line: its file, its number, its function and its text."""
    path, number, function = line
    text = linecache.getline(path, number).strip()
    try:
        near = relpath(path)
    except ValueError:  # another drive
        near = path
    path = path if near.startswith("..") else near
    return f"{path}:{number}, in {function}" + (f": {text}" if text else "")


def right_aligned(window, sizes):
    """A window's strides over a group's sizes, where it is broadcast as tensors are."""
    lead = len(sizes) - window.ndim
    if lead < 0:
        return None
    steps = [0] * lead
    for size, stride, whole in zip(
        window.sizes, window.strides, sizes[lead:], strict=True
    ):
        if size not in (1, whole):
            return None
        steps.append(0 if size == 1 else stride)
    return tuple(steps)


def literal(value):
    """A constant as Python."""
    if isinstance(value, DType):
        return f"torch.{value.name}"
    if isinstance(value, Device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' * (len(value) == 1)})"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return f"torch.{str(value).rpartition('.')[2]}"
