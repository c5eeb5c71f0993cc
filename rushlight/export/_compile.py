"""Programs as libraries without Python: what `aot_compile` does."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from rushlight.autograd.grad_mode import no_grad, set_grad_enabled
from rushlight.codegen.target import current
from rushlight.core.layout import contiguous_format
from rushlight.core.tensor import Tensor
from rushlight.export import _library, _steps
from rushlight.export._control_flow import recorders
from rushlight.export._open_batches import examples_of
from rushlight.export._other_target import write_library_for
from rushlight.export._tables import Bucket, Tables, type_name, written_source
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.launch_recorder import place_of
from rushlight.fx.interpreter import Interpreter
from rushlight.nn.modules.module import Module
from rushlight.operators import call as ops
from rushlight.runtime.cpu.lapack_library import library_path
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

HEAD = 48  # bytes before the state in a file of weights


class Library(NamedTuple):
    """The files of a library.

    Attributes:
        path: the shared library, which ``header`` describes.
        weights: what the program keeps from run to run, and begins with.
        source: the C that it was compiled from.
    """

    path: Path
    header: Path
    weights: Path
    source: Path

    def others(self):
        """What the shared library needs beside it: LAPACK, where it calls that."""
        own = self.path.parent / Path(library_path()).name
        called = f"{own.name} beside it" in self.header.read_text()
        return [own] if called else []


def _refuse_name(name):
    """Refuses what C's functions cannot begin with, or what is something already."""
    if not name.isidentifier():
        raise ValueError(f"aot_compile: {name!r} is no name of a C function")
    if _library.is_taken(name):
        raise ValueError(
            f"aot_compile: C, or the library itself, has something called {name!r}\n"
            "  remedy: name= another one"
        )


def aot_compile(
    program, args=(), kwargs=None, *, examples=(), directory=".", name=None, target=None
):  # fmt: skip
    """Writes a program as a shared library that needs no Python, with a C header.

    The program runs, and what it launches is listened to: kernels, their pointers and
    integers become tables in C, intermediate results share one block of memory, and the
    kernels' machine code goes along. Sizes are those of ``args``, or of one of
    ``examples``: each is a bucket with tables of its own, over the same weights and code.
    Without examples a program that was exported with an open size, of 256 values at most
    (``Dim("batch", max=64)``), has a bucket for each of them.
    The library needs libc and libm, and where it calls LAPACK the file of OpenBLAS that is
    written beside it; it has threads of its own, or takes a callback. Random numbers are
    the default generator's, from where it stands: ``NAME_seed`` begins them anew.

    A function may be given in place of a program: a training step with its backward pass
    and optimizer, say. Tensors that it finds elsewhere (parameters, momentum) are what the
    library keeps from run to run. It runs six times here for each example; the library
    begins where all but the last have led, and so does what is here. What it does has to be
    the same each time: an optimizer whose numbers change from step to step is refused, but
    for Adam and AdamW, whose numbers a kernel makes of counters (in double precision).

    Args:
        program: an `ExportedProgram`, a module, or a function of tensors.
        args: its arguments: tensors, and constants; a program has its own.
        kwargs: keyword arguments likewise.
        examples: more of ``args`` (tuples), of other sizes, that the library takes as well:
            batches of 1, 8 and 32, say, or the last batch of a training set.
        directory: where the files are written.
        name: what the functions' names begin with; the module's name by default.
        target: the processor that it is for, by default this one: ``"x86-64-v2"`` to
            ``"x86-64-v4"``, for an `ExportedProgram`; it has to run here, where another
            process writes it and compares results.

    Returns:
        the paths of the files: ``path``, ``header``, ``weights`` and ``source``.

    Raises:
        NotExportable: the program does something that the library could not; the message
            names the operator and the line.
        ValueError: ``target`` is none, or this processor cannot run its code; two examples
            have the same sizes, or not the same number of tensors.
        RuntimeError: there is no C compiler.

    >>> import ctypes, tempfile, rushlight as rl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = aot_compile(
    ...         rl.nn.Linear(2, 1), (rl.ones(3, 2),), directory=folder, name="line"
    ...     )
    ...     sorted(os.listdir(folder))
    ['libline.so', 'line.c', 'line.h', 'line.kernels', 'line.weights']
    """
    given = [(tuple(args), dict(kwargs or {})), *((tuple(one), {}) for one in examples)]
    if target is not None and target != current().name:
        name = write_library_for(target, program, given, directory, name)
        return _files(Path(directory), name)
    sizes = _open_examples(program, *given)
    given = sizes or [lambda one=one: one for one in given]
    return _library_of(_Source(program, name), given, Path(directory), len(sizes) or 1)


def _open_examples(program, first, *others):
    """Functions that give arguments of each open size, where nobody has said which."""
    is_program = isinstance(program, ExportedProgram)
    return examples_of(program) if is_program and not others and not any(first) else []


