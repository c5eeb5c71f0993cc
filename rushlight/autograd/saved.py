"""Saved tensors seen from Python: pack hooks, and who changed what was needed."""

from __future__ import annotations

import linecache
import os
import sys
import threading

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_KEPT_LINES = 256
_lines: dict = {}  # storage address -> (version, code, instruction) of its last write


class _Stack(threading.local):
    """The saved-tensor hooks switched on in this thread, innermost last."""

    def __init__(self):
        self.pairs = []
        self.refusal = None  # message of disable_saved_tensors_hooks


stack = _Stack()


def current_hooks():
    """The innermost ``(pack, unpack)`` pair, or None."""
    return stack.pairs[-1] if stack.pairs else None


def call_pack_hook(pack_hook, tensor):
    """What the hook keeps in place of ``tensor``, which it must not change."""
    from rushlight.core import state

    version = tensor._version
    recording = state.set_grad_enabled(False)
    hooked = state.set_hooks_enabled(False)
    try:
        kept = pack_hook(tensor)
    finally:
        state.set_grad_enabled(recording)
        state.set_hooks_enabled(hooked)
    if tensor._version != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided "
            "as input to pack hook cannot be modified by in-place operations as this can "
            "lead to unexpected side-effects. Please open an issue if you need to perform "
            "in-place operations on the input to a pack hook.")
    return kept


def call_unpack_hook(unpack_hook, kept, tensor_type):
    """The tensor that the hook makes of what was kept."""
    tensor = unpack_hook(kept)
    if not isinstance(tensor, tensor_type):
        kind = type(tensor)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise TypeError(
            "Output of saved tensor unpack_hook expected to be a Tensor but got result "
            f"of type {module}{kind.__qualname__}")
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
    dtype, sizes, device, maker, number, version, expected, owner, address
) -> str:
    """The version error: which tensor, who made it, who needs it, who changed it."""
    origin = ""
    if maker is not None:
        name = maker.name().rsplit("Backward", 1)[0]
        origin = f", which is output {number} of {name},"
    text = (
        "one of the variables needed for gradient computation has been modified by an "
        f"inplace operation: [rushlight.{type_name(dtype)} {list(sizes)}]{origin} is at "
        f"version {version}; expected version {expected} instead.\n"
        f"  needed by: {owner.name()}\n")
    where = modified_at(address)
    if where:
        return text + (
            f"  {where}\n"
            "Write the result to a new tensor there, or clone the tensor before the "
            "change.")
    return text + (
        "Hint: enable anomaly detection to find the operation that failed to compute "
        "its gradient, with rushlight.autograd.set_detect_anomaly(True, "
        "check_nan=False).")


def modified_at(address: int) -> str:
    """The line that last wrote to a storage, as ``modified at file:line in function``."""
    found = _lines.get(address)
    if found is None:
        return ""
    version, code, instruction = found
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    text = linecache.getline(code.co_filename, line).strip()
    return (
        f"modified to version {version} at {code.co_filename}:{line} in {code.co_name}: "
        f"{text}").rstrip(": ")


def type_name(dtype) -> str:
    """PyTorch's name of a tensor type.

    >>> type_name("rushlight.float32")
    'FloatTensor'
    """
    names = {
        "float32": "Float", "float64": "Double", "float16": "Half",
        "bfloat16": "BFloat16", "complex64": "ComplexFloat",
        "complex128": "ComplexDouble", "int64": "Long", "int32": "Int",
        "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
    }
    plain = str(dtype).rsplit(".", 1)[-1]
    return names.get(plain, plain) + "Tensor"
