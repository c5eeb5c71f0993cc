"""Backends that count and keep graphs, for tests of programs that compile."""

from __future__ import annotations

from rushlight._dynamo.backends.common import aot_autograd
from rushlight._dynamo.backends.registry import lookup_backend
from rushlight._dynamo.utils import same
from rushlight.core.tensor import Tensor
from rushlight.operators import call as ops

__all__ = [
    "AotEagerAndRecordGraphs",
    "CompileCounter",
    "CompileCounterWithBackend",
    "EagerAndRecordGraphs",
    "InductorAndRecordGraphs",
    "collect_results",
    "dummy_fx_compile",
    "format_speedup",
    "normalize_gm",
    "rand_strided",
    "reduce_to_scalar_loss",
    "requires_bwd_pass",
    "reset_rng_state",
    "same",
]


class CompileCounter:
    """A backend that counts the graphs it is given, and the operators in them.

    >>> import rushlight as rl
    >>> counter = CompileCounter()
    >>> rl.compile(lambda x: (x * 2).sin(), backend=counter)(rl.zeros(1))
    tensor([0.])
    >>> counter.frame_count, counter.op_count
    (1, 2)
    """

    def __init__(self):
        self.frame_count = 0
        self.op_count = 0

    def __call__(self, gm, example_inputs):
        self.count(gm)
        return gm.forward

    def count(self, gm):
        """Counts a graph."""
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)

    def clear(self):
        """Begins at nothing again."""
        self.frame_count = 0
        self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same, before another backend; it keeps the graphs, too.

    Args:
        backend: the name of the other one.
    """

    def __init__(self, backend):
        super().__init__()
        self.backend = backend
        self.graphs: list = []

    def __call__(self, gm, example_inputs):
        self.count(gm)
        self.graphs.append(gm)
        found = lookup_backend(self.backend)
        return found(gm, example_inputs) if callable(found) else gm.forward

    def clear(self):
        """Begins at nothing again."""
        super().clear()
        self.graphs = []


class EagerAndRecordGraphs:
    """A backend that keeps graphs, and runs them as they are."""

    def __init__(self):
        self.graphs: list = []
        self.example_inputs: list = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        self.example_inputs.append(example_inputs)
        return gm.forward


class AotEagerAndRecordGraphs:
    """A backend that keeps graphs, and those of sweeps back apart."""

    def __init__(self):
        self.graphs: list = []
        self.fw_graphs: list = []
        self.bw_graphs: list = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        backend = aot_autograd(
            fw_compiler=keeping(self.fw_graphs), bw_compiler=keeping(self.bw_graphs)
        )
        return backend(gm, example_inputs)


class InductorAndRecordGraphs(EagerAndRecordGraphs):
    """A backend that keeps graphs; what it gives runs as they are."""


def keeping(graphs):
    """A compiler that keeps graphs in a list, and runs them as they are."""

    def compiler(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    return compiler


def normalize_gm(gm_str):
    """The text of a graph without its comments and the spaces at ends of lines.

    Args:
        gm_str: of ``print_readable(print_output=False)``.
    """
    lines = [line.partition("#")[0].rstrip() for line in gm_str.splitlines()]
    return "\n".join(line for line in lines if line)


def rand_strided(size, stride, dtype=None, device="cpu", extra_size=0):
    """A tensor of random numbers with given strides.

    Args:
        size: the sizes.
        stride: the strides, in elements.
        extra_size: elements of its storage beyond those it needs.

    >>> rand_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    reach = sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    needed = reach + 1 + extra_size if all(size) else extra_size
    kind = ops.empty([0], dtype=dtype).dtype
    if kind.is_floating_point or kind.is_complex:
        values = ops.randn([needed], dtype=dtype, device=device)
    else:
        values = ops.randint(0, 2, [needed], dtype=dtype, device=device)
    return ops.as_strided(values, list(size), list(stride))


def reset_rng_state(use_xla=False):
    """Sets all streams of random numbers to one beginning."""
    from rushlight import manual_seed

    manual_seed(1337)


def dummy_fx_compile(gm, example_inputs):
    """A backend that runs a graph as it is."""
    return gm.forward


def format_speedup(speedup, pvalue, is_correct=True, pvalue_threshold=0.1):
    """A measured speed as text.

    Args:
        speedup: how many times as fast.
        pvalue: how likely the difference is chance.
        is_correct: whether the results were right.
        pvalue_threshold: from here on there is no difference.

    >>> format_speedup(1.5, 0.01), format_speedup(1.1, 0.5), format_speedup(1, 0, False)
    ('1.500x p=0.01', '1.100x SAME', 'ERROR')
    """
    if not is_correct:
        return "ERROR"
    said = "SAME" if pvalue > pvalue_threshold else f"p={pvalue:.2f}"
    return f"{speedup:.3f}x {said}"


def reduce_to_scalar_loss(out):
    """One number of a model's results, to go back from: the mean of each, and of those.

    Args:
        out: a tensor, or sequences and dicts of them.

    Raises:
        NotImplementedError: it is something else.

    >>> import rushlight as rl
    >>> reduce_to_scalar_loss([rl.ones(3), {"a": rl.zeros(2)}])
    tensor(0.5000)
    """
    if isinstance(out, Tensor):
        return out.sum() / out.numel()
    if isinstance(out, (list, tuple)):
        return sum(map(reduce_to_scalar_loss, out)) / len(out)
    if isinstance(out, dict):
        return reduce_to_scalar_loss(list(out.values()))
    if hasattr(out, "logits"):
        return reduce_to_scalar_loss(out.logits)
    raise NotImplementedError("Don't know how to reduce", type(out))


def requires_bwd_pass(out):
    """Whether something among results wants gradients.

    Args:
        out: tensors, sequences of them, numbers, or None.
    """
    if isinstance(out, (list, tuple)):
        return any(map(requires_bwd_pass, out))
    return isinstance(out, Tensor) and out.requires_grad


def collect_results(model, prediction, loss, example_inputs):
    """All that a training step has made, in one list that `same` compares.

    Args:
        model: the module: its gradients (zero where there are none), parameters and buffers.
        prediction: its results.
        loss: the loss.
        example_inputs: its arguments, whose gradients are taken, too.
    """
    named = {
        name.removeprefix("_orig_mod."): one for name, one in model.named_parameters()
    }
    grads = {
        f"{name}.grad": ops.zeros_like(one) if one.grad is None else one.grad
        for name, one in named.items()
    }
    buffers = {
        name.removeprefix("_orig_mod."): one for name, one in model.named_buffers()
    }
    given = []
    for one in example_inputs:
        given += one if isinstance(one, (list, tuple)) else [one]
    inputs = [one.grad for one in given if isinstance(one, Tensor)]
    return [prediction, loss, grads, named, buffers, *inputs]
