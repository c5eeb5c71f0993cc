"""Records the operators of a run: of Rushlight's, and of any library with its interface.

The file imports neither: what it needs of a library it takes from the module that it is
given, so that the same recorder runs in a process that has another one. Started as a
program, ``python _recording.py LIBRARY RECORD script.py ...``, it runs a script and writes
what it recorded to a file, for `rushlight.inspection.compare`.
"""

import base64
import hashlib
import importlib
import json
import math
import os
import struct
import sys

# Values kept of each result: all of a small tensor, evenly spaced ones of a large one.
KEPT = 256


class TensorRecord:
    """What is kept of a tensor: its form, a summary of its elements, some of them.

    Attributes:
        shape: sizes.
        dtype: the type's name, such as ``float32``.
        values: up to `KEPT` elements as Python floats, evenly spaced.
        nan: how many elements are no numbers.
        inf: how many are infinite.
        minimum: the least finite element, or None.
        maximum: the largest finite element, or None.
        mean: the mean of the finite elements, or None.
        digest: of all elements' bits, where it was asked for, else None.
    """

    __slots__ = (
        *("digest", "dtype", "inf", "maximum", "mean", "minimum", "nan", "shape"),
        "values",
    )

    def __init__(
        self, shape, dtype, values, nan=0, inf=0, least=None, most=None, mean=None
    ):
        self.shape, self.dtype, self.values = tuple(shape), dtype, values
        self.nan, self.inf = nan, inf
        self.minimum, self.maximum, self.mean = least, most, mean
        self.digest = None

    @property
    def is_finite(self):
        """Whether no element is infinite or no number."""
        return not (self.nan or self.inf)

    def __repr__(self):
        text = f"{self.dtype}{list(self.shape)}"
        if self.mean is not None:
            text += f" {self.minimum:.4g} to {self.maximum:.4g}, mean {self.mean:.4g}"
        for count, what in ((self.nan, "nan"), (self.inf, "inf")):
            text += f", {count} {what}" if count else ""
        return text

    def to_json(self):
        """The record in types that JSON knows."""
        packed = struct.pack(f"<{len(self.values)}d", *self.values)
        figures = [self.nan, self.inf, self.minimum, self.maximum, self.mean]
        return [
            list(self.shape),
            self.dtype,
            base64.b64encode(packed).decode(),
            figures,
        ]

    @classmethod
    def from_json(cls, kept):
        """The record that `to_json` was taken of."""
        shape, dtype, packed, figures = kept
        data = base64.b64decode(packed)
        return cls(
            shape, dtype, list(struct.unpack(f"<{len(data) // 8}d", data)), *figures
        )


class OperatorRecord:
    """One call of an operator.

    Attributes:
        number: its place in the run, from 0.
        name: the overload, such as ``aten.mm.default``.
        module: the module that was running, by its name from the root on, or ``""``.
        source: the user's line, ``file:line: text``, or ``""``.
        backward: whether a backward pass was going on.
        inputs: a `TensorRecord` for each tensor among the arguments.
        outputs: a `TensorRecord` for each result.
    """

    __slots__ = ("backward", "inputs", "module", "name", "number", "outputs", "source")

    def __init__(self, number, name, module, source, backward, inputs, outputs):
        self.number, self.name, self.module = number, name, module
        self.source, self.backward = source, backward
        self.inputs, self.outputs = inputs, outputs

    def __repr__(self):
        where = "".join(f", {t}" for t in (self.module, self.source) if t)
        return f"#{self.number} {self.name}{where}"

    def to_json(self):
        """The record in types that JSON knows."""
        tensors = [[t.to_json() for t in each] for each in (self.inputs, self.outputs)]
        facts = [self.number, self.name, self.module, self.source, self.backward]
        return [*facts, *tensors]

    @classmethod
    def from_json(cls, kept):
        """The record that `to_json` was taken of."""
        *facts, inputs, outputs = kept
        tensors = (
            [TensorRecord.from_json(t) for t in each] for each in (inputs, outputs)
        )
        return cls(*facts, *tensors)


def tensor_record(library, tensor):
    """What is kept of a tensor; of one that holds no dense elements, its form."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    shape = [int(size) for size in tensor.shape]
    plain = tensor.detach()
    if (
        plain.layout != library.strided
        or plain.device.type == "meta"
        or plain.is_quantized
    ):
        return TensorRecord(shape, dtype, [])
    flat = plain.resolve_conj().resolve_neg()
    if flat.is_complex():
        flat = library.view_as_real(flat)
    flat = flat.to("cpu", library.float64).reshape(-1)
    if flat.numel() == 0:
        return TensorRecord(shape, dtype, [])
    nan = int(flat.isnan().sum())
    inf = int(flat.isinf().sum())
    finite = flat if not nan + inf else flat[flat.isfinite()]
    figures = [None] * 3
    if finite.numel():
        figures = [float(f) for f in (finite.min(), finite.max(), finite.mean())]
    step = max(1, math.ceil(flat.numel() / KEPT))
    return TensorRecord(shape, dtype, flat[::step].tolist(), nan, inf, *figures)


def digest_of(tensor):
    """A digest of a dense tensor's bits in their logical order; None of others."""
    plain = tensor.detach()
    if str(plain.layout).rpartition(".")[2] != "strided" or plain.device.type != "cpu":
        return None
    plain = plain.resolve_conj().resolve_neg().contiguous()
    storage = plain.untyped_storage()
    size = plain.element_size()
    begin = plain.storage_offset() * size
    elements = bytes(storage[begin : begin + plain.numel() * size])
    return hashlib.blake2b(elements, digest_size=16).digest()


