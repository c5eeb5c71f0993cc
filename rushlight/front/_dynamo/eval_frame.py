"""``torch.compile``: a function that is followed while it runs, and programs made of it."""

from __future__ import annotations

import functools
import os
from typing import NamedTuple

from rushlight._dynamo import config
from rushlight._dynamo.backends import find_backend
from rushlight._dynamo.backends.common import aot_autograd
from rushlight._dynamo.backends.registry import get_default_backend
from rushlight._dynamo.decorators import (
    _ever_set,
    current_backend,
    current_stance,
    is_disabled,
)
from rushlight._inductor import config as inductor
from rushlight._inductor.options import MODES, checked, settings
from rushlight.autograd.grad_mode import is_grad_enabled
from rushlight.graph import compiled_function
from rushlight.graph.capture import run as run_followed
from rushlight.graph.compiled_call import CALL_MODULE, CompiledFunction
from rushlight.graph.compiled_function import watch_back
from rushlight.nn import Module

__all__ = [
    "ExportResult",
    "OptimizedModule",
    "compile",
    "export",
    "is_dynamo_supported",
    "optimize",
    "optimize_assert",
]


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
    """A function or module that computes the same, faster.

    The program runs as it is; the operators that it calls are followed, and from the
    second call with like operands on they run as one program, with the backward pass as
    another. Where an element is needed in the middle (``if``, ``item``, ``print``), what
    is waiting runs, and a new graph begins.

    Args:
        model: a module, which becomes the ``_orig_mod`` of what comes back, or a
            function.
        fullgraph: whether needing an element in the middle is an error.
        dynamic: False where each size is to have a program planned for it alone. Else
            programs are made of one that three sizes have opened
            (`rushlight.graph.open_sizes`); kernels take sizes as they come, whatever it is.
        backend: ``"inductor"`` (our own, as None is), another name of `list_backends`, or a
            function that is given a `GraphModule` of operators and example inputs, and gives
            a function.
        mode: one of PyTorch's; not together with ``options``. With ``"reduce-overhead"`` and
            ``"max-autotune"`` programs of a GPU are launched as one CUDA graph.
        options: a dict by PyTorch's names (``torch._inductor.list_options()``).
            ``triton.cudagraphs`` asks for these graphs; ``epilogue_fusion``, ``fuse`` and
            ``keep_prepared`` say how programs are built; the others are kept for PyTorch's
            programs. A backend that is a function is given them.
        disable: whether to give the model back as it is.

    Raises:
        RuntimeError: the backend, the mode or an option is unknown, an option is of
            another kind, or both mode and options are given.
        AssertionError: ``dynamic`` is neither a truth nor None.

    >>> import rushlight as rl
    >>> @rl.compile
    ... def area(radius):
    ...     return (radius * radius * rl.pi).sum()
    >>> area(rl.ones(2)).item() == area(rl.ones(2)).item()
    True
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at "
            "the same time."
        )
    if mode is not None and mode not in MODES:
        raise RuntimeError(
            f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}"
        )
    if dynamic is not None and not isinstance(dynamic, bool):
        raise AssertionError(f"Expected enable to be a bool, got {type(dynamic)}")
    given = {}
    if callable(backend):
        if mode not in (None, "default"):
            given["mode"] = mode
        if options:
            given["options"] = options
        backend = functools.partial(backend, **given) if given else backend
    built = {}
    if options and backend in (None, "inductor"):
        options = checked(options)
        built = settings(options)
        if options.get("triton.cudagraphs"):
            mode = "reduce-overhead"
    how = fullgraph, mode, built, dynamic
    if model is None:
        return lambda found: _compiled(found, backend, disable, *how)
    return _compiled(model, backend, disable, *how)


def _compiled(
    model,
    backend,
    disable=False,
    fullgraph=False,
    mode=None,
    built=None,
    dynamic=None,
):
    if model is None:
        raise RuntimeError("Model can't be None")
    if not callable(model):
        raise AssertionError(
            f"A callable function is expected, but {type(model)} is provided."
        )
    backend = find_backend(get_default_backend() if backend is None else backend)
    disable = disable or os.environ.get("TORCHDYNAMO_DISABLE") == "1"
    if disable or is_disabled(model):
        follow = None
    else:
        name = getattr(model, "__qualname__", type(model).__qualname__)
        chosen = custom_passes() if isinstance(backend, str) else backend
        follow = compiled_function.make_runner(
            name, fullgraph, chosen, mode, built, config, dynamic
        )
    if disable:
        return model
    if isinstance(model, Module):
        return OptimizedModule(model, follow)
    return CompiledFunction(model, follow, call)


PASSES = (
    "joint_custom_pre_pass",
    "joint_custom_post_pass",
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
)


def custom_passes():
    """The backend that has passes of somebody's own change graphs; None where there are none.

    The graphs run operator by operator then, as the passes leave them.
    """
    passes: list = []
    for name in PASSES:
        given = getattr(inductor, name)
        if given is not None:
            passes += given if isinstance(given, (list, tuple)) else [given]
    if not passes:
        return None

    def compiler(gm, example_inputs):
        for one in passes:
            one(gm.graph)
        gm.recompile()
        return gm.forward

    return aot_autograd(fw_compiler=compiler)


def call(runner, function, args, kwargs):
    """Calls a function as the settings of the moment ask for."""
    if runner is None or config.disable:
        return function(*args, **kwargs)
    if runner.backend is not None:
        runner.called_with(args, kwargs)
    if _ever_set:
        return call_by_stance(runner, function, args, kwargs)
    return run_followed(runner, function, args, kwargs, watch_back)


FROZEN = {"eager_on_recompile": "eager", "fail_on_recompile": "fail"}


def call_by_stance(runner, function, args, kwargs):
    """Calls a function as its thread's stance asks for: see `set_stance`."""
    stance, backend = current_stance(), current_backend()
    if stance == "force_eager":
        return function(*args, **kwargs)
    if stance.endswith("eager_then_compile"):
        runner.sights += 1
        if runner.sights == 1:
            return function(*args, **kwargs)
    if backend is not None:
        runner = runner.with_backend(backend)
    before = runner.frozen
    runner.frozen = FROZEN.get(stance)
    try:
        return run_followed(runner, function, args, kwargs, watch_back)
    finally:
        runner.frozen = before


