"""Exported programs compiled to a library, its weights and its signature in one file."""

import hashlib
import io
import json
import os
import re
import tempfile
import threading
import zipfile
from pathlib import Path

from rushlight.core.tensor import Tensor
from rushlight.export._compile import Library, aot_compile
from rushlight.export._loading import LoadedLibrary
from rushlight.export._unlift import checked_leaves
from rushlight.export.exported_program import ExportedProgram
from rushlight.io.serialization import replacing
from rushlight.utils._pytree import tree_unflatten, treespec_dumps, treespec_loads

__all__ = ["AOTICompiledModel", "load_package", "package_program"]

_SIGNATURE = "signature.json"
_LAPACK = re.compile(r"[\w.-]*openblas[\w.-]*")
_PLAIN = (int, float, bool, str, type(None))


def package_program(program, package_path=None):
    """Compiles an exported program and writes the library and all it needs into a file.

    The file is written beside its place and then moved there, so that a reader finds the
    old one or the new one.

    Args:
        program: an `ExportedProgram`; the library has the sizes of its example, or where
            one is open, of 256 values at most (``Dim("batch", max=64)``), each of those.
        package_path: a path that ends in ``.pt2``, or a file that is open for writing; a
            temporary file where it is left out.

    Returns:
        the path, or the file.

    Raises:
        ValueError: it is no program.
        RuntimeError: the program has no example, or there is no C compiler.
        AssertionError: the path has another ending.
    """
    if not isinstance(program, ExportedProgram):
        raise ValueError("Only ExportedProgram is supported")
    if program.example_inputs is None:
        raise RuntimeError(
            "exported_program.example_inputs is required to be set in order for "
            "AOTInductor compilation."
        )
    _check_path(package_path)
    with tempfile.TemporaryDirectory() as folder:
        made = aot_compile(program, directory=folder, name="model")
        data = _packed(program, made)
    if hasattr(package_path, "write"):
        package_path.write(data)
        return package_path
    if package_path is None:
        digest = hashlib.sha256(data).hexdigest()[:32]
        package_path = Path(tempfile.gettempdir()) / f"{digest}.pt2"
    with replacing(package_path) as file:
        file.write(data)
    return str(package_path)


def _check_path(path):
    if path is None or hasattr(path, "write"):
        return
    if not os.fspath(path).endswith(".pt2"):
        raise AssertionError(
            "Expect package path to be a file ending in .pt2, is None, or is a buffer. "
            f"Instead got {path}"
        )


def _packed(program, made):
    """The bytes of the file."""
    weights = made.weights.read_bytes()
    args, kwargs = program.example_inputs
    given = checked_leaves(program.call_spec.in_spec, args, kwargs)
    results = [
        node if not hasattr(node, "meta") else node.meta["val"]
        for spec, node in zip(
            program.graph_signature.output_specs, program.graph.output_node().args[0]
        )
        if spec.kind.name == "USER_OUTPUT"
    ]
    signature = {
        "in_spec": treespec_dumps(program.call_spec.in_spec),
        "out_spec": treespec_dumps(program.call_spec.out_spec),
        "inputs": [_described(one) for one in given],
        "outputs": [_described(one) for one in results],
        "weights": hashlib.sha256(weights).hexdigest(),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_SIGNATURE, json.dumps(signature))
        archive.writestr("model.weights", weights)
        for path in (made.path, made.header, made.source, *made.others()):
            archive.write(path, path.name)
    return file.getvalue()


def _described(value):
    """What a library's signature says of an argument or a result: its value is constant."""
    if isinstance(value, Tensor):
        return {}
    if not isinstance(value, _PLAIN):
        raise RuntimeError(
            f"a library has no argument or result of type {type(value)}\n"
            "  remedy: tensors, numbers, texts and None alone"
        )
    return {"value": value}


class AOTICompiledModel:
    """A program from a file, which is called as it was exported.

    One thread uses it at a time: a second call that comes meanwhile is refused.

    Args:
        loaded: the library.
        signature: what the file says of arguments and results.
        folder: where the files are, which go with it.
    """

    def __init__(self, loaded, signature, folder):
        self.loader, self._folder = loaded, folder
        self._inputs, self._outputs = signature["inputs"], signature["outputs"]
        self._in_spec = treespec_loads(signature["in_spec"])
        self._out_spec = treespec_loads(signature["out_spec"])
        self._lock = threading.Lock()

    def __call__(self, *args, **kwargs):
        leaves = checked_leaves(self._in_spec, args, kwargs)
        tensors = []
        for at, (one, known) in enumerate(zip(leaves, self._inputs)):
            if "value" in known:
                if type(one) is not type(known["value"]) or one != known["value"]:
                    raise RuntimeError(
                        f"argument {at} is {one!r}, and was {known['value']!r} when the "
                        "library was compiled"
                    )
                continue
            if not isinstance(one, Tensor):
                raise RuntimeError(f"argument {at} is to be a tensor, not {type(one)}")
            tensors.append(one)
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "the model runs in another thread\n"
                "  remedy: load the package once for each thread"
            )
        try:
            made = self.loader(*tensors)
        finally:
            self._lock.release()
        results = iter(made if isinstance(made, tuple) else (made,))
        found = [
            one["value"] if "value" in one else next(results) for one in self._outputs
        ]
        return tree_unflatten(found, self._out_spec)

    def __del__(self):
        loaded = self.__dict__.pop("loader", None)
        if loaded is not None:
            loaded.close()
            self._folder.cleanup()


def load_package(path, model_name="model", run_single_threaded=False, num_runners=1,
                 device_index=-1):  # fmt: skip
    """A program that `package_program` has written.

    Args:
        path: the file's path, or a file that is open for reading.
        model_name: kept for PyTorch's programs.
        run_single_threaded, num_runners, device_index: kept likewise.

    Raises:
        RuntimeError: the file is another, or was changed.
    """
    folder = tempfile.TemporaryDirectory()
    try:
        with zipfile.ZipFile(path) as archive:
            signature = json.loads(archive.read(_SIGNATURE))
            weights = archive.read("model.weights")
            others = [one for one in archive.namelist() if _LAPACK.fullmatch(one)]
            own = "libmodel.so", "model.weights", "model.h", "model.c"
            for name in (*own, *others):
                (Path(folder.name) / name).write_bytes(archive.read(name))
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        folder.cleanup()
        raise RuntimeError(
            f"{path} is no package of a compiled program: {error}"
        ) from error
    if hashlib.sha256(weights).hexdigest() != signature["weights"]:
        folder.cleanup()
        raise RuntimeError(f"{path}: the weights are not those that were written")
    files = [
        Path(folder.name) / f
        for f in ("libmodel.so", "model.h", "model.weights", "model.c")
    ]
    return AOTICompiledModel(
        LoadedLibrary(Library(*files), "model", 1), signature, folder
    )
