"""Calls of modules at sizes that were not met, without their Python.

Where other sizes of a module's arguments wait (`rushlight.graph.open_sizes`), nothing is
planned for them, and all that a compiled function could save is Python. So a call is recorded
as it is, then one with its sizes traced (`rushlight.graph.size_tracing`), which has to give
the first one's steps at its sizes. From then on calls whose guards hold are made again
step by step (`rushlight.graph.dynamic_trace`). What the Python can have read beside sizes is
compared each time, as for sizes that are known (`rushlight.graph.module_replay`).
"""

from __future__ import annotations

import sys
from types import FunctionType
from weakref import ref

import cython
from cython.cimports.rushlight.core._python import p_object
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.graph.dynamic_trace import DynamicTrace
from cython.cimports.rushlight.graph.module_replay import (
    ModuleLook,
    Segment,
    SegmentReplay,
    names_met,
    segment_of,
)
from cython.cimports.rushlight.graph.tape import Tape
from cython.cimports.rushlight.nn.modules._calling import set_follower

from rushlight._inductor import config
from rushlight.core import logs, naming
from rushlight.graph import size_tracing
from rushlight.graph.dynamic_trace import MISSED, place_of_draws
from rushlight.graph.guards import CodeProfiler, Names, Unproven
from rushlight.graph.module_replay import Looking, is_immutable
from rushlight.graph.plain_code import PlainCode
from rushlight.graph.size_tracing import Recording, agrees
from rushlight.random.generator import default_generator

_TRIES = cython.declare(cython.int, 8)  # to trace a module's calls
_LIVE = cython.declare(cython.Py_ssize_t, 8)  # traces of one module with like arguments
_RECORDINGS = cython.declare(cython.Py_ssize_t, 4)
_MISSES = cython.declare(
    cython.int, 4
)  # calls of a trace that Python had to make after all
_ENTRIES = cython.declare(cython.Py_ssize_t, 1024)
_OPEN = cython.declare(cython.int, 10)  # any integer, for `module_replay`


class OpenLooking(Looking):
    """What there is to look at for a call whose arguments may have other sizes."""

    exact = None  # how many tensors are the module's

    def tensor(self, t):
        """The number of a tensor."""
        number = super().tensor(t)
        if self.exact is not None and number >= self.exact:
            self.known[number].is_open = True
        return number

    def argument(self, item):
        """What an argument is."""
        if type(item) is int:
            return _OPEN, None
        if type(item) is tuple and not is_immutable(item):
            return 7, [self.argument(one) for one in item]
        if type(item) is list and any([type(one) is int for one in item]):
            raise Unproven("a list of integers")
        return self.one(item)


@cython.cfunc
def kind_of(item: object) -> object:
    """What is alike of arguments that differ by sizes."""
    t: Tensor
    if isinstance(item, Tensor):
        t = item
        return t.dtype_, t.ndim_
    if type(item) is int:
        return int
    if type(item) is tuple or type(item) is list:
        return type(item), *[kind_of(one) for one in item]
    if is_immutable(item):
        return item
    return type(item)


def thread_now():
    """What operators run under, and how many nodes were made."""
    st: cython.pointer(ThreadState) = state()
    included = st.included & ~cython.cast("unsigned long long", RECORDING)
    switches = st.grad_mode, st.inference_mode, st.anomaly, st.hooks_enabled
    return (
        included,
        st.excluded,
        switches,
        st.forward_ad,
        st.factory_device,
        st.sequence,
    )


@cython.final
@cython.cclass
class DynamicReplay:
    """What is known of the calls of a module with arguments that differ by sizes."""

    def __init__(self, module):
        self.module = ref(module)
        self.live, self.recordings, self.pending = [], [], None

    def tells_nothing(self, case, traced):
        """Whether a call has the sizes of those that it would be compared with."""
        pending = self.pending  # another thread may confirm it meanwhile
        if pending is not None:
            return pending[1].recording.case == case
        return traced and all([one.case == case for one in self.recordings])

    def refuse(self, module, why):
        """No more calls of a module are recorded."""
        self.tries = _TRIES
        self.pending = None
        name = type(module).__name__
        logs.recompiles.say(f"{name}: Python runs at each other size: {why}", line=True)

    def confirm(self, module):
        """Has a trace serve, if it gives what other calls were seen to do."""
        pending = self.pending
        if pending is None:
            return
        shown = False
        traced = pending[1].recording
        for plain in self.recordings:
            if plain.case == traced.case:
                continue
            answer = agrees(traced, plain)
            if answer is False:
                self.refuse(
                    module, "what it does hangs on sizes in a way that is not seen"
                )
                return
            shown = shown or answer
        if shown and self.pending is pending:
            self.live.insert(0, pending)
            self.pending, self.tries = None, 0


