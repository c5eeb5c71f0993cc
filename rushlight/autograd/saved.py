"""Tensors kept for backward: version checks, pack hooks, and who changed what."""

from __future__ import annotations

import os
import sys
import threading
import weakref

import cython
from cython.cimports.libc.stdint import uint32_t, uint64_t, uintptr_t
from cython.cimports.rushlight.core.keys import BELOW_AUTOGRAD, KEY_DECOMPOSE
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor, same_window

from rushlight.autograd import errors
from rushlight.core import naming

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_KEPT_LINES = 256
_lines: dict = {}  # storage address -> (version, code, instruction) of its last write


class _Stack(threading.local):
    """The saved-tensor hooks switched on in this thread, innermost last."""

    def __init__(self):
        self.pairs = []
        self.refusal = None  # message of disable_saved_tensors_hooks


stack = _Stack()


class SavedHooksScope:
    """A block whose nodes keep what the hooks of ``pair`` give, in this thread."""

    def __enter__(self):
        if stack.refusal is not None:
            raise RuntimeError(stack.refusal)
        stack.pairs.append(self.pair)
        state().hooks_enabled = True

    def __exit__(self, *raised):
        stack.pairs.pop()
        state().hooks_enabled = len(stack.pairs) != 0


def current_hooks():
    """The innermost ``(pack, unpack)`` pair, or None."""
    return stack.pairs[len(stack.pairs) - 1] if stack.pairs else None


def call_pack_hook(pack_hook, tensor):
    """What the hook keeps in place of ``tensor``, which it must not change."""
    given: Tensor = tensor
    current: cython.pointer(ThreadState) = state()
    version = given.version()
    recording: cython.bint = current.grad_mode
    hooked: cython.bint = current.hooks_enabled
    current.grad_mode = False
    current.hooks_enabled = False
    try:
        kept = pack_hook(tensor)
    finally:
        current.grad_mode = recording
        current.hooks_enabled = hooked
    if given.version() != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors "
            "provided as input to pack hook cannot be modified by in-place operations "
            "as this can lead to unexpected side-effects. Please open an issue if you "
            "need to perform in-place operations on the input to a pack hook."
        )
    return kept


def call_unpack_hook(unpack_hook, kept):
    """The tensor that the hook makes of what was kept."""
    tensor = unpack_hook(kept)
    if not isinstance(tensor, Tensor):
        kind = type(tensor)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise TypeError(
            "Output of saved tensor unpack_hook expected to be a Tensor but got result "
            f"of type {module}{kind.__qualname__}"
        )
    return tensor


def note_line(address: int, version: int):
    """Remember which line outside Rushlight has just written to a storage."""
    frame = sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    _lines.pop(address, None)
    if len(_lines) >= _KEPT_LINES:
        del _lines[next(iter(_lines))]
    _lines[address] = (version, frame.f_code, frame.f_lasti)


def describe_modified(
    dtype, sizes, maker, number, version, expected, owner, address
) -> str:
    """The version error: which tensor, who made it, who needs it, who changed it."""
    origin = ""
    if maker is not None:
        origin = f", which is output {number} of {errors.operator_of(maker)},"
    text = (
        "one of the variables needed for gradient computation has been modified by an "
        f"inplace operation: [{naming.package}.{type_name(dtype)} {list(sizes)}]"
        f"{origin} is at version {version}; expected version {expected} instead.\n"
        f"  needed by: {owner.name()}\n"
    )
    where = modified_at(address)
    if where:
        return text + (
            f"  {where}\n"
            "Write the result to a new tensor there, or clone the tensor before the "
            "change."
        )
    return text + (
        "Hint: enable anomaly detection to find the operation that failed to compute "
        "its gradient, with rushlight.autograd.set_detect_anomaly(True, "
        "check_nan=False)."
    )


