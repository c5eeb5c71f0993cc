"""cuDNN's graphs without a card: their order, their tensors, engines, and late convolutions.

Functions have the parameters of nvidia-cudnn-frontend 1.14.1 by name. An engine is told
by what it may do to numbers: those that round float32 to half precision, or to TF32, do.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
from dataclasses import dataclass
from math import prod
from types import SimpleNamespace

import numpy as np

from tests.cuda.blas import in_tf32
from tests.cuda.driver import Misuse, Work, near
from tests.cuda.libraries import Fake

ALIGNED = 16
data_type = enum.Enum(
    "data_type", "FLOAT DOUBLE HALF INT8 INT32 UINT8 BFLOAT16 INT64 BOOLEAN NOT_SET"
)
heur_mode = enum.Enum("heur_mode", "A B FALLBACK")
build_plan_policy = enum.Enum("build_plan_policy", "HEURISTICS_CHOICE ALL")
convolution_mode = enum.Enum("convolution_mode", "CONVOLUTION CROSS_CORRELATION")
numerical_note = enum.Enum(
    "numerical_note",
    "TENSOR_CORE DOWN_CONVERT_INPUTS REDUCED_PRECISION_REDUCTION FFT NONDETERMINISTIC "
    "WINOGRAD STRICT_NAN_PROP",
)
behavior_note = enum.Enum(
    "behavior_note",
    "RUNTIME_COMPILATION REQUIRES_FILTER_INT8x32_REORDER REQUIRES_BIAS_INT8x32_REORDER",
)
NOT_SET = data_type.NOT_SET
STORED = {
    data_type.FLOAT: np.float32,
    data_type.HALF: np.float16,
    data_type.BFLOAT16: np.uint16,
}


class cudnnGraphNotSupportedError(Exception):
    """No engine takes a graph."""


@dataclass(frozen=True)
class Engine:
    """A way to convolve.

    Attributes:
        notes: what it does to numbers.
        room: the bytes that it works in, for each element of the result.
        built: whether the library can make a plan of it.
        turns: how long a run takes.
        behavior: what making a plan of it takes.
    """

    notes: frozenset = frozenset()
    room: int = 8
    built: bool = True
    turns: int = 1
    behavior: frozenset = frozenset()


HALVED = Engine(frozenset({numerical_note.DOWN_CONVERT_INPUTS}), 4)
LOOSE = Engine(
    frozenset({numerical_note.NONDETERMINISTIC, numerical_note.TENSOR_CORE}), 12
)
UNITS = Engine(frozenset({numerical_note.TENSOR_CORE}))
PLAIN = Engine(room=1)


class Cudnn(Fake):
    """The module ``cudnn``."""

    name = "cudnn"
    data_type = data_type
    heur_mode = heur_mode
    build_plan_policy = build_plan_policy
    numerical_note = numerical_note
    behavior_note = behavior_note
    cudnnGraphNotSupportedError = cudnnGraphNotSupportedError

    def __init__(self, driver):
        super().__init__(driver)
        self.engines = (HALVED, LOOSE, UNITS, PLAIN)
        self.graphs: list = []
        self.runs: list = []  # of graphs: the engine of each
        self.fused = True  # whether a vector may be added in the same graph

    def set_stream(self, handle, stream):
        super().set_stream(handle, stream)

    def create_handle(self):
        return self.create()

    def destroy_handle(self, handle):
        self.destroy(handle)

    def backend_version(self):
        return 91002

    def pygraph(
        self, name="test_graph", io_data_type=NOT_SET, intermediate_data_type=NOT_SET,
        compute_data_type=NOT_SET, handle=None, sm_count=None, sm_version=None,
        kernel_cache=None, device_property=None,
    ):  # fmt: skip
        self.known(handle)
        self.graphs.append(Graph(self, handle, io_data_type, compute_data_type))
        return self.graphs[-1]


class Described:
    """A tensor of a graph."""

    def __init__(self, graph, virtual, dim=None, stride=None, uid=-1, kind=NOT_SET):
        self.graph, self.virtual = graph, virtual
        self.dim, self.stride, self.uid, self.kind = dim, stride, uid, kind

    def set_output(self, on):
        self.virtual = not on
        return self

    def set_dim(self, dim):
        self.dim = list(dim)
        return self

    def set_stride(self, stride):
        self.stride = list(stride)
        return self

    def set_uid(self, uid):
        self.uid = uid
        return self

    def set_data_type(self, data_type):
        self.kind = data_type
        return self

    def extent(self):
        """Elements from the first to the last."""
        steps = zip(self.dim, self.stride, strict=True)
        return 1 + sum((size - 1) * step for size, step in steps)


# The steps of a graph's life, and what each may follow.
ORDER = (
    "new validate build_operation_graph create_execution_plans check_support build_plans"
).split()


class Graph:
    """A graph of one convolution, and of a vector that is added."""

    def __init__(self, library, handle, kind, sums):
        self.library, self.handle, self.kind, self.sums = library, handle, kind, sums
        self.stage = "new"
        self.tensors: list = []
        self.operation = self.added = None
        self.plans: list = []
        self.fault = ""  # what the next run ends with

    def go(self, stage, *before):
        """Takes the next step.

        Raises:
            Misuse: it is not this one's turn.
        """
        self.library.calls.append((stage, ()))
        if self.stage not in (before or (ORDER[ORDER.index(stage) - 1],)):
            raise Misuse(f"cudnn: {stage} after {self.stage}")
        if stage in ORDER:
            self.stage = stage

    def tensor(
        self, dim, stride, data_type=NOT_SET, is_virtual=False, is_pass_by_value=False,
        ragged_offset=None, reordering_type=None, name="", uid=-1,
    ):  # fmt: skip
        self.go("tensor", "new")
        if len(dim) != len(stride) or len(dim) not in (4, 5):
            raise RuntimeError("a tensor has four or five dimensions")
        made = Described(self, is_virtual, list(dim), list(stride), uid, data_type)
        self.tensors.append(made)
        return made

    def operate(self, kind, first, second, *facts, compute_data_type, convolution_mode):
        """Notes a convolution; its result."""
        self.go(kind, "new")
        if self.operation is not None or convolution_mode is CONVOLUTION:
            raise Misuse("cudnn: two convolutions, or one that turns the filter")
        if compute_data_type is not self.sums:
            raise RuntimeError("sums of another type than the graph's")
        pre, post, stride, dilation = map(tuple, facts)
        space = len(first.dim) - 2
        if {len(pre), len(post), len(stride), len(dilation)} != {space} or pre != post:
            raise RuntimeError("settings of another number of dimensions")
        result = Described(self, True)
        self.tensors.append(result)
        self.operation = SimpleNamespace(
            kind=kind, first=first, second=second, result=result, padding=pre,
            stride=stride, dilation=dilation,
        )  # fmt: skip
        return result

    def conv_fprop(
        self, image, weight, pre_padding=(), post_padding=(), stride=(), dilation=(),
        convolution_mode=convolution_mode.CROSS_CORRELATION, compute_data_type=NOT_SET,
        name="",
    ):  # fmt: skip
        return self.operate(
            *("forward", image, weight, pre_padding, post_padding, stride, dilation),
            compute_data_type=compute_data_type, convolution_mode=convolution_mode,
        )  # fmt: skip

    def conv_dgrad(
        self, loss, filter, pre_padding=(), post_padding=(), stride=(), dilation=(),
        convolution_mode=convolution_mode.CROSS_CORRELATION, compute_data_type=NOT_SET,
        name="",
    ):  # fmt: skip
        return self.operate(
            *("input", loss, filter, pre_padding, post_padding, stride, dilation),
            compute_data_type=compute_data_type, convolution_mode=convolution_mode,
        )  # fmt: skip

    def conv_wgrad(
        self, image, loss, pre_padding=(), post_padding=(), stride=(), dilation=(),
        convolution_mode=convolution_mode.CROSS_CORRELATION, compute_data_type=NOT_SET,
        name="",
    ):  # fmt: skip
        return self.operate(
            *("weight", image, loss, pre_padding, post_padding, stride, dilation),
            compute_data_type=compute_data_type, convolution_mode=convolution_mode,
        )  # fmt: skip

    def bias(self, input, bias, compute_data_type=NOT_SET, name=""):
        self.go("bias", "new")
        if self.operation is None or input is not self.operation.result:
            raise Misuse("cudnn: a vector is added to something else")
        result = Described(self, True)
        self.tensors.append(result)
        self.added = SimpleNamespace(vector=bias, result=result)
        return result

    # -- planning ------------------------------------------------------------------------

    def validate(self):
        self.go("validate")
        op = self.operation
        last = op.result if self.added is None else self.added.result
        if last.virtual or sum(not t.virtual for t in self.tensors) != 3 + (
            self.added is not None
        ):
            raise RuntimeError("a result that nobody gets")
        uids = [t.uid for t in self.tensors if not t.virtual]
        if len(set(uids)) != len(uids) or min(uids) < 1:
            raise Misuse("cudnn: tensors without a number of their own")
        for tensor in (op.first, op.second, op.result, last):
            if tensor.dim is None or tensor.stride is None:
                raise RuntimeError("a tensor without sizes")
            if not dense(tensor.dim, tensor.stride):
                raise RuntimeError("a tensor with gaps")
            if not tensor.virtual and tensor.kind is not self.kind:
                raise RuntimeError("types that do not go together")
        if last.dim != op.result.dim:
            raise RuntimeError("a sum of another size")
        if self.added is not None:
            vector = self.added.vector
            if vector.dim != [1, last.dim[1], *[1] * (len(last.dim) - 2)]:
                raise RuntimeError("a vector of another size")
        self.check_sizes(op)

    def check_sizes(self, op):
        """Refuses sizes of which there is no convolution."""
        image, weight, out = roles(op, lambda tensor: tensor.dim)
        settings = op.padding, op.stride, op.dilation
        sizes = [
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, k, p, s, d in zip(image[2:], weight[2:], *settings, strict=True)
        ]
        groups, rest = divmod(image[1], weight[1])
        wrong = rest or weight[0] % groups or out[:2] != [image[0], weight[0]]
        if wrong or sizes != out[2:]:
            raise RuntimeError(f"no convolution of {image} by {weight} is {out}")

    def build_operation_graph(self):
        self.go("build_operation_graph")
        if self.added is not None and not self.library.fused:
            raise cudnnGraphNotSupportedError("a vector behind it")

    def create_execution_plans(self, modes):
        self.go("create_execution_plans")
        if not modes or not all(isinstance(mode, heur_mode) for mode in modes):
            raise TypeError("modes of the heuristics")
        self.plans = [
            engine for engine in self.library.engines if self.takes(engine.notes)
        ]

    def takes(self, notes):
        """Whether there is such an engine for this graph."""
        if numerical_note.DOWN_CONVERT_INPUTS in notes:
            return self.kind is data_type.FLOAT
        if (
            numerical_note.NONDETERMINISTIC in notes
            and self.operation.kind == "forward"
        ):
            return False
        return True

    def deselect_numeric_notes(self, notes):
        self.go("deselect_numeric_notes", "create_execution_plans")
        if not all(isinstance(note, numerical_note) for note in notes):
            raise TypeError("notes of engines")
        self.plans = [p for p in self.plans if not p.notes & set(notes)]

    def deselect_behavior_notes(self, notes):
        self.go("deselect_behavior_notes", "create_execution_plans")
        if not all(isinstance(note, behavior_note) for note in notes):
            raise TypeError("behavior of engines")
        self.plans = [p for p in self.plans if not p.behavior & set(notes)]

    def deselect_workspace_greater_than(self, workspace):
        self.go("deselect_workspace_greater_than", "create_execution_plans")
        self.plans = [p for p in self.plans if self.room(p) <= workspace]

    def check_support(self):
        self.go("check_support")
        if not self.plans:
            raise cudnnGraphNotSupportedError("no engine takes the graph")

    def build_plans(self, policy=build_plan_policy.HEURISTICS_CHOICE):
        self.go("build_plans")
        self.policy = policy
        built = [n for n, plan in enumerate(self.plans) if plan.built]
        if not built:
            raise RuntimeError("no plan was built")
        self.first = built[0]

    def room(self, plan):
        return plan.room * prod(self.operation.result.dim)

    def get_execution_plan_count(self):
        self.go("get_execution_plan_count", "build_plans")
        return len(self.plans)

    def get_workspace_size(self):
        self.go("get_workspace_size", "build_plans")
        return self.room(self.plans[self.first])

    def get_workspace_size_plan_at_index(self, index):
        self.go("get_workspace_size_plan_at_index", "build_plans")
        return self.room(self.plans[index]) * self.plans[index].built

    # -- running -------------------------------------------------------------------------

    def execute(self, tensor_to_device_buffer, workspace, handle=None):
        self.go("execute", "build_plans")
        self.put(self.plans[self.first], tensor_to_device_buffer, workspace, handle)

    def execute_plan_at_index(
        self, tensor_to_device_buffer, workspace, index, handle=None
    ):
        self.go("execute_plan_at_index", "build_plans")
        if self.policy is not build_plan_policy.ALL or not self.plans[index].built:
            raise RuntimeError("a plan that was not built")
        self.put(self.plans[index], tensor_to_device_buffer, workspace, handle)

    def put(self, plan, pack, workspace, handle):
        """Puts the work into the handle's queue."""
        library, driver = self.library, self.library.driver
        if self.fault:
            raise RuntimeError(self.fault)
        if handle != self.handle:
            raise Misuse(
                "cudnn: a graph runs with another handle than it was made with"
            )
        wanted = {t.uid: t for t in self.tensors if not t.virtual}
        if set(pack) != set(wanted):
            raise Misuse(f"cudnn: addresses of {sorted(pack)} for {sorted(wanted)}")
        views = {}
        for uid, tensor in wanted.items():
            if type(pack[uid]) is not int or pack[uid] % ALIGNED:
                raise Misuse(f"cudnn: tensor {uid} lies at {pack[uid]}")
            n_bytes = tensor.extent() * np.dtype(STORED[tensor.kind]).itemsize
            held = library.memory(pack[uid], n_bytes, f"tensor {uid}")
            views[uid] = held, pack[uid], n_bytes, tensor
        room = library.memory(workspace, self.room(plan), "work space")
        library.runs.append(plan)

        def elements(tensor):
            held, address, n_bytes, _ = views[tensor.uid]
            driver.still(held, "cudnn")
            raw = (ctypes.c_char * n_bytes).from_address(near(address))
            flat = np.frombuffer(raw, STORED[tensor.kind])
            steps = [step * flat.itemsize for step in tensor.stride]
            return np.lib.stride_tricks.as_strided(flat, tensor.dim, steps)

        def do():
            library.scribble(workspace, self.room(plan), room)
            op = self.operation
            operands = [
                prepared(elements(tensor), plan.notes)
                for tensor in (op.first, op.second)
            ]
            found = convolve(op, *operands)
            last = op.result
            if self.added is not None:
                last = self.added.result
                found = found + widened(elements(self.added.vector))
            elements(last)[...] = narrowed(found, last.kind)

        stream = library.known(handle).stream
        for _ in range(plan.turns - 1):
            driver.put(stream, Work(lambda: None, what="cudnn"))
        driver.put(stream, Work(do, what="cudnn"))


