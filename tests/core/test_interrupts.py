"""A Ctrl-C at any instruction leaves the thread's state as it was before the block.

Python raises KeyboardInterrupt between any two instructions, those of ``__enter__`` and
``__exit__`` too. In a notebook work goes on after it: what an interrupted block had
switched on must not stay.
"""

import ast
import dis
import functools
import itertools
import os
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.amp import autocast_mode
from rushlight.autograd import forward_ad, graph
from rushlight.autograd.levels.stack import THREAD
from rushlight.autograd.windows import Untransformed
from rushlight.core import state as switches
from rushlight.dispatch import python_key
from rushlight.dispatch.disabled import DisableTorchFunctionSubclass
from rushlight.dispatch.guard import GradMode, Guard
from rushlight.dispatch.keys import DispatchKey, KeySet
from rushlight.dispatch.torch_function import BaseTorchFunctionMode, TorchFunctionMode
from rushlight.distributed.rpc import _codec as rpc_values
from rushlight.distributed.tensor import _dispatch as spread
from rushlight.distributed.tensor.experimental import implicit_replication
from rushlight.distributed.tensor.parallel import loss_parallel
from rushlight.fx import traceback
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.graph import export_state
from rushlight.graph.export_state import recording_export
from rushlight.io import printing
from rushlight.onnx import _state as onnx_state
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils.checkpoint import checkpoint
from tests.repo.trees import nodes

# An interrupt in a callback of the garbage collector is printed, and goes no further.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)

PACKAGE = os.path.dirname(rl.__file__)
PLACES = 30  # of a call that are tried


@functools.cache
def handlers_of(code):
    """The parts of a function's code with a handler each: first, last, the handler."""
    return [(e.start, e.end, e.target) for e in dis.Bytecode(code).exception_entries]


def handler_at(code, place):
    return next((to for a, b, to in handlers_of(code) if a <= place < b), None)


class InterruptAt:
    """Raises KeyboardInterrupt at one of the places where CPython looks for signals.

    These are the starts of functions, the ends of loops' rounds and the ends of calls,
    here those in the package's Python. What is raised for a call is raised at the next
    instruction, so only where the same handler sees both.
    """

    def __init__(self, number):
        self.left = number
        self.called = {}  # frames whose last instruction was a call: where it was

    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        return self.step

    def step(self, frame, event, arg):
        if event == "opcode":
            code, place = frame.f_code, frame.f_lasti
            name = dis.opname[code.co_code[place]]
            here = name in ("RESUME", "JUMP_BACKWARD")
            call = self.called.pop(frame, None)
            if call is not None:
                here |= handler_at(code, call) == handler_at(code, place)
            if name in ("CALL", "CALL_FUNCTION_EX"):
                self.called[frame] = place
            self.left -= here
            if here and self.left == 0:
                raise KeyboardInterrupt
        return self.step


def interrupted(call, number):
    """Whether a call has got as far as a place, where it was interrupted."""
    tracer = InterruptAt(number)
    outer = sys.gettrace()
    sys.settrace(tracer)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(outer)
    return tracer.left <= 0


def n_positions(call):
    """How many places a call has."""
    tracer = InterruptAt(0)
    outer = sys.gettrace()
    sys.settrace(tracer)
    try:
        call()
    finally:
        sys.settrace(outer)
    return -tracer.left


def what_is_on():
    return (
        switches.is_grad_enabled(),
        switches.is_inference_mode_enabled(),
        switches.included_keys(),
        switches.excluded_keys(),
        switches.is_anomaly_enabled(),
        switches.function_modes(),
        switches.silenced_overrides(),
        python_key.modes(),
        autocast_mode.current_settings(),
        autocast_mode._threads.depth,
        (THREAD.at, THREAD.dual),
        len(graph.stack.pairs),
        str(rl.get_default_device()),
        bool(getattr(spread.state, "implicit", False)),
        bool(getattr(spread.state, "loss_parallel", False)),
        traceback._state.preserve,
        traceback.get_current_replay_node(),
        graph.stack.refusal,
        printing.get_printoptions(),
        rl._dynamo.config.cache_size_limit,
        rl._inductor.config.triton.cudagraphs,
        rl.onnx.is_in_onnx_export(),
        recording_export(),
        rpc_values.settings.pickle,
        rl.backends.cuda.flash_sdp_enabled(),
        rl.backends.cuda.math_sdp_enabled(),
    )


def keep(tensor):
    return tensor