def modified_at(address: int) -> str:
    """Where a storage was last written: ``modified at file:line in function``."""
    found = _lines.get(address)
    if found is None:
        return ""
    import linecache  # much to import, for an error's text

    version, code, instruction = found
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    text = linecache.getline(code.co_filename, line).strip()
    return (
        f"modified to version {version} at {code.co_filename}:{line} in "
        f"{code.co_name}: "
        f"{text}"
    ).rstrip(": ")


def type_name(dtype) -> str:
    """PyTorch's name of a tensor type.

    >>> type_name("rushlight.float32")
    'FloatTensor'
    """
    names = {
        "float32": "Float",
        "float64": "Double",
        "float16": "Half",
        "bfloat16": "BFloat16",
        "complex64": "ComplexFloat",
        "complex128": "ComplexDouble",
        "int64": "Long",
        "int32": "Int",
        "int16": "Short",
        "int8": "Char",
        "uint8": "Byte",
        "bool": "Bool",
    }
    plain = str(dtype).rpartition(".")[2]
    return names.get(plain, plain) + "Tensor"


# --- the saved tensor -----------------------------------------------------------------

# How many live saved tensors hash to each bucket: tells in one load whether anybody
# cares that a storage was written. A bucket is shared: a hit may be another's.
MIX = cython.declare(uint64_t, 0x9E3779B97F4A7C15)
watched = cython.declare(uint32_t[4096])


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def address_of(tensor: Tensor) -> uint64_t:
    """What tells the tensor's storage from all others that live."""
    return cython.cast(uintptr_t, cython.cast(cython.p_void, tensor.storage))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def bucket_of(tensor: Tensor) -> cython.int:
    mixed: uint64_t = (address_of(tensor) >> 4) * MIX
    return cython.cast(cython.int, mixed >> 52)


@cython.final
@cython.freelist(256)
@cython.cclass
class SavedTensor:
    """A tensor kept for backward, with the version it had when it was saved."""

    def __cinit__(self):
        self.watch = -1

    def __dealloc__(self):
        if self.watch >= 0:
            watched[self.watch] -= 1

    @cython.cfunc
    def unpack(self, owner: object) -> Tensor:
        if self.packed:
            return self.unpack_payload(owner)
        tensor: Tensor = self.tensor
        if tensor is None:
            raise RuntimeError(errors.SECOND_BACKWARD)
        if tensor.version() != self.version:
            raise_modified(self, owner)
        if self.inner and tensor.grad_fn_ is None:
            raise RuntimeError(errors.DETACHED_IN_PLACE)
        if self.is_output:
            if listened_to(tensor):
                tensor = detached(tensor)
            if state().grad_mode:
                return self.attached(tensor, owner)
        return tensor

    @cython.cfunc
    def attached(self, tensor: Tensor, owner: object) -> Tensor:
        """An output at its place in the graph.

        What was written to through a view is a view of the base after that write.
        """
        around: object = None if self.source is None else self.source()
        if around is None:
            return attach(tensor, owner, self.output_number)
        view: Tensor = around.written_view()
        return attach(tensor, view.grad_fn_, view.output_number)

    def unpack_in_graph(self, owner):
        """The tensor as programs see it: an output belongs to the graph, always."""
        tensor: Tensor = self.unpack(owner)
        if self.is_output and not self.packed and tensor.grad_fn_ is None:
            return self.attached(tensor, owner)
        return tensor

    def unpack_payload(self, owner):
        """The unpack hook's tensor, put back at its place in the graph."""
        tensor: Tensor = call_unpack_hook(self.unpack_hook, self.payload)
        if not self.requires_grad:
            return tensor
        if self.is_output:
            return self.attached(tensor, owner)
        if tensor.grad_fn_ is self.source or tensor is self.source:
            return tensor
        return attach(tensor, self.source, self.output_number)

    @property
    def data(self):
        return self.payload if self.packed else self.tensor

    def register_hooks(self, pack_hook, unpack_hook):
        """Let ``pack_hook`` say what is kept, and ``unpack_hook`` bring it back."""
        if self.packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already "
                "been set. Hint: only one pair of hooks is allowed at a time."
            )
        if self.tensor is None:
            raise RuntimeError(errors.SECOND_BACKWARD)
        pack(self, self.tensor, pack_hook, unpack_hook)


