"""What the C of a library says of the runs of its program, and the text that says it."""

from __future__ import annotations

import ctypes
import hashlib
import zlib
from pathlib import Path

from rushlight.codegen.target import current
from rushlight.dispatch.trace import NO_FAULT
from rushlight.export import _library, _planning, _steps
from rushlight.export._library_tasks import LOAD_LAPACK
from rushlight.export.launch_recorder import place_of
from rushlight.runtime.cpu import lapack_library, random_bits
from rushlight.runtime.cpu.lapack_library import library_path


class Bucket:
    """A run whose inputs have the sizes of one example.

    Args:
        run: the recorded run.
        inputs: what it was given.
        results: what it gave.
    """

    def __init__(self, run, inputs, results):
        self.run = run
        self.inputs = [(type_name(one), tuple(one.shape)) for one in inputs]
        self.outputs = [(type_name(one), tuple(one.shape)) for one in results]
        self._results(results)
        last = [self._place(one)[1] for one in results if self._fresh(one)]
        self.offsets, self.arena_bytes = _planning.placed(run, last, self.direct)
        for one in run.memories:
            if one.kind == _steps.FRESH:
                one.keep = None  # its place is known: other sizes may have the memory

    def _place(self, tensor):
        start, _, own = place_of(tensor)
        if not tensor.numel():
            return _steps.NOTHING, 0, 0
        return self.run.place(own)

    def _fresh(self, tensor):
        return self._place(tensor)[0] == _steps.FRESH

    def _results(self, results):
        """Which results are written where the caller wants them, and which copied."""
        self.direct, self.copies, self.sources = {}, [], []
        fresh = {m.number: m for m in self.run.memories if m.kind == _steps.FRESH}
        for at, one in enumerate(results):
            kind, number, offset = place = self._place(one)
            n_bytes = one.numel() * one.itemsize
            whole = kind == _steps.FRESH and not offset
            if whole and number not in self.direct and fresh[number].n_bytes == n_bytes:
                self.direct[number] = at
            elif n_bytes:
                self.copies.append((at, n_bytes))
                self.sources.append(place)

    def addresses(self):
        """Where the functions start that the run's steps call."""
        for step in self.run.steps:
            if step.kind == _steps.LAUNCH and step.fn not in _steps.TASKS:
                yield step.fn
            yield from (n for kind, n, _ in step.positions if kind == _steps.FUNCTION)

    def state(self):
        """What was there before, and steps touch or results are: not all that was seen."""
        steps = (place for step in self.run.steps for place in step.positions)
        positions = (*steps, *self.sources)
        touched = {number for kind, number, _ in positions if kind == _steps.STATE}
        return [
            one
            for one in self.run.memories
            if one.kind == _steps.STATE and one.number in touched
        ]


