"""What each thread has switched on: gradient recording, inference, dispatch keys."""

import contextlib
import copy
import operator
import threading

import cython
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.rushlight.core._python import Py_FatalError
from cython.cimports.rushlight.core.keys import (
    KEY_BATCHED,
    KEY_FORWARD_AD,
    KEY_LISTENING,
    KEY_PLANNING,
    RECORDING,
)
from cython.cimports.rushlight.core.posix import (
    pthread_atfork,
    pthread_getspecific,
    pthread_key_create,
    pthread_key_t,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_t,
    pthread_mutex_unlock,
    pthread_setspecific,
)

# A thread's switches, in the ring of all threads' ones. The switches come first: a pointer
# to the entry is one to them.
_Entry = cython.struct(switches=ThreadState, before=cython.p_void, after=cython.p_void)

_ring = cython.declare(_Entry)
_ring.before = _ring.after = cython.cast(cython.p_void, cython.address(_ring))
_everywhere = cython.declare(uint64_t, 0)  # keys that new threads begin with
# Threads end without the GIL, and leave the ring when they do.
_ring_lock = cython.declare(pthread_mutex_t)
if pthread_mutex_init(cython.address(_ring_lock), cython.NULL) != 0:
    raise ImportError("rushlight: no lock for the threads' states")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _join(before: cython.p_void, after: cython.p_void) -> cython.void:
    cython.cast(cython.pointer(_Entry), before).after = after
    cython.cast(cython.pointer(_Entry), after).before = before


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _leave(state: cython.p_void) -> cython.void:
    """Frees the state of a thread that ends."""
    entry: cython.pointer(_Entry) = cython.cast(cython.pointer(_Entry), state)
    pthread_mutex_lock(cython.address(_ring_lock))
    _join(entry.before, entry.after)
    pthread_mutex_unlock(cython.address(_ring_lock))
    free(entry)


# A POSIX key, not PyThread_tss: its destructor frees the struct when a thread ends.
slot = cython.declare(pthread_key_t)
if pthread_key_create(cython.address(slot), _leave) != 0:
    raise ImportError("rushlight: no thread-specific storage key is left")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _lock_ring() -> cython.void:
    pthread_mutex_lock(cython.address(_ring_lock))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unlock_ring() -> cython.void:
    pthread_mutex_unlock(cython.address(_ring_lock))


# A process must not be copied while a thread that the copy lacks holds the lock.
if pthread_atfork(_lock_ring, _unlock_ring, _unlock_ring) != 0:
    raise ImportError("rushlight: no memory for what is done at a fork")


@cython.cfunc
@cython.exceptval(check=False)
def state() -> cython.pointer(ThreadState):
    """The calling thread's switches, made on its first question."""
    found: cython.pointer(ThreadState) = cython.cast(
        cython.pointer(ThreadState), pthread_getspecific(slot)
    )
    return found if found != cython.NULL else make_state()


@cython.cfunc
@cython.exceptval(check=False)
def make_state() -> cython.pointer(ThreadState):
    entry: cython.pointer(_Entry) = cython.cast(
        cython.pointer(_Entry), calloc(1, cython.sizeof(_Entry))
    )
    if entry == cython.NULL or pthread_setspecific(slot, entry) != 0:
        free(entry)
        Py_FatalError("rushlight: no memory for the thread's state")
    made: cython.pointer(ThreadState) = cython.address(entry.switches)
    made.grad_mode = made.anomaly_check_nan = True
    made.included = _everywhere
    _lock_ring()
    _join(_ring.before, entry)
    _join(entry, cython.address(_ring))
    _unlock_ring()
    return made


def set_everywhere(bits: uint64_t, mode: cython.bint) -> None:
    """Adds dispatch keys to the calls of all threads, later ones too, or takes them away.

    Args:
        bits: the keys.
        mode: whether they are added.
    """
    global _everywhere
    entry: cython.pointer(_Entry) = cython.address(_ring)
    _everywhere = _everywhere | bits if mode else _everywhere & ~bits
    _lock_ring()
    while entry.after != cython.cast(cython.p_void, cython.address(_ring)):
        entry = cython.cast(cython.pointer(_Entry), entry.after)
        if mode:
            entry.switches.included |= bits
        else:
            entry.switches.included &= ~bits
    _unlock_ring()


def is_grad_enabled() -> bool:
    """Whether operators record what ``backward`` needs, in this thread."""
    return state().grad_mode


def is_recording() -> bool:
    """Whether calls may be differentiated: here, or by a transformation around them."""
    st: cython.pointer(ThreadState) = state()
    return st.grad_mode or (st.included >> KEY_BATCHED) & 1


