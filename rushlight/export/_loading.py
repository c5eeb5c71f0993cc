"""Libraries without Python, called from Python: what `load_library` gives."""

import ctypes
import os
from pathlib import Path

from rushlight.core.dtype import all_dtypes
from rushlight.core.tensor import Tensor
from rushlight.export._compile import Library, Loaded
from rushlight.operators import call


class LoadedLibrary(Loaded):
    """A library of `aot_compile` as a function of tensors.

    One thread uses it at a time: what another calls meanwhile is refused.

    Attributes:
        inputs, outputs: the dtype and the shape of each, in the first bucket.
        buckets: those of each set of sizes that it takes: pairs of such lists.
    """

    def __init__(self, library, name, threads):
        super().__init__(library, name, threads)
        self.buckets = [
            (self._arrays_of("input", at), self._arrays_of("output", at))
            for at in range(self._function("buckets")())
        ]
        self.inputs, self.outputs = self.buckets[0]

    def _arrays_of(self, what, bucket):
        """What the library says of its arguments or its results."""
        describe = self._function(f"bucket_{what}", ctypes.POINTER(self.CTensor))
        count = self._function(f"{what}s")()
        rows = [describe(bucket, at).contents for at in range(count)]
        return [
            (all_dtypes()[row.type.decode()], tuple(row.sizes[: row.dim]))
            for row in rows
        ]

    def __call__(self, *args):
        """The program's result, or a tuple of its results.

        Args:
            args: a tensor for each of ``inputs``, all of one bucket.

        Raises:
            TypeError: there are more or fewer, or one is no tensor.
            RuntimeError: one has another dtype or shape; the program fails; it runs in
                another thread.
        """
        if len(args) != len(self.inputs) or not all(
            isinstance(a, Tensor) for a in args
        ):
            raise TypeError(
                f"{self.name} takes {len(self.inputs)} tensors, not "
                f"({', '.join(type(one).__name__ for one in args)})"
            )
        given = [one.detach().cpu().contiguous() for one in args]
        bucket = max(self._function("bucket")(self._arrays(given), len(given)), 0)
        outputs = self.buckets[bucket][1]
        made = [call.empty(shape, dtype=dtype) for dtype, shape in outputs]
        self.run(given, made)
        return made[0] if len(made) == 1 else tuple(made)

    def save(self, path):
        """Writes what the program keeps from run to run.

        Args:
            path: of the file: all of it is written, or what was there stays.

        Raises:
            RuntimeError: it cannot be written.
        """
        if not self.model:
            raise RuntimeError(f"{self.name} is closed")
        model, name = ctypes.c_void_p(self.model), os.fsencode(path)
        if self._function("save")(model, name):
            raise RuntimeError(self.error())

    def seed(self, seed):
        """Begins its random numbers anew, as `manual_seed` does those of programs here.

        Args:
            seed: an integer of 64 bits.

        Raises:
            RuntimeError: the program draws none; it is closed.
        """
        if not self.model:
            raise RuntimeError(f"{self.name} is closed")
        model = ctypes.c_void_p(self.model)
        if self._function("seed")(model, ctypes.c_uint64(seed)):
            raise RuntimeError(self.error())

    def run(self, inputs, outputs):
        """Runs the program; outputs are tensors that are written to."""
        if not self.model:
            raise RuntimeError(f"{self.name} is closed")
        super().run(inputs, outputs)

    def close(self):
        """Gives everything back; it cannot be called any more."""
        model, self.model = self.model, None
        if model:
            self._function("free", None)(ctypes.c_void_p(model))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if self.__dict__.get("model"):
            self.close()


def load_library(path, *, weights=None, name=None, threads=1):
    """A library that `aot_compile` has written, as a function of tensors.

    Args:
        path: of the shared library, ``lib<name>.so``, or what `aot_compile` gave.
        weights: the path of the file that it begins with, by default the one beside it.
        name: what its functions' names begin with, by default that of the file.
        threads: how many work on a run.

    Returns:
        a `LoadedLibrary`: it is called with tensors; it has ``save`` and ``close``.

    Raises:
        OSError: there is no such library.
        RuntimeError: the weights are those of another one, or have changed.

    >>> import tempfile, rushlight as rl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = rl.nn.Linear(2, 1)
    ...     made = rl.export.aot_compile(model, (rl.ones(3, 2),), directory=folder)
    ...     with load_library(made.path) as linear:
    ...         rl.equal(linear(rl.zeros(3, 2)), model(rl.zeros(3, 2)))
    True
    """
    path = Path(getattr(path, "path", path)).resolve()
    name = name or path.stem.removeprefix("lib")
    others = [path.with_name(f"{name}.{ending}") for ending in ("h", "weights", "c")]
    header, own, source = others
    library = Library(path, header, Path(weights or own), source)
    return LoadedLibrary(library, name, threads)


__all__ = ["LoadedLibrary", "load_library"]