def tensors_in(library, values):
    """The tensors in nested lists, tuples and dictionaries, in order."""
    found, waiting = [], [values]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, library.Tensor):
            found.append(value)
        elif isinstance(value, dict):
            waiting[:0] = value.values()
        elif isinstance(value, (list, tuple)):
            waiting[:0] = value
    return found


def users_line(folders):
    """The innermost line of Python that lies in none of the folders."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith("<") and not path.startswith("<stdin"):
            frame = frame.f_back  # generated, or the import system's
            continue
        if not path.startswith(folders):
            import linecache

            text = linecache.getline(path, frame.f_lineno).strip()
            place = f"{os.path.basename(path)}:{frame.f_lineno}"
            return f"{place}: {text}" if text else place
        frame = frame.f_back
    return ""


class ModuleNames:
    """Which module's ``forward`` is running, by the path from the outermost one."""

    def __init__(self, library):
        self._library, self._names, self._stack = library, {}, []
        self._handles = []

    @property
    def current(self):
        """The innermost running module's path, or ``""``."""
        return self._stack[-1] if self._stack else ""

    def start(self):
        """Watches every module."""
        modules = self._library.nn.modules.module
        self._handles = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
        ]

    def stop(self):
        """Watches none."""
        for handle in self._handles:
            handle.remove()

    def _enter(self, module, args):
        if id(module) not in self._names:
            root = type(module).__name__
            for name, child in module.named_modules():
                path = f"{root}.{name}" if name else root
                self._names[id(child)] = (path, child)  # kept, so that no id returns
        self._stack.append(self._names[id(module)][0])

    def _leave(self, module, args, result):
        if self._stack:
            self._stack.pop()


class Recording:
    """What `recorder_class` gives a library's mode: its class has ``library``."""

    library, folders = None, ()

    def __init__(self, limit=100_000):
        super().__init__()
        self.limit, self.left_out, self.records = limit, 0, []
        self._modules = ModuleNames(self.library)

    def __enter__(self):
        self._modules.start()
        return super().__enter__()

    def __exit__(self, *error):
        self._modules.stop()
        return super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if len(self.records) >= self.limit:
            self.left_out += 1
            return func(*args, **kwargs)
        inputs = self._kept((args, kwargs))
        results = func(*args, **kwargs)
        record = OperatorRecord(
            len(self.records),
            str(func),
            self._modules.current,
            users_line(self.folders),
            self.library._C._current_graph_task_id() != -1,
            inputs,
            self._kept(results),
        )
        self.records.append(record)
        self.recorded(record)
        return results

    def _kept(self, values):
        found = tensors_in(self.library, values)
        return [tensor_record(self.library, tensor) for tensor in found]

    def recorded(self, record):
        """Called with each record; for subclasses."""


def recorder_class(library):
    """The class whose blocks record operators of ``library``."""
    mode = importlib.import_module(f"{library.__name__}.utils._python_dispatch")
    here = os.path.abspath(__file__)

    class RunRecorder(Recording, mode.TorchDispatchMode):
        """Records every operator that runs in its block, with summaries of its tensors.

        Args:
            limit: the most operators to keep.

        Attributes:
            records: an `OperatorRecord` for each call.
            left_out: how many came after the limit.

        >>> import rushlight as rl
        >>> from rushlight.inspection import RunRecorder
        >>> with RunRecorder() as run:
        ...     y = rl.ones(2, 3).relu().sum()
        >>> [record.name for record in run.records]
        ['aten.ones.default', 'aten.relu.default', 'aten.sum.default']
        >>> run.records[-1].outputs
        [float32[] 6 to 6, mean 6]
        """

        folders = (os.path.dirname(os.path.abspath(library.__file__)) + os.sep, here)

    RunRecorder.library = library
    RunRecorder.__module__ = f"{library.__name__}.inspection"
    return RunRecorder


def main(arguments):
    """Runs a script and writes what it recorded; a failure of the script is told too."""
    import runpy
    import traceback

    name, path, script, *rest = arguments
    library = importlib.import_module(name)
    sys.argv = [script, *rest]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    failure = ""
    library.manual_seed(0)
    with recorder_class(library)() as run:
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit:
            pass
        except Exception as error:
            first = str(error).partition("\n")[0]
            failure = f"{type(error).__name__}: {first}"
            traceback.print_exc()
    kept = {"failure": failure, "left_out": run.left_out, "library": name}
    kept["records"] = [record.to_json() for record in run.records]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(kept, file)


if __name__ == "__main__":
    main(sys.argv[1:])