def is_following() -> bool:
    """Whether this thread's operators wait to be a program: inside of `compile`."""
    return (state().included & RECORDING) != 0


def is_transforming() -> bool:
    """Whether a transformation of functions sees this thread's calls."""
    return (state().included >> KEY_BATCHED) & 1


def sees_tangents() -> bool:
    """Whether this thread's calls look for tangents: in a `dual_level`."""
    return ((state().included >> KEY_FORWARD_AD) & 1) != 0


def set_grad_enabled(mode: cython.bint) -> bool:
    """Switches recording on or off in this thread; returns what it was."""
    previous: cython.bint = state().grad_mode
    state().grad_mode = mode
    return previous


def is_inference_mode_enabled() -> bool:
    """Whether new tensors in this thread are inference tensors."""
    return state().inference_mode


def set_inference_mode(mode: cython.bint) -> bool:
    """Switches inference mode in this thread; returns what it was."""
    previous: cython.bint = state().inference_mode
    state().inference_mode = mode
    return previous


def is_anomaly_enabled() -> bool:
    """Whether nodes keep the stack of their forward call, in this thread."""
    return state().anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether ``backward`` looks for NaN after each node, in this thread."""
    return state().anomaly_check_nan


def set_anomaly(mode: cython.bint, check_nan: cython.bint = True) -> tuple:
    """Switches anomaly detection; returns the earlier ``(mode, check_nan)``."""
    previous = (state().anomaly != 0, state().anomaly_check_nan != 0)
    state().anomaly = mode
    state().anomaly_check_nan = check_nan
    return previous


def set_hooks_enabled(mode: cython.bint) -> bool:
    """Says whether saved-tensor hooks are on the stack; returns what it was."""
    previous: cython.bint = state().hooks_enabled
    state().hooks_enabled = mode
    return previous


def included_keys() -> int:
    """Bits of the dispatch keys added to every call of this thread."""
    return state().included


def excluded_keys() -> int:
    """Bits of the dispatch keys skipped by every call of this thread."""
    return state().excluded


def set_keys(include: uint64_t, exclude: uint64_t) -> tuple:
    """Replaces both key sets of this thread; returns the earlier pair."""
    previous = (state().included, state().excluded)
    state().included = include
    state().excluded = exclude
    return previous


def exclude_keys(bits: uint64_t, replace: cython.bint = False) -> int:
    """Makes this thread's calls skip more dispatch keys; returns the earlier ones."""
    previous: uint64_t = state().excluded
    state().excluded = bits if replace else previous | bits
    return previous


def include_keys(bits: uint64_t, replace: cython.bint = False) -> int:
    """Adds dispatch keys to the calls of this thread; returns the earlier ones."""
    previous: uint64_t = state().included
    state().included = bits if replace else previous | bits
    return previous


class _Modes(threading.local):
    """The function modes of each thread; the last runs first."""

    def __init__(self):
        self.stack = []
        self.silenced = 0


_MODES = cython.declare(object, _Modes())


def push_mode(mode):
    """Makes a function mode the first to see this thread's calls."""
    _MODES.stack.append(mode)
    state().modes = len(_MODES.stack)


def pop_mode():
    """Takes the innermost function mode off this thread's stack."""
    mode = _MODES.stack.pop()
    state().modes = len(_MODES.stack)
    return mode


def silence_overrides(level: cython.int) -> int:
    """Has this thread's calls pass by types (1), or types and modes (2); 0 ends it.

    Returns what it was.
    """
    before = _MODES.silenced
    _MODES.silenced = level
    return before


def set_recording_and_silence(mode: cython.bint, level: cython.int):
    """Switches gradients, and says who intercepts this thread's calls, in one."""
    state().grad_mode = mode
    _MODES.silenced = level


def silenced_overrides() -> int:
    """What ``silence_overrides`` was told last in this thread."""
    return _MODES.silenced


def function_modes():
    """This thread's active function modes; the last runs first."""
    return tuple(_MODES.stack)


# A thread with one of these keys wants to know when an element is read: while a plan is
# written (`dispatch.trace`), and while operators wait (`graph.capture`).
_READ = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_PLANNING)
    | (cython.cast(uint64_t, 1) << KEY_LISTENING)
    | cython.cast(uint64_t, RECORDING),
)
_READERS = cython.declare(list, [])
_LAUNCHERS = cython.declare(list, [])


def on_reading(function):
    """Calls a function whenever a thread with such a key reads an element.

    It is given the tensor of one element that is read, or None.
    """
    _READERS.append(function)


@cython.cfunc
@cython.exceptval(-1, check=False)
def notify_readers() -> cython.int:
    """Tells those who asked, where the thread has the key."""
    if state().included & _READ:
        for function in _READERS:
            function(None)
    return 0


