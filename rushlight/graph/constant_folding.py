"""What follows from parameters alone is made once, and kept from call to call.

Where nobody learns, and a program writes to none of them, a layer's parameters are what
they were at the last call. Two things are made of them:

- **Packed and turned weights.** A product of several rows reads its right operand in panels
  as wide as a tile; a layer's weight lies the other way, and its kernel turns a block of it
  for every call. The program has a copy in panels instead, or one that is turned where
  something is behind the product or there are fewer columns than a panel has.
- **Folded norms.** A normalisation by running statistics behind a convolution is a factor
  and a term for each channel. They become part of the convolution's weights and bias.

Each is made again when a parameter is another one or may have been written to, which its
storage counts (`core.storage.Storage.writes`), by whatever alias it is written.
"""

from functools import partial
from math import prod

from rushlight._inductor import config
from rushlight.core import logs
from rushlight.core.facts import storage_of
from rushlight.core.window import make_tensor
from rushlight.dispatch.dispatcher import packets
from rushlight.graph.fusion_anchor import FAR
from rushlight.graph.program import Prepared, is_own
from rushlight.graph.steps import CONSTANT, FRESH, TENSOR, Kept, step_of
from rushlight.graph.tape import made_call, value_of
from rushlight.kernels.matmul.matmul_kernel_registry import width_of
from rushlight.operators import call as ops
from rushlight.operators.matmul.linear_packed import pack_weight

TYPES = ("float32", "float64")  # halves are multiplied in pairs, as they lie
# The place of the right operand, and whether it is written the other way round.
PRODUCTS = {
    "aten.linear.default": (1, True),
    "aten.mm.default": (1, False),
    "aten.addmm.default": (2, False),
}
PACKED = ("aten.linear.default", "aten.mm.default")  # what may have one in panels


def prepare(tape, graph, name):
    """Changes a graph's steps so that they read what is kept.

    Args:
        tape: has the storages, by number.
        name: the function's, for the logs.
    """
    if not config.keep_prepared or not graph.lasting:
        return
    work = Preparation(tape, graph)
    work.fold_norms()
    work.transpose_weights()
    if graph.prepared and logs.fusion.active:
        logs.fusion.say(f"{name}: kept for later calls: {', '.join(work.details)}")


class Preparation:
    """One graph, and what is kept for it."""

    def __init__(self, tape, graph):
        self.tape, self.graph = tape, graph
        self.written = {v.slot for step in graph.steps for v in step.writes}
        self.details = []

    def lasts(self, value):
        """Whether a window is on a parameter that only operators write to."""
        slot = value.slot
        return (
            slot in self.graph.lasting
            and slot not in self.written
            and value.plain
            and value.dtype.name in TYPES
            and value.device.on_host
            and is_own(self.tape.slots[slot])
        )

    def add(self, sources, make, details, text):
        """Keeps what a function makes of windows; returns its number and a first one.

        Args:
            make: from tensors to one that is row-major.
            text: the same as Python, with a pair of braces for each window.
        """
        looks = [(v.sizes, v.strides, v.offset, v.dtype) for v in sources]

        def made_of(*storages):
            return make(
                *(
                    make_tensor(s, *look)
                    for s, look in zip(storages, looks, strict=True)
                )
            )

        slots = [value.slot for value in sources]
        number = len(self.graph.wanted)
        self.graph.wanted += bytes([0])
        self.graph.prepared.append(
            Prepared(slots, lambda *storages: storage_of(made_of(*storages)))
        )
        self.details.append(details)
        self.graph.kept.append(Kept(number, sources, text))
        return number, made_of(*(self.tape.slots[slot] for slot in slots))

    # -- turned weights ------------------------------------------------------------

    def transpose_weights(self):
        """Gives products turned copies of their weights."""
        kept = {}  # what a window looks like -> the window on the copy
        for number, step in enumerate(self.graph.steps):
            if str(step.op) not in PRODUCTS:
                continue
            at, transposed = PRODUCTS[str(step.op)]
            left, value = step.call.values[at - 1 : at + 1]
            if not self.lasts(value) or not is_read_across(left, value, transposed):
                continue
            packed = is_packed(step)
            key = value.slot, value.look, transposed, packed
            if key not in kept:
                kept[key] = (self.pack if packed else self.instr)(value, transposed)
            call = packed_call if packed else replaced
            self.graph.steps[number] = step_of(call(step.call, {at: kept[key]}))

    def pack(self, value, transposed):
        """A window on a copy in panels."""
        width = width_of(value.dtype.name)

        def make(seen):
            return pack_weight(width, seen if transposed else seen.t())

        text = f"pack_weight({width}, {{}}{'' if transposed else '.t()'})"
        number, first = self.add([value], make, f"s{value.slot} packed", text)
        return value_of(first, number)

    def instr(self, value, transposed):
        """A window like another one, on a copy that lies the other way."""

        def make(seen):
            return seen.t().contiguous() if transposed else seen.contiguous()

        text = "{}.t().contiguous()" if transposed else "{}.contiguous()"
        number, first = self.add([value], make, f"s{value.slot} turned", text)
        return value_of(first.t() if transposed else first, number)

    # -- folded norms --------------------------------------------------------------

    def fold_norms(self):
        """Makes normalisations part of the convolutions before them."""
        steps = self.graph.steps
        gone = set()
        for number, step in enumerate(steps):
            if str(step.op) != "aten._batch_norm_apply.default":
                continue
            at = self.convolution_before(number)
            norm = None if at is None else self.statistics(number)
            if norm is None:
                continue
            steps[at] = self.folded(steps[at].call, *norm, step.call.results[0][1])
            gone.add(number)
        if gone:
            self.graph.steps = [s for i, s in enumerate(steps) if i not in gone]
            self.graph.drop_unused()

    def convolution_before(self, number):
        """The number of the convolution that a step alone reads; None where there is none."""
        graph, call = self.graph, self.graph.steps[number].call
        sums, result = call.values[0], call.results[0][1]
        if graph.lives(sums.slot) or result.look != sums.look:
            return None
        touching = [i for i, s in enumerate(graph.steps) if sums.slot in s.touched]
        if len(touching) != 2 or touching[1] != number:
            return None
        step = graph.steps[touching[0]]
        made = step.call.results[0]
        values = step.call.values
        if str(step.op) != "aten.convolution.default" or made[0] != FRESH:
            return None
        if made[1].look != sums.look or values[6] or not prod(values[1].sizes):
            return None
        if (
            not self.lasts(values[1])
            or step.call.kind(2) == TENSOR
            and not (self.lasts(values[2]))
        ):
            return None
        return touching[0]

    def statistics(self, number):
        """Mean, variance, weight, bias and what is added to the variance, or None."""
        _, center, scale, shift = self.graph.steps[number].call.values
        times = self.maker(scale, number)
        if times is None or str(times.op) != "aten.mul.Tensor":
            return None
        if times.call.kind(0) != TENSOR or times.call.kind(1) != TENSOR:
            return None
        weight, deviation = times.call.values[:2]
        if self.lasts(deviation):
            weight, deviation = deviation, weight
        root = self.maker(deviation, number)
        if root is None or str(root.op) != "aten._reciprocal_deviation.default":
            return None
        spread, eps = root.call.values
        if root.call.kind(1) != CONSTANT:
            return None
        operands = [center, spread, weight, shift]
        return (operands, eps) if all(map(self.lasts, operands)) else None

    def maker(self, value, before):
        """The one step that makes and fills a storage, before another one."""
        found = [
            step
            for step in self.graph.steps[:before]
            if any(one.slot == value.slot for one in step.writes)
        ]
        whole = len(found) == 1 and len(found[0].call.results) == 1
        return found[0] if whole and found[0].makes == [value.slot] else None

    def folded(self, call, operands, eps, result):
        """The step of a convolution with a norm in its weights and bias.

        Args:
            result: the norm's.
        """
        weight, biased = call.values[1], call.kind(2) == TENSOR
        before = [call.values[2]] if biased else []
        rows = weight.sizes[0]

        make = partial(fold_norm, eps)
        details = f"s{weight.slot} with the norm behind it"
        sources = [weight, *operands, *before]
        text = f"fold_norm({eps!r}, {', '.join(['{}'] * len(sources))})"
        number, first = self.add(sources, make, details, text)
        windows = {
            1: value_of(first[:-rows].reshape(weight.sizes), number),
            2: value_of(first[-rows:], number),
        }
        return step_of(replaced(call, windows, result))