BLOCKS = {
    "no_grad": rl.no_grad,
    "enable_grad": rl.enable_grad,
    "inference_mode": rl.inference_mode,
    "autocast": lambda: rl.autocast("cpu", rl.float16),
    "cuda's autocast of the host": lambda: rl.amp.autocast("cpu", cache_enabled=False),
    "device": lambda: rl.device("meta"),
    "function mode": TorchFunctionMode,
    "dispatch mode": TorchDispatchMode,
    "fake tensors": rl._subclasses.FakeTensorMode,
    "types silenced": DisableTorchFunctionSubclass,
    "saved tensors": lambda: graph.saved_tensors_hooks(keep, keep),
    "saved on the host": graph.save_on_cpu,
    "dual level": forward_ad.dual_level,
    "tensors that are whole on every rank": implicit_replication,
    "losses of cut classes": loss_parallel,
    "marks of steps": traceback.preserve_node_meta,
    "no hooks": lambda: graph.disable_saved_tensors_hooks("none here"),
    "a step that is run again": lambda: traceback.set_current_replay_node("node"),
    "writes to saved tensors": graph.allow_mutation_on_saved_tensors,
    "printed text": lambda: printing.printoptions(precision=1),
    "settings": lambda: rl._dynamo.config.patch(cache_size_limit=3),
    "settings of a section": lambda: rl._inductor.config.patch(
        {"triton.cudagraphs": True}
    ),
    "export": export_state.exporting,
    "export to ONNX": onnx_state.exporting,
    "pickles of callers": rpc_values.allow_pickle,
    "kernels of attention": lambda: rl.nn.attention.sdpa_kernel(
        rl.nn.attention.SDPBackend.MATH
    ),
    "keys": lambda: Guard(exclude=KeySet.of(DispatchKey.Autograd)),
    "mode of gradients": lambda: GradMode(False),
    "untransformed": Untransformed,
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_interrupted_on_its_way_in_or_out_changes_nothing(name):
    def block():
        with made:
            pass

    with BLOCKS[name]():  # what is registered or imported at first use is
        pass
    before = what_is_on()
    for number in itertools.count(1):
        made = BLOCKS[name]()
        reached = interrupted(block, number)
        assert what_is_on() == before, f"at place {number}"
        if not reached:
            break


def changes(statement):
    """Whether a statement, or one in its body, calls something or sets what others see."""
    if isinstance(statement, ast.For | ast.If):
        return any(map(changes, [*statement.body, *statement.orelse]))
    if isinstance(statement, ast.Assign | ast.AugAssign):
        targets = getattr(statement, "targets", None) or [statement.target]
        leaves = [leaf for target in targets for leaf in ast.walk(target)]
        return any(isinstance(one, ast.Attribute | ast.Subscript) for one in leaves)
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def holes(path):
    """Blocks of a file that change something right before the `try` that puts it back."""
    for node in nodes(path):
        if not isinstance(node, ast.FunctionDef) or not any(
            "contextmanager" in ast.unparse(one) for one in node.decorator_list
        ):
            continue
        for before, after in itertools.pairwise(node.body):
            if isinstance(after, ast.Try) and after.finalbody and changes(before):
                yield from {node.name}.difference(PAIRED)


# Blocks whose end must not run where their beginning did not, and why.
PAIRED = {
    "cached": "threads count their blocks together",
    "expires": "a timer is cleared by whoever has set it",
    "grouped": "NCCL counts a group's beginnings and ends",
    "premultiplied": "NCCL gives the number of what is destroyed",
    "range": "the range that was pushed last is popped",
    "running": "the tracer that was pushed last is popped",
    "summon_full_params": "parameters are cut again where they were gathered",
    "_set_replace_hook": "a hook that is not there cannot be taken off",
}


def test_blocks_change_nothing_before_the_try_that_puts_it_back():
    found = {}
    for path in Path(PACKAGE).rglob("*.py"):
        text = path.read_text()
        if "contextmanager" in text and "import cython" not in text:
            found[path.relative_to(PACKAGE).as_posix()] = list(holes(path))
    assert {path: names for path, names in found.items() if names} == {}


x = rl.arange(3.0)
w = rl.ones(3, requires_grad=True)
CALLS = {
    "vmap": lambda: rl.func.vmap(lambda v: v * 2)(x),
    "grad": lambda: rl.func.grad(lambda v: (v * v).sum())(x),
    "jvp": lambda: rl.func.jvp(lambda v: v * v, (x,), (x,)),
    "vmap of grad": lambda: rl.func.vmap(rl.func.grad(lambda v: v * v))(x),
    "hessian": lambda: rl.func.hessian(lambda v: (v * v).sum())(x),
    "forward mode": lambda: forward_mode(x),
    "function": lambda: Doubled.apply(w).sum().backward(),
    "checkpoint": lambda: checkpoint(rl.exp, w, use_reentrant=False).sum().backward(),
    "compiled": lambda: rl.compile(lambda v: (v * 2).sin().sum())(w).backward(),
    "make_fx": lambda: make_fx(lambda v: v.exp() * 2)(x),
    "export": lambda: rl.export.export(rl.nn.ReLU(), (x,)),
    "autocast": lambda: products_in_bfloat16(rl.ones(2, 2)),
}


class Doubled(rl.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def forward_mode(value):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(forward_ad.make_dual(value, value).exp())


def products_in_bfloat16(value):
    with rl.autocast("cpu"):
        return value @ value


@pytest.mark.parametrize("name", CALLS)
def test_a_call_interrupted_anywhere_changes_nothing(name):
    call = CALLS[name]
    call()
    before = what_is_on()
    for number in range(1, n_positions(call), max(1, n_positions(call) // PLACES)):
        assert interrupted(call, number)
        assert what_is_on() == before, f"at place {number}"
    call()


def test_what_is_on_around_an_interrupted_call_stays_on():
    def both():
        CALLS["autocast"]()
        CALLS["vmap"]()

    before = what_is_on()
    with rl.no_grad(), rl.autocast("cpu"), rl.device("cpu"), BaseTorchFunctionMode():
        inner = what_is_on()
        for number in range(1, 300):
            interrupted(both, number)
        assert what_is_on() == inner
    assert what_is_on() == before


def test_a_dual_level_that_was_left_inside_of_its_block_is_told_at_the_end():
    with (
        pytest.raises(RuntimeError, match="no level is currently open"),
        forward_ad.dual_level(),
    ):
        forward_ad.exit_dual_level()
    assert THREAD.dual is None