def on_launching(function):
    """Calls a function before a kernel runs that is passed addresses, where operators wait.

    No element comes to Python by that: only memory has to be there.
    """
    _LAUNCHERS.append(function)


@cython.cfunc
@cython.exceptval(-1, check=False)
def notify_launchers() -> cython.int:
    """Tells those who asked that a kernel is about to run."""
    for function in _LAUNCHERS:
        function()
    return 0


def notify_read(t):
    """Tells those who asked, where the thread has the key, which one element is read."""
    if state().included & _READ:
        for function in _READERS:
            function(t)


_MAKERS = cython.declare(list, [])


def on_making(function):
    """Calls a function with each fresh tensor of a thread with the key `Planning`."""
    _MAKERS.append(function)


_FILLERS = cython.declare(list, [])


def on_filling(function):
    """Calls a function with each tensor that such a thread fills with Python's numbers."""
    _FILLERS.append(function)


def notify_fill(t):
    """Tells those who asked, where the thread has the key."""
    if state().included & _READ:
        for function in _FILLERS:
            function(t)


def notify_allocation(t):
    """Tells those who asked of a fresh tensor."""
    for function in _MAKERS:
        function(t)


# -- blocks ----------------------------------------------------------------------------
# Ctrl-C raises between any two instructions of Python, those of `__enter__` and `__exit__`
# too; compiled code runs to its end. What blocks change is therefore put back from here.


class Scope:
    """A block that puts a thread's state back, whatever interrupts it on its way.

    Subclasses have three methods. ``_save`` reads the state and changes nothing;
    ``_change`` is the rest of ``__enter__``; ``_restore`` has to stand being run again
    after an exception in its midst, and after a ``_change`` that did not end.
    """

    __slots__ = ()

    def __enter__(self):
        self._save()
        try:
            return self._change()
        except BaseException:
            self._restore()
            raise

    def __exit__(self, kind, error, trace):
        try:
            self._restore()
        except BaseException:
            self._restore()
            raise


class AttributeScope(Scope, contextlib.ContextDecorator):
    """A block in which an object has other attributes; one of a thread's own, in it alone.

    Args:
        owner: the object.
        changes: its attributes in the block, by name; ``a.b`` is one of its ``a``.
    """

    def __init__(self, owner, **changes):
        self.owner, self.changes = owner, changes

    def _recreate_cm(self):  # a function that it decorates may call itself
        return copy.copy(self)

    def _save(self):
        self.earlier = []
        for path in self.changes:
            section, _, name = path.rpartition(".")
            place = operator.attrgetter(section)(self.owner) if section else self.owner
            self.earlier.append((place, name, getattr(place, name, None)))

    def _change(self):
        for (place, name, _), value in zip(self.earlier, self.changes.values()):
            setattr(place, name, value)

    def _restore(self):
        for change in self.earlier:
            setattr(*change)


class GradModeScope:
    """A block in which gradients are recorded, or are not; ``mode`` says which."""

    __slots__ = ("earlier",)

    def __enter__(self):
        mode: cython.bint = self.mode
        self.earlier = set_grad_enabled(mode)

    def __exit__(self, kind, error, trace):
        set_grad_enabled(self.earlier)


class InferenceModeScope:
    """A block in inference mode, or outside of it; ``mode`` says which."""

    __slots__ = ("earlier",)

    def __enter__(self):
        mode: cython.bint = self.mode
        self.earlier = (set_grad_enabled(not mode), set_inference_mode(mode))

    def __exit__(self, kind, error, trace):
        recording, inference = self.earlier
        set_grad_enabled(recording)
        set_inference_mode(inference)


class OverridesScope:
    """A block that no type intercepts (1), nor mode (2), or all may again (0)."""

    __slots__ = ("before", "level")

    def __init__(self, level):
        self.level = level

    def __enter__(self):
        self.before = silence_overrides(self.level)
        return self.before

    def __exit__(self, kind, error, trace):
        silence_overrides(self.before)


class KeysScope:
    """A block whose calls carry the keys ``include``, and pass by those of ``exclude``."""

    __slots__ = ("before", "exclude", "include")

    def __init__(self, include, exclude):
        self.include, self.exclude = include, exclude
        self.before = []

    def __enter__(self):
        include: uint64_t = self.include
        exclude: uint64_t = self.exclude
        st: cython.pointer(ThreadState) = state()
        self.before.append((st.included, st.excluded))
        st.included |= include
        st.excluded |= exclude
        return self

    def __exit__(self, *raised):
        included, excluded = self.before.pop()
        set_keys(included, excluded)
