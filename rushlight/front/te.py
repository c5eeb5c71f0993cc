"""Tensor expressions, their schedules, and operators made of them.

    from rushlight import te

    x = te.placeholder((1024, 512), name="x")
    k = te.reduce_axis((0, 512), name="k")
    y = te.compute((1024,), lambda i: te.sum(x[i, k], axis=k), name="y")
    s = te.create_schedule(y)
    outer, inner = s[y].split(y.axis[0], factor=16)
    s[y].reorder(outer, k, inner)
    s[y].vectorize(inner)
    s[y].parallel(outer)
    print(te.lower(s, [x, y]))
    sums = te.build(s, [x, y])

Element functions (``exp``, ``tanh``, ``minimum``, ...) are those of
``rushlight.codegen.language``, of which the usual ones are here too.
"""

import inspect

from rushlight.codegen.language import (
    cast,
    ceil,
    cos,
    erf,
    exp,
    floor,
    log,
    maximum,
    minimum,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tanh,
    trunc,
)
from rushlight.codegen.language import select as if_then_else
from rushlight.core.factories import empty
from rushlight.dispatch.library import Library, find_operator
from rushlight.dispatch.rules_from_outside import register_vmap
from rushlight.tensor_expressions import cpu
from rushlight.tensor_expressions.batching import batch_schedule, batched
from rushlight.tensor_expressions.build import DTYPES, build
from rushlight.tensor_expressions.expressions import (
    Tensor,
    compute,
    intrinsic,
    max,
    min,
    placeholder,
    prod,
    reduce_axis,
    sum,
    var,
)
from rushlight.tensor_expressions.gradient import gradient, zeros
from rushlight.tensor_expressions.lower import lower
from rushlight.tensor_expressions.mma import mma
from rushlight.tensor_expressions.reducers import comm_reducer
from rushlight.tensor_expressions.schedule import Schedule, Stage, create_schedule

__all__ = [
    "Schedule",
    "Stage",
    "build",
    "cast",
    "ceil",
    "comm_reducer",
    "compute",
    "cos",
    "create_schedule",
    "erf",
    "exp",
    "floor",
    "gradient",
    "if_then_else",
    "intrinsic",
    "log",
    "lower",
    "max",
    "maximum",
    "min",
    "minimum",
    "mma",
    "operator",
    "placeholder",
    "prod",
    "reduce_axis",
    "rsqrt",
    "sigmoid",
    "sin",
    "sqrt",
    "sum",
    "tanh",
    "trunc",
    "var",
]

KEPT = 256  # kernels and shapes of an operator
_WORDS = {kind.__name__: kind.__name__ for kind in (int, float, bool)}
_WORDS |= {kind: kind.__name__ for kind in (int, float, bool)}


def operator(name, function, schedule=None):
    """Registers a tensor expression as an operator, for the host and NVIDIA devices.

    Shapes, dtypes, gradients and batches (`vmap`) follow from the expression; kernels are
    made for the shapes and dtypes of a call when they are first met.

    Args:
        name: of the operator, as ``"namespace::name"``.
        function: takes a `te.placeholder` for each tensor, then numbers (parameters that
            are annotated ``int``, ``float`` or ``bool``); returns a computed tensor.
        schedule: takes a schedule, the output, the placeholders, and the kind of device
            (``"cpu"``, ``"cuda"``), for one example of a batch; by default elements are
            divided among threads.

    Returns:
        the operator, which is ``torch.ops.namespace.name`` as well.

    Raises:
        ValueError: the name has no namespace.
        TypeError: the function returns something else than a computed tensor.

    >>> from rushlight import te
    >>> scaled = te.operator(
    ...     "doc_te::scaled",
    ...     lambda x, by: te.compute(x.shape, lambda i: x[i] * by[i], name="scaled"),
    ... )
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> scaled(x, torch.tensor([3.0, 4.0])).sum().backward()
    >>> x.grad
    tensor([3., 4.])
    """
    namespace, _, short = name.partition("::")
    if not short:
        raise ValueError(
            f"te.operator: {name} has no namespace: write namespace::{name}"
        )
    return _Made(namespace, short, function, schedule).operator


