"""PyTorch's switches for its backends, which programs set and ask for.

Each says what it means here. Where bytes live and kernels run is `rushlight.runtime`.
"""

import contextlib

fp32_precision = "none"


def disable_global_flags():
    """Nothing: the switches stay settable."""


def __getattr__(name):
    from importlib import import_module

    if name in ("Backend", "register_backend", "backend_for"):
        return getattr(import_module("rushlight.core.device"), name)
    known = """
        cpu cuda cudnn cusparselt mha mkl mkldnn mps nnpack openmp opt_einsum quantized
        xnnpack
    """
    if name in known.split():
        return import_module(f"rushlight.backends.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextlib.contextmanager
def set_flags(module, **values):
    """Gives a module's switches other values for a block; None leaves one as it is."""
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        if value is not None:
            setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
