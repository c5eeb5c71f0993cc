"""Builds the compiled core: Python sources that Cython turns into extension modules."""

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
PROCESSORS = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
COMPILED = [
    "core.state",
    "core.switches",
    "core.type_names",
    "core.dtype",
    "core.device",
    "core.guard",
    "core.spans",
    "core.storage",
    "core.geometry",
    "core.formats",
    "core.elements",
    "core.sizes",
    "core.slots",
    "core.tensor",
    "core.facts",
    "core.window",
    "core.subclass",
    "core.sparse",
    "core.overlap",
    "core.iteration",
    "core.launch_args",
    "random.generator",
    "random.distributions",
    "random.normal",
    "random.multinomial",
    "random.variates",
    "random.implicit",
    "core.views",
    "core.indexing",
    "core.factories",
    "io.dlpack",
    "io.interop",
    "runtime.cpu.pool",
    "runtime.cpu.launch",
    "runtime.cpu.scratch",
    "runtime.cpu.image",
    "runtime.cpu.blocks",
    "runtime.cpu.matmul",
    "runtime.cpu.foreach",
    "runtime.cpu.lapack_small",
    "runtime.cpu.lapack_library",
    "runtime.cpu.lapack_tasks",
    "runtime.cpu.lapack",
    "runtime.cpu.random_bits",
    "runtime.cuda.memory_stats",
    "runtime.cuda.blocks",
    "runtime.cuda.allocator",
    "runtime.cuda.launch",
    "dispatch.signature",
    "dispatch.outputs",
    "dispatch.dispatcher",
    "dispatch.interception",
    "dispatch.calling",
    "dispatch.overridable",
    "dispatch.named_overload",
    "dispatch.python_key",
    "dispatch.packet",
    "dispatch.profiling",
    "dispatch.python_kernels",
    "dispatch.trace",
    "dispatch.call_layout",
    "dispatch.launch_cache",
    "dispatch.derived",
    "dispatch.destination",
    "dispatch.loops",
    "dispatch.operands",
    "dispatch.deferred",
    "dispatch.kernels",
    "dispatch.row_variants",
    "dispatch.launchers",
    "dispatch.kernel_table",
    "dispatch.reductions",
    "autograd.saved",
    "operators.shape.copying",
    "operators.shape.joining",
    "operators.loop_calls",
    "operators.indexing.indexed_reads",
    "operators.indexing.gather",
    "operators.indexing.few_elements",
    "operators.indexing.index_offsets",
    "operators.normalization.rows",
    "operators.scan.scan",
    "autograd.node",
    "autograd.engine",
    "autograd.methods",
    "autograd.view_replay",
    "autograd.record",
    "autograd.levels.stack",
    "nn.modules._calling",
    "graph.tape",
    "graph.call_trace",
    "graph.call_matching",
    "graph.size_vectors",
    "graph.open_sizes",
    "graph.compiled_call",
    "graph.capture",
    "graph.operator_traces",
    "graph.launch_recorder",
    "graph.function_facts",
    "graph.module_replay",
    "graph.dynamic_trace",
    "graph.dynamic_replay",
    "graph.program",
    "graph.cuda_graphs",
    "graph.kernel_resolution",
    "export.launch_recorder",
]
# Modules whose loops gcc vectorises with more than -O2's eagerness.
VECTORIZED = (
    "random.generator",
    "random.distributions",
    "random.normal",
    "runtime.cpu.lapack_small",
)
# Modules that record, refuse or set up; what runs at every call is elsewhere. -O2 would add
# two fifths to the compiler's time on each.
COLD = (
    "core.facts",
    "core.sparse",
    "core.switches",
    "core.type_names",
    "core.window",
    "io.dlpack",
    "runtime.cpu.image",
    "runtime.cpu.lapack",
    "runtime.cpu.lapack_library",
    "runtime.cuda.memory_stats",
    "dispatch.profiling",
    "dispatch.python_key",
    "autograd.view_replay",
    "graph.capture",
    "graph.launch_recorder",
    "export.launch_recorder",
)
VECTORIZE = [
    "-ftree-vectorize",
    "-fvect-cost-model=dynamic",
    "-fno-math-errno",
    "-fno-trapping-math",
]
# New objects are cleared by a few vector stores: what gcc takes for so many bytes costs
# tens of cycles to start. Calls into Python go there directly. Python's own flags ask for
# debugging information, which takes a third of gcc's time and most of a module's size.
OPTIMIZED = ["-O2", "-g0", "-fno-plt"]
if "clang" not in os.environ.get("CC", "gcc"):
    # what sets a module up runs once, and is a twelfth of gcc's work when it is optimized
    OPTIMIZED.append('-DCYTHON_SMALL_CODE=__attribute__((cold,optimize("O0")))')
    if platform.machine() == "x86_64":
        strategy = "vector_loop:512:noalign,libcall:-1:noalign"
        OPTIMIZED.append(f"-mmemset-strategy={strategy}")
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": False,
    "binding": True,
    "auto_pickle": False,  # what is pickled says how; a twentieth of the code
}
# `make sanitize` builds with every check that the compilers have to offer.
SANITIZE = os.environ.get("RUSHLIGHT_SANITIZE") == "1"
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
SANITIZED = ["-O1", "-g", "-fno-omit-frame-pointer", "-w", *SANITIZERS]
if SANITIZE:
    DIRECTIVES |= {"boundscheck": True, "nonecheck": True, "initializedcheck": True}