class Tables:
    """What the library's C says: each bucket's steps, over one state and one code.

    Args:
        buckets: a `Bucket` for each example; the memory that the program keeps from run
            to run is one for all of them.
        alike: how many of the first ones are those of one size that grows.
    """

    def __init__(self, buckets, alike):
        self.buckets, self.alike = buckets, alike
        self.no_fault = NO_FAULT
        self.tasks: list = []  # of `_steps.TASKS`, by their names
        self.routines: list = []  # of LAPACK
        self._code(dict.fromkeys(one for b in buckets for one in b.addresses()))
        self._state()
        self.steps, self.positions, self.ints = [], [], []
        self.copies, self.copied, self.spans = [], [], []
        self.numbers = bytearray()
        self.most_positions = self.most_bytes = 0
        self.arena_bytes = max(one.arena_bytes for one in buckets)
        self._places: dict = {}  # where rows of integers, pointers and bytes are already
        for bucket in buckets:
            self._steps_of(bucket)
        self.features = _features(self.names)
        self.tiles = any(name.startswith("tiles_") for name in self.names)
        self.identity = self._identity()

    def _code(self, addresses):
        """All kernels' code, one behind the other, and what is to be filled in."""
        self.code, self.slots, self.functions = bytearray(), [], []
        self.names = set()
        self.numbers_of: dict = {}
        images: dict = {}
        for address in addresses:
            kernel = _steps.kernel_of(address)
            image = kernel.owner
            self.names.add(kernel.name)
            code, symbols, relative, external = image.contents()
            start = images.get(id(image))
            if start is None:
                self.code += bytes(-len(self.code) % 4096)
                start = images[id(image)] = len(self.code)
                self.code += code
                self.slots += [(start + at, 0, start + to) for at, to in relative]
                for at, addend, called in external:
                    number = _library.FUNCTIONS_OF_C.get(called.decode())
                    if number is None:
                        raise _steps.NotExportable(
                            f"aot_compile: the kernel {kernel.name} calls {called!r}"
                        )
                    self.slots.append((start + at, number, addend))
            self.numbers_of[address] = len(self.functions)
            self.functions.append(start + symbols[kernel.name])

    def _state(self):
        """Where each memory lies in the file of weights, which all buckets share."""
        self.state_offsets, self.kept, at = {}, [], 0
        for bucket in self.buckets:
            for memory in bucket.state():
                place = memory.start, memory.n_bytes
                if place not in self.state_offsets:
                    self.state_offsets[place] = at
                    self.kept.append((at, memory))
                    at += _planning.aligned(memory.n_bytes)
        self.state_bytes = at
        stream = random_bits.stream_address(), random_bits.STREAM_BYTES
        self.stream = self.state_offsets.get(stream, -1)

    def _steps_of(self, bucket):
        first, first_copy = len(self.steps), len(self.copies)
        kept = {
            memory.number: self.state_offsets[memory.start, memory.n_bytes]
            for memory in bucket.state()
        }

        def placed(kind, number, offset):
            """A place as the library has it."""
            if kind == _steps.FRESH and number in bucket.direct:
                return _steps.OUTPUT, bucket.direct[number], offset
            if kind == _steps.FRESH:
                return kind, 0, bucket.offsets[number] + offset
            if kind == _steps.STATE:
                return kind, 0, kept[number] + offset
            if kind == _steps.FUNCTION:
                return kind, self.numbers_of[number], 0
            if kind == _steps.ROUTINE:
                return (
                    kind,
                    _number(lapack_library.routine_name(number), self.routines),
                    0,
                )
            return kind, number, offset

        for step in bucket.run.steps:
            self._step(step, [placed(*one) for one in step.positions])
        self.copies += bucket.copies
        self.copied += [placed(*one) for one in bucket.sources]
        counts = len(self.steps) - first, len(bucket.copies)
        self.spans.append((first, counts[0], first_copy, counts[1]))

    def _step(self, step, positions):
        fn = 0
        if step.kind == _steps.LAUNCH and step.fn in _steps.TASKS:
            fn = -1 - _number(_steps.TASKS[step.fn], self.tasks)
        elif step.kind == _steps.LAUNCH:
            fn = self.numbers_of[step.fn]
        self.steps.append((
            step.kind, fn, self._place(self.positions, tuple(positions)), len(positions),
            self._place(self.ints, step.ints), self._bytes(step.numbers),
            len(step.numbers), step.total, step.grain,
        ))  # fmt: skip
        self.most_positions = max(self.most_positions, len(positions))
        if step.kind == _steps.LAUNCH:
            self.most_bytes = max(self.most_bytes, len(step.numbers))

    def _place(self, table, row):
        """Where a row of a step's is in a table, to whose end it is put if it is new."""
        at = self._places.setdefault((id(table), row), len(table))
        if at == len(table):
            table += row
        return at

    def _bytes(self, numbers):
        """Where a step's bytes begin, at a multiple of 16."""
        return self._place(self.numbers, numbers + bytes(-len(numbers) % 16))

    @property
    def calls_lapack(self):
        """Whether a step calls a routine, or looks at what one has said."""
        checks = any(step[0] == _steps.CHECK for step in self.steps)
        return checks or bool(self.routines)

    def _identity(self):
        """The first 40 bytes of a file of weights that fits; eight of a checksum follow."""
        facts = self.steps, self.positions, self.state_bytes, self.functions
        text = repr((*facts, self.tasks, self.routines))
        digest = hashlib.blake2b(text.encode() + self.code, digest_size=24).digest()
        return b"RLWEIGHT" + digest + self.state_bytes.to_bytes(8, "little")

    def weights(self):
        """The file that the library begins with: the state as it is now."""
        data = bytearray(self.state_bytes)
        for at, memory in self.kept:
            found = ctypes.string_at(memory.start, memory.n_bytes)
            data[at : at + memory.n_bytes] = found
        return self.identity + zlib.crc32(data).to_bytes(8, "little") + bytes(data)


def _number(one, found):
    """The place of something in a list, to whose end it is put if it is not in it."""
    if one not in found:
        found.append(one)
    return found.index(one)


def type_name(tensor):
    """What a library calls a tensor's dtype: ``"float32"``."""
    return str(tensor.dtype).rpartition(".")[2]


# What kernels of contractions need besides, by how their names begin; see
# `kernels.matmul.matmul_kernel_registry.epilogue_kernel`.
_STEPS = {
    "pairs_": ["avx512bf16"],
    "fours_": ["avx512vnni"],
    "sevens_": ["ssse3"],
    "tiles_pairs_": ["amx-tile", "amx-bf16"],
    "tiles_fours_": ["amx-tile", "amx-int8"],
    "tiles_unsigned_fours_": ["amx-tile", "amx-int8"],
}


def _features(names):
    """What gcc's name is for the instructions that kernels of these names use."""
    target = current()
    if not target.triple.startswith("x86_64"):
        return []
    wanted = {16: ["sse2"], 32: ["avx2"], 64: ["avx512f", "avx512bw", "avx512vl"]}
    found = list(wanted.get(target.vector_bytes, ()))
    found += ["fma"] if target.has("fma") else []
    for step, needed in _STEPS.items():
        if any(name.startswith(step) for name in names):
            found += needed
    return list(dict.fromkeys(found))