def _library_of(source, given, folder, alike):
    """Records what is compiled, with each example, and writes the library.

    Args:
        source: what is compiled.
        given: functions that give the arguments of each bucket.
        folder: where the files are written.
        alike: how many of the first buckets differ in one size, which grows.
    """
    buckets = [_recorded(*source.with_arguments(*one()), source) for one in given]
    _refuse_alike(buckets)
    tables = Tables(buckets, alike)
    folder.mkdir(parents=True, exist_ok=True)
    library = _written(folder, source.name, tables)
    for one, bucket in zip(given, buckets):
        call, inputs = source.with_arguments(*one())
        _check(library, source.name, call, inputs, bucket.run, tables)
    return library


def _refuse_alike(buckets):
    """Refuses examples that a call could not be told apart by."""
    seen: list = []
    for at, one in enumerate(buckets):
        counts = len(one.inputs), len(one.outputs)
        if seen and counts != (len(buckets[0].inputs), len(buckets[0].outputs)):
            raise ValueError(
                f"aot_compile: example {at} has {counts[0]} tensors and {counts[1]} "
                f"results, the first has {len(buckets[0].inputs)} and "
                f"{len(buckets[0].outputs)}"
            )
        if one.inputs in seen:
            raise ValueError(
                f"aot_compile: example {at} has the sizes of example "
                f"{seen.index(one.inputs)}"
            )
        seen.append(one.inputs)


class _Source:
    """What is compiled: what calls it, and the tensors that are there before.

    Args:
        program: an `ExportedProgram`, a module, or a function.
        name: the library's; the program's own where it is None.
    """

    def __init__(self, program, name):
        self.example, self.state, self.train = None, [], False
        if isinstance(program, ExportedProgram):
            module = program.module(check_guards=False)
            self.example, own = program.example_inputs, "program"
            self.function = _Followed(module)
        elif isinstance(program, Module):
            module = self.function = program
            own = type(program).__name__.lower()
        else:
            module, self.function, self.train = None, program, True
            own = getattr(program, "__name__", "program")
        self.name = name or own
        _refuse_name(self.name)
        if module is not None:
            self.state = [*module.parameters(), *module.buffers()]

    def with_arguments(self, args, kwargs):
        """``call(run, inputs)``, and the tensors that are given; a program has its own."""
        if self.example is not None and not args and not kwargs:
            args, kwargs = self.example
        leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
        given = [at for at, one in enumerate(leaves) if isinstance(one, Tensor)]

        def call(run, inputs):
            filled = list(leaves)
            for at, one in zip(given, inputs):
                filled[at] = one
            positional, named = tree_unflatten(filled, spec)
            with set_grad_enabled(self.train):
                if isinstance(self.function, _Followed):
                    result = self.function(run, *positional, **named)
                else:
                    result = self.function(*positional, **named)
                found = [one for one in tree_leaves(result) if isinstance(one, Tensor)]
                return [one.detach().contiguous() for one in found]

        inputs = [leaves[at].detach() for at in given]
        return call, [one.clone(memory_format=contiguous_format) for one in inputs]


class _Followed:
    """A program's steps, of which the listener is told which one runs."""

    def __init__(self, module):
        self.module = module

    def __call__(self, run, *args, **kwargs):
        class Steps(Interpreter):
            def run_node(self, n):
                if run is not None:
                    run.where = n
                result = super().run_node(n)
                if run is not None:
                    run.settle()
                return result

            def call_function(self, target, args, kwargs):
                record = None if run is None else recorders.get(target)
                if record is None:
                    return super().call_function(target, args, kwargs)
                return record(run, interpret, *args, **kwargs)

        def interpret(graph_module, operands):
            return Steps(graph_module).run(*operands, enable_io_processing=False)

        from rushlight.export._unlift import checked_leaves

        spec = self.module._in_spec
        leaves = checked_leaves(spec, args, kwargs)
        return Steps(self.module).run(*leaves, enable_io_processing=False)


def _recorded(call, inputs, source):
    """What a function launches each time, as a `Bucket`.

    Args:
        call: runs it; see `_Source.with_arguments`.
        inputs: what it is given.
        source: what is compiled.

    Raises:
        NotExportable: it does not do the same each time.
    """
    state = source.state
    saved = [one.detach().clone() for one in state]
    call(None, inputs)  # what is made at the first call is there at the next
    seen = _steps.seen_by(lambda: call(None, inputs))
    known = {id(one): one for one in (*state, *seen)}
    given = {place_of(one)[0] for one in inputs}
    before = [
        one
        for one in known.values()
        if one.device.type == "cpu"
        and place_of(one)[1]
        and place_of(one)[0] not in given
    ]
    runs: list = []
    for _ in range(3):
        before = _alive(before)
        run, results = _steps.listened(lambda run: call(run, inputs), inputs, before)
        before = [*before, *(m.keep for m in run.memories if m.kind == _steps.STATE)]
        runs.append(run)
    _steps.checked_alike(runs[1], runs[2])
    with no_grad():
        for one, value in zip(state, saved):
            one.copy_(value)
    return Bucket(runs[2], inputs, results)


def _alive(tensors):
    """Tensors once for each storage."""
    found: dict = {}
    for one in tensors:
        found.setdefault(place_of(one)[0], one)
    return list(found.values())