class _Made:
    """What is registered of one operator."""

    def __init__(self, namespace, name, function, schedule):
        self.namespace, self.name = namespace, name
        self.function, self.schedule = function, schedule
        rows = inspect.signature(function).parameters.values()
        self.numbers = [row.name for row in rows if row.annotation in _WORDS]
        self.tensors = [row.name for row in rows if row.name not in self.numbers]
        self.gradients: dict = {}
        self.batches: dict = {}
        self.kept: dict = {}
        self.library = Library(namespace, "FRAGMENT")
        written = [f"Tensor {n}" for n in self.tensors]
        for row in rows:
            if row.annotation in _WORDS:
                default = "" if row.default is row.empty else f"={row.default}"
                written.append(f"{_WORDS[row.annotation]} {row.name}{default}")
        self.library.define(f"{name}({', '.join(written)}) -> Tensor")
        for key in ("CPU", "CUDA", "Meta"):
            self.library.impl(name, self.run, key)
        self.operator = find_operator(name, namespace)
        register_vmap(self.operator, self.run_batch, lib=self.library)
        self.library.derivative(
            name, self.backward, saved=(*self.tensors, *self.numbers)
        )

    def described(self, facts, numbers):
        """The placeholders for tensors of some shapes and dtypes, and the output.

        Raises:
            TypeError: the function returns something else than a computed tensor.
        """
        pairs = zip(self.tensors, facts, strict=True)
        given = [placeholder(shape, dtype, label) for label, (shape, dtype) in pairs]
        output = self.function(*given, *numbers)
        if not isinstance(output, Tensor) or output.body is None:
            raise TypeError(
                f"te.operator: {self.namespace}::{self.name} returned {output!r}, which is "
                "no computed tensor"
            )
        return given, output

    def made(self, kind, facts, numbers):
        """The kernels for a kind of device; for ``"meta"`` the output's shape and dtype."""
        key = kind, facts, numbers
        found = self.kept.get(key)
        if found is None:
            found = self.make(*key)
            while len(self.kept) >= KEPT:
                del self.kept[next(iter(self.kept))]
            self.kept[key] = found
        return found

    def make(self, kind, facts, numbers):
        """What `made` keeps."""
        if kind == "meta":
            _, output = self.described(facts, numbers)
            return output.shape, DTYPES[output.dtype]
        s, given = self.scheduled(kind, facts, numbers)
        target = "llvm" if kind == "cpu" else "cuda"
        return build(s, [*given, *s.outputs], target, self.name)

    def scheduled(self, kind, facts, numbers):
        """The schedule for a kind of device, and the placeholders."""
        given, output = self.described(facts, numbers)
        s = create_schedule(output)
        if self.schedule is not None:
            self.schedule(s, output, given, kind)
        elif kind == "cpu":
            cpu.schedule(s)
        return s, given

    def run(self, *args):
        """The operator's value."""
        count = len(self.tensors)
        tensors, numbers = args[:count], args[count:]
        facts = tuple((tuple(t.shape), t.dtype.name) for t in tensors)
        shape, dtype = self.made("meta", facts, numbers)
        device = tensors[0].device
        out = empty(shape, dtype=dtype, device=device)
        if device.type != "meta" and out.numel():
            dense = [t.contiguous() for t in tensors]
            self.made(device.type, facts, numbers)(*dense, out)
        return out

    def backward(self, needs, grad, *args):
        """The gradients that are asked for, by operators made of the expression's gradients."""
        found = []
        for k in range(len(self.tensors)):
            wanted = needs >> k & 1
            found.append(self.gradient_of(k)(grad, *args) if wanted else None)
        return found[0] if len(found) == 1 else tuple(found)

    def plain_parameters(self):
        """The function's parameters, none of which is left out."""
        rows = inspect.signature(self.function).parameters.values()
        return [row.replace(default=row.empty) for row in rows]

    def run_batch(self, info, in_dims, *args):
        """The operator's values for a batch; see `register_vmap`."""
        which = tuple(n for n, dim in enumerate(in_dims) if dim is not None)
        moved = [
            a if dim is None else a.movedim(dim, 0) for a, dim in zip(args, in_dims)
        ]
        return self.batch_of(which)(*moved), 0

    def batch_of(self, which):
        """The operator for many examples at once, of tensors at some positions."""
        if which not in self.batches:

            def every(*args):
                args, given, count = list(args), [], None
                for n in which:
                    many = args[n]
                    count, *shape = many.shape
                    args[n] = placeholder(shape, many.dtype, many.name)
                    given.append((args[n], many))
                return batched(self.function(*args), given, count)

            every.__signature__ = inspect.Signature(self.plain_parameters())
            label = "_".join([self.name, "batch", *(self.tensors[n] for n in which)])
            self.batches[which] = _Batch(self, which, label, every).operator
        return self.batches[which]

    def gradient_of(self, k):
        """The operator that gives the gradient of one tensor."""
        if k not in self.gradients:
            plain = self.plain_parameters()
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            label = "grad_out"
            while label in self.tensors:
                label += "_out"
            seed = inspect.Parameter(label, kind)

            def adjoint(*args):
                return self.adjoint(k, *args)

            adjoint.__signature__ = inspect.Signature([seed, *plain])
            label = f"{self.name}_backward_{self.tensors[k]}"
            made = _Made(self.namespace, label, adjoint, None)
            self.gradients[k] = made.operator
        return self.gradients[k]

    def adjoint(self, k, seed, *args):
        """The expression of a gradient."""
        output = self.function(*args)
        found = gradient(output, seed, args[k])
        return zeros(args[k]) if found is None else found


class _Batch(_Made):
    """What is registered of an operator for many examples; its schedule is that of one."""

    def __init__(self, one, which, name, function):
        self.one, self.which = one, which
        super().__init__(one.namespace, name, function, one.schedule)

    def scheduled(self, kind, facts, numbers):
        """The schedule of one example, whose loops go over all."""
        if self.schedule is None:
            return super().scheduled(kind, facts, numbers)
        each, labels = list(facts), self.tensors
        for n in self.which:
            (count, *shape), dtype = facts[n]
            each[n] = tuple(shape), dtype
        s, given = self.one.scheduled(kind, tuple(each), numbers)
        many = {n: placeholder(*facts[n], labels[n]) for n in self.which}
        batch_schedule(s, [(given[n], many[n]) for n in self.which], count)
        return s, [many.get(n, one) for n, one in enumerate(given)]