@cython.cfunc
def attach(tensor: Tensor, node: object, number: cython.int) -> Tensor:
    """An alias of a detached tensor that belongs to the graph again."""
    shown: Tensor = same_window(tensor)
    tangent = tensor._tangent
    if tangent is not None:
        shown._tangent = tangent
    shown.grad_fn_ = node
    shown.output_number = number
    shown.wants_grad = True
    return shown


@cython.cfunc
@cython.exceptval(-1, check=False)
def pack(saved: SavedTensor, tensor: Tensor, pack_hook, unpack_hook) -> cython.int:
    if not saved.is_output:
        from rushlight.autograd.methods import find_gradient_edge

        saved.source, saved.output_number = find_gradient_edge(tensor)
    saved.payload = call_pack_hook(pack_hook, tensor)
    saved.unpack_hook = unpack_hook
    saved.packed = True
    saved.tensor = None
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def listened_to(tensor: Tensor) -> cython.bint:
    """Whether ``__torch_dispatch__`` of a type or a mode sees what becomes of a tensor."""
    st: cython.pointer(ThreadState) = state()
    return (((tensor.keys | st.included) & ~st.excluded) >> KEY_DECOMPOSE) & 1


@cython.cfunc
def detached(tensor: Tensor) -> Tensor:
    """A tensor without history, by the operator, which listeners see.

    It counts versions with the tensor, whatever a type's handler has made of it.
    """
    from rushlight.operators import call

    st: cython.pointer(ThreadState) = state()
    before: uint64_t = st.excluded
    st.excluded = before | BELOW_AUTOGRAD
    try:
        found = call.detach(tensor)
    finally:
        st.excluded = before
    if found is None:
        raise RuntimeError("detach returned invalid type NoneType, expected Tensor")
    made: Tensor = found
    if made is tensor:
        return same_window(tensor)
    if made.storage is not tensor.storage:
        made.own_extra().counter = tensor.own_counter()
    return made


@cython.cfunc
def save_tensor(tensor: Tensor, owner: object, is_output: cython.bint) -> SavedTensor:
    saved: SavedTensor = SavedTensor.__new__(SavedTensor)
    if tensor.inference:
        raise RuntimeError(errors.INFERENCE_SAVED)
    saved.version = tensor.version()
    saved.requires_grad = is_output or tensor.wants_grad
    if is_output:
        saved.is_output = True
        saved.output_number = tensor.output_number
        saved.tensor = detached(tensor) if listened_to(tensor) else same_window(tensor)
    else:
        saved.tensor = tensor
        saved.inner = tensor.grad_fn_ is not None
    if state().hooks_enabled:
        hooks = current_hooks()
        if hooks is not None:
            given = attach(tensor, owner, saved.output_number) if is_output else tensor
            pack(saved, given, hooks[0], hooks[1])
            return saved
    saved.watch = bucket_of(tensor)
    watched[saved.watch] += 1
    return saved


@cython.cfunc
def save_written_view(tensor: Tensor, owner: object) -> SavedTensor:
    saved: SavedTensor = save_tensor(tensor, owner, True)
    # the view's history leads to the base's and so back to the owner: no strong reference
    saved.source = weakref.ref(tensor.base.grad_fn_)
    return saved


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_modification(tensor: Tensor) -> cython.int:
    if watched[bucket_of(tensor)]:
        note_line(address_of(tensor), tensor.version())
    return 0


@cython.cfunc
def raise_modified(saved: SavedTensor, owner: object) -> object:
    tensor: Tensor = saved.tensor
    maker: object = owner if saved.is_output else tensor.grad_fn  # which may refuse
    raise RuntimeError(
        describe_modified(
            tensor.dtype_,
            tuple(tensor.shape),
            maker,
            saved.output_number if saved.is_output else tensor.output_number,
            tensor.version(),
            saved.version,
            owner,
            address_of(tensor),
        )
    )