def _files(folder, name):
    """The files of a library in a folder."""
    names = f"lib{name}.so", f"{name}.h", f"{name}.weights", f"{name}.c"
    return Library(*(folder / one for one in names))


def _described(tables):
    """The lines of a header about the buckets; those of one open size are said once."""
    ends = tables.alike - 1, *range(tables.alike, len(tables.buckets))
    for at, end in zip((0, *range(tables.alike, len(tables.buckets))), ends):
        first, last = tables.buckets[at], tables.buckets[end]
        if end:
            yield f"   Bucket {at}:\n" if at == end else f"   Buckets {at} to {end}:\n"
        for what in ("input", "output"):
            pairs = zip(getattr(first, f"{what}s"), getattr(last, f"{what}s"))
            for number, ((kind, shape), (_, most)) in enumerate(pairs):
                sizes = ", ".join(
                    str(low) if low == high else f"{low} to {high}"
                    for low, high in zip(shape, most)
                )
                yield f"   {what} {number}: {kind} ({sizes})\n"


def _written(folder, name, tables):
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise RuntimeError(
            "aot_compile: there is no C compiler: install gcc, or set CC"
        )
    made = _files(folder, name)
    lapack = shutil.copy(library_path(), folder) if tables.calls_lapack else ""
    described = "".join(_described(tables)), os.path.basename(lapack)
    made.header.write_text(_library.header(name, *described))
    made.source.write_text(written_source(name, tables))
    (folder / f"{name}.kernels").write_bytes(tables.code)
    made.weights.write_bytes(tables.weights())
    command = [
        *compiler.split(), "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
        "-pthread", "-Wall", "-o", made.path.name, made.source.name, "-lm", "-ldl",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"aot_compile: {compiler} fails:\n{done.stderr}")
    return made


class Loaded:
    """A library in this process: for tests, and for programs in Python.

    Args:
        library: what `aot_compile` gave.
        name: its name.
        threads: how many work on a run.
    """

    def __init__(self, library, name, threads=1):
        class CTensor(ctypes.Structure):
            _fields_ = (
                ("data", ctypes.c_void_p),
                ("type", ctypes.c_char_p),
                ("dim", ctypes.c_int),
                ("sizes", ctypes.POINTER(ctypes.c_int64)),
            )

        class Options(ctypes.Structure):
            _fields_ = (
                ("threads", ctypes.c_int),
                ("parallel", ctypes.c_void_p),
                ("user", ctypes.c_void_p),
            )

        path = Path(library.path).resolve()  # a name without a folder is looked for
        self.c, self.name, self.CTensor = ctypes.CDLL(str(path)), name, CTensor
        create = self._function("create", ctypes.c_void_p)
        options = Options(threads, None, None)
        self.model = create(str(library.weights).encode(), ctypes.byref(options))
        if not self.model:
            raise RuntimeError(self.error())

    def _function(self, name, result=ctypes.c_int):
        found = getattr(self.c, f"{self.name}_{name}")
        found.restype = result
        return found

    def error(self):
        """What went wrong last."""
        model = ctypes.c_void_p(getattr(self, "model", None))
        return self._function("last_error", ctypes.c_char_p)(model).decode()

    def _arrays(self, tensors):
        made = (self.CTensor * max(len(tensors), 1))()
        for row, tensor in zip(made, tensors):
            sizes = (ctypes.c_int64 * max(tensor.dim(), 1))(*tensor.shape)
            row.data, row.type = tensor.data_ptr() or 64, type_name(tensor).encode()
            row.dim = tensor.dim()
            row.sizes = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
        return made

    def run(self, inputs, outputs):
        """Runs the program; outputs are tensors that are written to.

        Raises:
            RuntimeError: what the library says.
        """
        failed = self._function("run")(
            ctypes.c_void_p(self.model), self._arrays(inputs), len(inputs),
            self._arrays(outputs), len(outputs),
        )  # fmt: skip
        if failed:
            raise RuntimeError(self.error())

    def close(self):
        """Gives everything back."""
        self._function("free", None)(ctypes.c_void_p(self.model))


def _check(library, name, call, inputs, run, tables):
    """Runs the library and the function once more, and compares their bits.

    Raises:
        NotExportable: they differ.
    """
    given = tree_map(lambda t: t.clone(), inputs)
    with _steps.taken_down() if tables.tasks else nullcontext():
        wanted = [one.clone() for one in call(None, given)]
    made = [ops.empty(one.shape, dtype=one.dtype) for one in wanted]
    loaded = Loaded(library, name)
    try:
        loaded.run([one.clone() for one in inputs], made)
    finally:
        loaded.close()
    data = library.weights.read_bytes()[HEAD:]
    for at, memory in tables.kept:  # the function has gone one step further
        ctypes.memmove(memory.start, data[at : at + memory.n_bytes], memory.n_bytes)
    for at, (one, other) in enumerate(zip(made, wanted)):
        if bytes(_raw(one)) != bytes(_raw(other)):
            run.refuse(f"result {at} of the library is not the function's")


def _raw(tensor):
    start, _, own = place_of(tensor)
    return ctypes.string_at(own, tensor.numel() * tensor.itemsize) if start else b""