def extensions():
    """One extension for each compiled module whose source is present."""
    chosen = tuple(os.environ.get("BUILD_ONLY", "").split())
    for name in COMPILED:
        if chosen and not name.startswith(chosen):
            continue
        source = Path("rushlight", *name.split(".")).with_suffix(".py")
        if (ROOT / source).exists():
            yield Extension(
                f"rushlight.{name}",
                [str(source)],
                extra_compile_args=SANITIZED
                if SANITIZE
                else [*OPTIMIZED, "-fno-strict-aliasing", "-fwrapv", "-w"]
                + (VECTORIZE if name in VECTORIZED else [])
                + (["-O1"] if name in COLD else []),
                extra_link_args=["-lpthread", *(SANITIZERS if SANITIZE else [])],
            )


def with_tables(command):
    """The command, preceded by the operator tables that the YAML turns into."""

    class WithTables(command):
        def run(self):
            if (ROOT / "opgen" / "__main__.py").exists():
                subprocess.run([sys.executable, "-m", "opgen"], cwd=ROOT, check=True)
            super().run()

    WithTables.__name__ = command.__name__
    return WithTables


class BuildExtensions(build_ext):
    """A compiler a processor: the core's modules are many and even in size."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or PROCESSORS


class BuildWithPacks(build):
    """A build that ends by compiling the kernels that most programs begin with.

    They go with the package, so that who installs it waits for no compiler. A build
    that runs from its sources has none: its kernels are compiled where they are used.
    ``RUSHLIGHT_PACKS=0`` leaves them out.
    """

    def run(self):
        super().run()
        wanted = os.environ.get("RUSHLIGHT_PACKS", "1") != "0" and not SANITIZE
        if not wanted or getattr(self, "editable_mode", False):
            return
        folder = Path(self.build_lib).resolve()
        positions = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        with tempfile.TemporaryDirectory() as cache:
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(positions),
                "PYTHONDONTWRITEBYTECODE": "1",
                "RUSHLIGHT_CACHE": cache,
            }
            for kind in ("cpu", "cuda"):
                command = [
                    sys.executable,
                    "-m",
                    f"rushlight.runtime.{kind}.warm",
                    "ship",
                ]
                target = folder / "rushlight" / "runtime" / kind / "packs"
                ended = subprocess.run([*command, target], env=environment, cwd=folder)
                if ended.returncode:
                    print(f"no kernels for {kind} go along: they are made at first use")


setup(
    ext_modules=cythonize(
        list(extensions()),
        compiler_directives=DIRECTIVES,
        annotate=False,
        quiet=True,
        nthreads=PROCESSORS,
        # Checkouts beside each other may share what Cython has made from equal sources.
        cache=os.environ.get("CYTHON_CACHE_DIR") or None,
    ),
    cmdclass={
        "build": BuildWithPacks,
        "build_ext": BuildExtensions,
        "build_py": with_tables(build_py),
        "sdist": with_tables(sdist),
    },
)
