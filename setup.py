"""Builds the compiled core: Python sources that Cython turns into extension modules."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

COMPILED = [
    "core.state", "core.dtype", "core.device", "core.storage", "core.geometry",
    "core.tensor", "core.iteration", "core.random", "core.views",
    "backends.cpu.pool", "backends.cpu.launch", "backends.cpu.image",
    "dispatch.dispatcher", "dispatch.kernels",
    "autograd.node", "autograd.engine",
]
DIRECTIVES = {
    "language_level": 3, "boundscheck": False, "wraparound": False,
    "initializedcheck": False, "cdivision": True, "embedsignature": False,
    "binding": True,
}


def extensions():
    """One extension for each compiled module whose source is present."""
    for name in COMPILED:
        source = Path("rushlight", *name.split(".")).with_suffix(".py")
        if source.exists():
            yield Extension(
                f"rushlight.{name}", [str(source)],
                extra_compile_args=["-O2", "-fno-strict-aliasing", "-w"],
                extra_link_args=["-lpthread"],
            )


setup(ext_modules=cythonize(
    list(extensions()), compiler_directives=DIRECTIVES, annotate=False, quiet=True))
