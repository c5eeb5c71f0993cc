"""``torch.compile``: the program as it is, under the names that compiled ones have."""

from __future__ import annotations

import functools
import warnings

from rushlight.nn import Module

__all__ = ["OptimizedModule", "compile", "optimize"]

# PyTorch's own backends; "eager" is the one that asks for nothing else.
BACKENDS = ("aot_eager", "cudagraphs", "eager", "inductor", "onnxrt", "openxla", "tvm")
_told: list = []


def _check(backend):
    if callable(backend):
        raise NotImplementedError(
            "torch.compile: programs are not captured, so that there is no graph to "
            f"give to the backend {backend!r}\n  remedy: backend='eager'"
        )
    if backend not in (None, *BACKENDS):
        raise RuntimeError(
            f"Invalid backend: {backend!r}, see `torch._dynamo.list_backends()` for "
            "available backends."
        )
    if backend not in ("eager", "aot_eager") and not _told:
        _told.append(backend)
        warnings.warn(
            "torch.compile: Rushlight compiles operators one by one and runs the "
            "program as it is; backend='eager' says the same without this warning",
            stacklevel=4,
        )


def compile(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend=None,
    mode=None,
    options=None,
    name=None,
    disable=False,
    **more,
):
    """A function or module that computes the same, by the same operators.

    The program is not captured as a whole: each operator is compiled machine code as it
    is, and what ``mode`` and ``options`` ask for does not apply.

    Args:
        model: a module, which becomes the ``_orig_mod`` of what comes back, or a
            function.
        backend: PyTorch's names only; any but ``"eager"`` gives a warning, once.
        mode: not together with ``options``.

    Raises:
        RuntimeError: the backend is unknown, or both mode and options are given.
        NotImplementedError: the backend is a function that wants a graph.
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at "
            "the same time."
        )
    if model is None:
        return lambda found: _compiled(found, backend, disable)
    return _compiled(model, backend, disable)


def _compiled(model, backend, disable=False):
    if not callable(model):
        raise RuntimeError("A callable function is expected, got None.")
    if disable:
        return model
    _check(backend)
    if isinstance(model, Module):
        return OptimizedModule(model)

    @functools.wraps(model)
    def compiled(*args, **kwargs):
        return model(*args, **kwargs)

    compiled._torchdynamo_orig_callable = model
    return compiled


def optimize(backend="inductor", **options):
    """A decorator that does what ``torch.compile`` does."""
    return lambda model: _compiled(model, backend)


class OptimizedModule(Module):
    """A module that stands before another, as compiled ones do.

    Its state has the other's names with ``_orig_mod.`` before them; other attributes are
    the other's own.
    """

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        self._orig_mod = mod
        self.training = mod.training

    def forward(self, *args, **kwargs):
        """The other module's result."""
        return self._orig_mod(*args, **kwargs)

    def train(self, mode=True):
        """Switches both."""
        super().train(mode)
        return self

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        if name in ("_orig_mod", "training") or "_modules" not in self.__dict__:
            super().__setattr__(name, value)
        elif name.startswith("_") and name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __len__(self):
        return len(self._orig_mod)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._orig_mod)})