CONVOLUTION = convolution_mode.CONVOLUTION


def dense(dim, stride):
    """Whether a tensor has no gaps, with channels first or last."""
    for order in (range(len(dim)), (0, *range(2, len(dim)), 1)):
        wanted, step = {}, 1
        for d in reversed(order):
            wanted[d] = step
            step *= dim[d]
        if all(stride[d] == wanted[d] for d in order):
            return True
    return False


def roles(op, of):
    """Image, weight and output of an operation, as a function has them."""
    first, second, result = map(of, (op.first, op.second, op.result))
    return {
        "forward": (first, second, result),
        "input": (result, second, first),
        "weight": (first, result, second),
    }[op.kind]


def widened(values):
    """Numbers that NumPy calculates with."""
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32) if values.dtype == np.float16 else values


def narrowed(values, kind):
    """Numbers as they are stored."""
    if kind is not data_type.BFLOAT16:
        return values
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def prepared(values, notes):
    """An operand as an engine multiplies it."""
    single = values.dtype == np.float32
    values = widened(values)
    if single and numerical_note.DOWN_CONVERT_INPUTS in notes:
        return values.astype(np.float16).astype(np.float32)
    if single and numerical_note.TENSOR_CORE in notes:
        return in_tf32(values)
    return values


def convolve(op, first, second):
    """The result of an operation, tap by tap."""
    image, weight, out = roles(op, lambda tensor: tuple(tensor.dim))
    groups = image[1] // weight[1]
    wide = [size + 2 * p for size, p in zip(image[2:], op.padding, strict=True)]
    inner = tuple(
        slice(p, p + size) for size, p in zip(image[2:], op.padding, strict=True)
    )
    around = np.zeros((*image[:2], *wide), first.dtype)
    if op.kind != "input":
        around[(..., *inner)] = first
    places = around.reshape(image[0], groups, weight[1], *wide)
    sizes = (image[0], groups, weight[0] // groups, *out[2:])
    taps = (groups, weight[0] // groups, *weight[1:])
    sums = np.zeros(sizes, first.dtype)
    weights = np.zeros(taps, first.dtype)
    if op.kind != "forward":
        sums = (first if op.kind == "input" else second).reshape(sizes)
    if op.kind != "weight":
        weights = second.reshape(taps)
    for tap in itertools.product(*map(range, weight[2:])):
        window = tuple(
            slice(k * d, k * d + (size - 1) * s + 1, s)
            for k, d, s, size in zip(tap, op.dilation, op.stride, out[2:], strict=True)
        )
        seen, share = places[(..., *window)], weights[(..., *tap)]
        if op.kind == "forward":
            sums += np.einsum("ngc...,gkc->ngk...", seen, share)
        elif op.kind == "input":
            seen += np.einsum("ngk...,gkc->ngc...", sums, share)
        else:
            share += np.einsum("ngkp,ngcp->gkc", *map(flat, (sums, seen)))
    if op.kind == "forward":
        return sums.reshape(out)
    return around[(..., *inner)] if op.kind == "input" else weights.reshape(weight)


def flat(values):
    """Values whose dimensions of space are one."""
    return values.reshape(*values.shape[:3], -1)
