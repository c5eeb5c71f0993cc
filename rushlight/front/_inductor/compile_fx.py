"""Graphs compiled by Rushlight's own compiler, by PyTorch's names."""

import os

from rushlight._dynamo.eval_frame import compile as compile_function
from rushlight.fx.graph_module import GraphModule

__all__ = [
    "CompiledArtifact",
    "aoti_compile_and_package",
    "aoti_load_package",
    "compile",
    "compile_fx",
    "compile_fx_inner",
    "standalone_compile",
]


def compile(gm, example_inputs, options=None):
    """A function that computes what a graph does.

    Args:
        gm: a `GraphModule`.
        example_inputs: examples of its inputs.
        options: see ``torch.compile``.

    >>> import rushlight as rl
    >>> from rushlight.fx import symbolic_trace
    >>> compile(symbolic_trace(lambda x: x * 2), [rl.ones(2)])(rl.ones(2))
    tensor([2., 2.])
    """
    return compile_function(gm, options=options)


def compile_fx(model_, example_inputs_, *args, **options):
    """A function that computes what a graph does.

    Args:
        model_: the `GraphModule`.
        example_inputs_: examples of its inputs.
    """
    return compile_function(model_)


def compile_fx_inner(gm, example_inputs, **options):
    """The same, of a graph that is taken apart already."""
    return compile_function(gm)


class CompiledArtifact:
    """A compiled graph that can be saved, and loaded in another process.

    Args:
        gm: the graph.
        example_inputs: examples of its inputs.
    """

    def __init__(self, gm, example_inputs):
        self.gm, self.example_inputs = gm, list(example_inputs)
        self.function = compile_function(gm)

    def __call__(self, *args):
        """The graph's results."""
        return self.function(*args)

    def save(self, *, path, format="binary"):
        """Writes the graph to a file, or to a folder.

        Args:
            path: of the file (``"binary"``), or of a folder (``"unpacked"``).

        Raises:
            RuntimeError: there is no such format.
        """
        from rushlight.export import export, save

        place = place_of(path, format)
        if format == "unpacked":
            os.makedirs(path, exist_ok=True)
        with open(place, "wb") as file:
            save(export(self.gm, tuple(self.example_inputs)), file)

    @classmethod
    def load(cls, *, path, format="binary"):
        """The graph that `save` wrote.

        Args:
            path: where it is.
            format: how it was written.
        """
        from rushlight.export import load

        with open(place_of(path, format), "rb") as file:
            program = load(file)
        module = program.module()
        if not isinstance(module, GraphModule):
            raise RuntimeError(f"{path} has no graph")
        args, _ = program.example_inputs or ((), {})
        return cls(module, args)


class CacheCompiledArtifact(CompiledArtifact):
    """The same, by the name that PyTorch gives what it returns."""


def place_of(path, format):
    """The file of an artifact."""
    if format not in ("binary", "unpacked"):
        raise RuntimeError(
            f"format is 'binary' or 'unpacked', not {format!r}\n"
            "  remedy: leave it out for one file"
        )
    path = os.fspath(path)
    return os.path.join(path, "graph.pt2") if format == "unpacked" else path


def standalone_compile(
    gm, example_inputs, *, dynamic_shapes="from_graph", options=None, aot=False, **more
):
    """A compiled graph that can be saved; see `CompiledArtifact`.

    Args:
        gm: the `GraphModule`.
        example_inputs: examples of its inputs.
        dynamic_shapes: kept for PyTorch's programs: sizes are open.

    >>> import rushlight as rl
    >>> from rushlight.fx import symbolic_trace
    >>> standalone_compile(symbolic_trace(lambda x: x * 2), [rl.ones(2)])(rl.ones(3))
    tensor([2., 2., 2.])
    """
    return CacheCompiledArtifact(gm, example_inputs)


def aoti_compile_and_package(
    exported_program,
    _deprecated_unused_args=None,
    _deprecated_unused_kwargs=None,
    *,
    package_path=None,
    inductor_configs=None,
):
    """Compiles an exported program to a library without Python, in one file.

    The library has the sizes of the program's example, and its own weights.

    Args:
        exported_program: an `ExportedProgram`.
        package_path: a path that ends in ``.pt2``, or a file that is open for writing; a
            temporary file where it is left out.
        inductor_configs: kept for PyTorch's programs.

    Returns:
        the path.

    Raises:
        NotExportable: the program does something that the library could not.

    >>> import tempfile, rushlight as rl
    >>> program = rl.export.export(rl.nn.ReLU(), (rl.ones(2),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = aoti_compile_and_package(program, package_path=f"{folder}/relu.pt2")
    ...     aoti_load_package(path)(rl.tensor([-1.0, 3.0]))
    tensor([0., 3.])
    """
    from rushlight._inductor.package import package_program

    return package_program(exported_program, package_path)


def aoti_load_package(path, run_single_threaded=False, num_runners=1, device_index=-1):
    """A program that `aoti_compile_and_package` has written, to be called.

    Args:
        path: the file.
        run_single_threaded, num_runners, device_index: kept for PyTorch's programs.

    Raises:
        RuntimeError: the file is another, or was changed.
    """
    from rushlight._inductor.package import load_package

    return load_package(path)