def optimize(backend="inductor", *, nopython=False, **options):
    """A decorator that does what ``torch.compile`` does."""
    return lambda model: _compiled(model, backend, fullgraph=nopython)


def optimize_assert(backend, **options):
    """A decorator that does what ``torch.compile(fullgraph=True)`` does."""
    return optimize(backend, nopython=True)


def is_dynamo_supported():
    """Whether functions are compiled on this machine: they are on all.

    >>> is_dynamo_supported()
    True
    """
    return True


class ExportResult(NamedTuple):
    """What `export` gives.

    Attributes:
        graph_module: the program, which is called as the function was.
        guards: conditions on the arguments; the program checks them itself.
    """

    graph_module: object
    guards: set


def export(
    f, *extra_args, aten_graph=False, dynamic_shapes=None, tracing_mode="symbolic",
    decomposition_table=None, **extra_kwargs,
):  # fmt: skip
    """The program of a function: `torch.export.export` under its oldest name.

    Args:
        f: a function or a module; the result is called with its arguments.
        aten_graph: accepted: graphs are of operators either way.
        dynamic_shapes: as of ``torch.export.export``.
        tracing_mode: accepted.
        decomposition_table: what operators are taken apart into.

    >>> import rushlight as rl
    >>> program, guards = export(lambda x: x * 2)(rl.ones(2))
    >>> program(rl.ones(2))
    tensor([2., 2.])
    """

    def made(*args, **kwargs):
        module = f
        if not isinstance(f, Module):
            module = Module()
            module.forward = f
        program = exported(module, args, kwargs, dynamic_shapes=dynamic_shapes)
        if decomposition_table is not None:
            program = program.run_decompositions(decomposition_table)
        return ExportResult(program.module(), set())

    from rushlight.export import export as exported

    if extra_args or extra_kwargs:
        return made(*extra_args, **extra_kwargs)
    return made


def of_integers(module):
    """The layers of integers that a graph of rounded numbers is; None of other modules."""
    nodes = getattr(getattr(module, "graph", None), "nodes", ())
    if not any("quantized_decomposed" in str(node.target) for node in nodes):
        return None
    from rushlight._inductor.fx_passes.quantization import lowered

    return lowered(module)


class OptimizedModule(Module):
    """A module that stands before another, as compiled ones do.

    Its state has the other's names with ``_orig_mod.`` before them; other attributes are
    the other's own.
    """

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        self._orig_mod = mod
        self.training = mod.training
        self.__dict__["_runner"] = dynamo_ctx
        own = dynamo_ctx is not None and dynamo_ctx.backend is None
        self.__dict__["_integers"] = of_integers(mod) if own else None

    __call__ = CALL_MODULE

    def forward(self, *args, **kwargs):
        """The other module's result."""
        fields = self.__dict__
        module = fields["_modules"]["_orig_mod"]
        if fields["_integers"] is not None and not is_grad_enabled():
            module = fields["_integers"]
        return call(fields["_runner"], module, args, kwargs)

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

    def __reduce__(self):
        # what was captured stays behind: it is captured again
        return OptimizedModule._again, (self._orig_mod,)

    @staticmethod
    def _again(mod):
        return compile(mod)

    def __len__(self):
        return len(self._orig_mod)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._orig_mod)})