def fold_norm(eps, weight, center, spread, gain, shift, bias=0.0):
    """A convolution's weight and bias with a normalisation by running statistics in them.

    Args:
        eps: what is added to the variance.
        weight: the convolution's.
        center, spread: mean and variance of each channel.
        gain, shift: what the norm multiplies by and adds.
        bias: the convolution's.

    Returns:
        All elements of the weight and then those of the bias.
    """
    wide = (one.reshape(-1).double() for one in (center, spread, gain, shift))
    center, spread, gain, shift = wide
    factor = gain * ops.rsqrt(spread + eps)
    scaled = weight.double() * factor.reshape(-1, *[1] * (weight.ndim - 1))
    term = (bias - center) * factor + shift
    return ops.cat([scaled.reshape(-1), term]).to(weight.dtype)


def is_read_across(left, value, transposed):
    """Whether a product of several rows reads columns as they do not lie."""
    if value.ndim != 2:
        return False
    columns, depth = value.sizes if transposed else value.sizes[::-1]
    step = value.strides[1 if transposed else 0]
    return prod(left.sizes[:-1]) > 1 and columns > 1 and depth > 1 and step == 1


def is_packed(step):
    """Whether a product's weight is to be in panels.

    Not where its results may be the head of a group of steps, which sees matrices.
    """
    call = step.call
    ((made, sums),) = call.results
    size = sums.count * sums.dtype.itemsize
    if str(step.op) not in PACKED or made != FRESH or size >= FAR:
        return False
    left = call.values[0]
    bias = call.values[2] if len(call.values) > 2 and call.kind(2) == TENSOR else None
    whole = left.ndim > 1 and left.dtype is sums.dtype and left.plain
    plain = bias is None or (
        bias.sizes == sums.sizes[-1:]
        and bias.strides == (1,)
        and bias.dtype is sums.dtype
        and bias.plain
    )
    return whole and plain and sums.sizes[-1] >= width_of(sums.dtype.name)


def packed_call(call, windows):
    """The call of a product by a weight in panels."""
    (panels,) = windows.values()
    biased = len(call.values) > 2 and call.kind(2) == TENSOR
    bias = (TENSOR, call.values[2]) if biased else (CONSTANT, None)
    columns = CONSTANT, call.results[0][1].sizes[-1]
    given = (TENSOR, call.values[0]), (TENSOR, panels), bias, columns
    kinds, values = map(list, zip(*given, strict=True))
    op = packets()["aten", "_linear_packed"].default
    return made_call(op, values, kinds, call)


def replaced(call, windows, result=None):
    """A call with other windows as some of its arguments, or as its result.

    Args:
        windows: the number of an argument -> the window.
    """
    kinds = [call.kind(i) for i in range(len(call.values))]
    values = list(call.values)
    for at, value in windows.items():
        kinds[at], values[at] = TENSOR, value
    return made_call(call.op, values, kinds, call, result)


__all__ = ["prepare"]