@cython.final
@cython.cclass
class OpenReplay(SegmentReplay):
    """Takes calls of modules: by a segment, at another size by an dynamic trace, or by Python."""

    @cython.cfunc
    def other_size(self, tape: Tape, module: object, args: tuple) -> object:
        entry: DynamicReplay
        guarded: Segment
        operator_trace: DynamicTrace
        found = cython.declare(p_object[256])
        owner = tape.owner
        st: cython.pointer(ThreadState) = state()
        if not owner.lets_sizes_wait():
            return module.forward(*args)
        try:
            key = (
                id(module),
                tape.default,
                tape.chosen,
                st.grad_mode,
                st.inference_mode,
                kind_of(args),
            )
            entry = owner.operator_traces.get(key)
        except TypeError:  # an argument without a hash
            return module.forward(*args)
        if entry is None or entry.module() is not module:
            result = module.forward(*args)
            if tape.off and len(owner.operator_traces) < _ENTRIES:  # its size waits
                owner.operator_traces[key] = DynamicReplay(module)
            return result
        for one in entry.live:
            guarded, operator_trace = one
            if guarded.holds(module, args, found):
                misses = operator_trace.misses
                result = operator_trace.run(found, len(guarded.known), args)
                if result is not MISSED:
                    return result
                if operator_trace.misses > _MISSES:
                    entry.live.remove(one)
                if operator_trace.misses > misses:
                    return module.forward(*args)
        if entry.tries < _TRIES and len(entry.live) < _LIVE and config.replay_modules:
            return trace_call(entry, tape, module, args)
        return module.forward(*args)


@cython.cfunc
def trace_call(entry: DynamicReplay, tape: Tape, module: object, args: tuple) -> object:
    """Calls a module, and records it if its sizes tell something new."""
    case = sizes_in(args, [])
    traced: cython.bint = entry.pending is None and len(entry.recordings) > 0
    if entry.tells_nothing(case, traced):
        return module.forward(*args)
    looking = OpenLooking()
    try:
        if "forward" in vars(module):
            raise Unproven("a method of its own")
        look: ModuleLook = looking.module(module)
        looking.exact = len(looking.tensors)
        arguments: list = [looking.argument(one) for one in args]
        check_tensors(looking.tensors)
        if traced:
            check_methods(looking.types)
    except Unproven as why:
        entry.refuse(module, why)
        return module.forward(*args)
    profile = CodeProfiler()
    now = thread_now, place_of_draws
    recording = Recording(looking.tensors, looking.exact, traced, profile, *now)
    recording.case = case
    entry.tries += 1
    result = recorded(tape, module, args, recording, profile)
    try:
        if recording.refusal or profile.strange:
            raise Unproven(recording.refusal or profile.strange)
        for code, home in list(profile.codes.items()):
            if home is vars(size_tracing):
                del profile.codes[code]
        names = names_met(profile, looking)
        guarded: Segment = segment_of(
            tape, module, looking, look, arguments, names, result, args
        )
    except Unproven as why:
        entry.refuse(module, why)
        return result
    guarded.excluded, guarded.inference = state().excluded, state().inference_mode
    guarded.calls = []
    if traced:
        entry.pending = guarded, DynamicTrace(recording)
    else:
        entry.recordings = [*entry.recordings, recording][-_RECORDINGS:]
    entry.confirm(module)
    return result


@cython.cfunc
def recorded(
    tape: Tape, module: object, args: tuple, recording: object, profile: object
) -> object:
    """Calls a module while it is recorded; once more without where that is in its way."""
    before = default_generator.state_bytes()
    tape.witnessed = True
    inputs = [recording.argument(one, (at,)) for at, one in enumerate(args)]
    try:
        sys.setprofile(profile)
        try:
            with recording:
                result = module.forward(*inputs)
        finally:
            sys.setprofile(None)
            tape.witnessed = False
    except Exception as fault:
        recording.refuse(f"{type(fault).__name__}: {fault}")
        recording.finish(None)
        if recording.writes or not recording.traced:
            raise
    else:
        return recording.finish(result)
    default_generator.set_state_bytes(before)
    return module.forward(*args)


def sizes_in(item, found):
    """The sizes of tensors in a nest, and the integers there."""
    if isinstance(item, Tensor):
        found.append(tuple(item.shape))
    elif type(item) is int:
        found.append(item)
    elif isinstance(item, (tuple, list)):
        for one in item:
            sizes_in(one, found)
    return found


def check_tensors(tensors):
    """Refuses tensors whose memory is not the host's.

    Raises:
        Unproven: there is such a one.
    """
    t: Tensor
    for t in tensors:
        if not t.storage.device.on_host:
            raise Unproven("another device")


def check_methods(kinds):
    """Refuses classes of users' where some method that may be called is not plain.

    While sizes are traced nothing may keep them.

    Args:
        kinds: the classes of modules.

    Raises:
        Unproven: there is such a one.
    """
    plain = PlainCode(Names(()), is_immutable)
    methods = {
        name: item
        for kind in kinds
        for base in kind.__mro__
        if not naming.is_own(base.__module__)
        for name, item in vars(base).items()
        if isinstance(item, FunctionType)
    }
    known: cython.Py_ssize_t = -1
    while known < len(plain.codes):
        known = len(plain.codes)
        for name, item in methods.items():
            if name == "forward" or name in plain.attributes:
                plain.function(item)


set_follower(OpenReplay())