def _runtime(tables):
    """The runtime, and before what runs steps the tasks that they name."""
    head, tail = _library.RUNTIME.split("struct NAME {")[1].split("static int same(")
    tasks = _rows("kernel_t", "TASKS", tables.tasks, "NULL")
    if not tables.calls_lapack:
        lapack = "#define ROUTINE_AT(number) NULL\n#define CODES_FAIL(m, o, c, n) 0\n"
        tail = tail.replace("  LOAD_LAPACK\n", "")
    else:
        names = [f'"{one}"' for one in tables.routines]
        lapack = (
            "#define ROUTINE_AT(number) routines[number]\n"
            "#define CODES_FAIL codes_fail\n"
            f"#define N_ROUTINES {len(names)}\n"
            f'#define LAPACK_FILE "{Path(library_path()).name}"\n'
            + _rows("char *const", "ROUTINES", names, "NULL")
            + _library.LAPACK
        )
        tail = tail.replace("LOAD_LAPACK", LOAD_LAPACK)
    return f"struct NAME {{{head}{lapack}{tasks}\nstatic int same({tail}"


def _rows(kind, name, rows, empty="{0}"):
    body = ",\n".join(f"  {row}" for row in rows) or f"  {empty}"
    return f"static const {kind} {name}[] = {{\n{body}\n}};\n"


def _tensors(name, table, tensors):
    sizes = "".join(
        f"static const int64_t {table}_{at}[] = {{{', '.join(map(str, [*shape, 0]))}}};\n"
        for at, (_, shape) in enumerate(tensors)
    )
    rows = [
        f'{{NULL, "{kind}", {len(shape)}, {table}_{at}}}'
        for at, (kind, shape) in enumerate(tensors)
    ]
    return sizes + _rows(f"{name}_tensor", table, rows, '{NULL, "", 0, NULL}')


def _bytes(name, data):
    rows = [", ".join(map(str, data[at : at + 20])) for at in range(0, len(data), 20)]
    return _rows("unsigned char", name, rows, "0").replace(
        "static const", "static const __attribute__((aligned(64)))"
    )


def written_source(name, tables):
    """The library's C.

    Args:
        name: the library's.
        tables: what `Tables` has.
    """
    t = tables
    facts = {
        "N_BUCKETS": len(t.buckets), "N_INPUTS": len(t.buckets[0].inputs),
        "N_OUTPUTS": len(t.buckets[0].outputs),
        "N_SLOTS": len(t.slots), "CODE_BYTES": len(t.code),
        "STATE_BYTES": t.state_bytes, "ARENA_BYTES": t.arena_bytes,
        "MOST_PLACES": t.most_positions, "MOST_BYTES": t.most_bytes,
        "NO_FAULT": f"({t.no_fault}LL)", "STREAM": t.stream,
    }  # fmt: skip
    features = "\n  ".join(
        f'if (!__builtin_cpu_supports("{one}")) '
        f'return fail(NULL, "NAME: this processor lacks {one}"), NULL;'
        for one in t.features
    )
    if t.tiles:
        features += _library.ASK_FOR_TILES
    parts = [
        _library.INCLUDES.format(name=name),
        "".join(f"#define {key} {value}\n" for key, value in facts.items()),
        *(
            _tensors(name, f"{table}_{at}", getattr(bucket, table.lower()))
            for at, bucket in enumerate(t.buckets)
            for table in ("INPUTS", "OUTPUTS")
        ),
        _rows("int64_t", "FUNCTIONS", t.functions, "0"),
        _rows("int64_t", "INTS", t.ints, "0"),
        _bytes("NUMBERS", t.numbers),
        _bytes("IDENTITY", t.identity),
        _rows(
            "struct { int64_t at; int kind; int64_t value; }", "SLOTS",
            [f"{{{a}, {b}, {c}}}" for a, b, c in t.slots],
        ),
        _library.RUNTIME.partition("struct NAME {")[0],
        _library.RANDOM,
        _rows("place_t", "POSITIONS", [f"{{{a}, {b}, {c}}}" for a, b, c in t.positions]),
        _rows("place_t", "COPIED", [f"{{{a}, {b}, {c}}}" for a, b, c in t.copied]),
        _rows("place_t", "COPIES", [f"{{0, {a}, {b}}}" for a, b in t.copies]),
        _rows(
            "bucket_t", "BUCKETS",
            [
                f"{{INPUTS_{at}, OUTPUTS_{at}, {', '.join(map(str, span))}, "
                f"{1 if at else t.alike}}}"
                for at, span in enumerate(t.spans)
            ],
        ),
        _rows(
            "step_t", "STEPS", [f"{{{', '.join(map(str, one))}}}" for one in t.steps]
        ),
        _runtime(t),
    ]  # fmt: skip
    text = "\n".join(parts).replace("FEATURES", features)
    return text.replace("NAME", name)
