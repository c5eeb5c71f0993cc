"""Checks of gradients against finite differences."""

import itertools
import warnings

from rushlight.autograd._gradcheck_parts import (
    as_tuple,
    differentiable,
    parts_of,
    random_like,
    unit_of,
)
from rushlight.autograd._gradcheck_sparse import is_sparse, on_dense_inputs
from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import enable_grad
from rushlight.autograd.methods import grad
from rushlight.core.dtypes import complex128, float64
from rushlight.core.facts import with_requires_grad
from rushlight.core.layout import strided
from rushlight.core.tensor import Tensor
from rushlight.operators import call
from rushlight.operators.functions import tensor as make_tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """Raised by ``gradcheck`` and ``gradgradcheck`` where a gradient is wrong."""


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """Compare ``func``'s gradients with central differences; True where they agree.

    Every input that requires a gradient should be float64: in float32 the differences
    are mostly rounding.

    Args:
        func: takes the inputs, returns a tensor or a tuple of them.
        inputs: a tensor or a tuple; those that require a gradient are checked.
        eps: half the width of a difference.
        atol, rtol: tolerances of the comparison.
        raise_exception: raise GradcheckError where the check fails, else return False.
        nondet_tol: how far two runs of the same backward may differ.
        check_undefined_grad: also check that a missing gradient counts as zero.
        check_grad_dtypes: also check that gradients have their inputs' dtypes.
        check_batched_grad: also take a batch of gradients at once, and compare.
        check_batched_forward_grad: the same for a batch of tangents.
        check_forward_ad: also check forward mode.
        check_backward_ad: check reverse mode at all.
        fast_mode: compare one random projection of the Jacobian, not all of it.
        masked: of sparse inputs, vary only the elements that are written down.

    Raises:
        AssertionError: the shape or type of the output changes, or options contradict.
        AttributeError, RuntimeError, ValueError: inputs or outputs are not comparable.
        GradcheckError: the gradients are wrong.

    >>> import rushlight as rl
    >>> x = rl.tensor([0.5, 2.0], dtype=rl.float64, requires_grad=True)
    >>> rl.autograd.gradcheck(lambda x: x.exp(), (x,))
    True
    """
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    inputs = as_tuple(inputs)
    if any(map(is_sparse, inputs)):
        func, inputs = on_dense_inputs(func, inputs, bool(masked))
    check = _Check(func, inputs, eps, atol, rtol, nondet_tol, check_grad_dtypes)
    try:
        check.inspect_inputs()
        if check_backward_ad:
            check.run(fast_mode)
            check.check_multiplied()
            if check_undefined_grad:
                check.check_undefined()
            if check_batched_grad:
                check.check_batches()
        if check_forward_ad:
            check.check_forward()
            if check_batched_forward_grad:
                check.check_forward_batches()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """Compare the gradients of ``func``'s gradients with central differences.

    The other arguments are those of ``gradcheck``.

    Args:
        grad_outputs: where the first backward starts; random where left out.
        gen_non_contig_grad_outputs: make the random ones strided.
        check_fwd_over_rev: check forward over reverse mode, too.
        check_rev_over_rev: check reverse over reverse mode at all.

    >>> import rushlight as rl
    >>> x = rl.ones(2, dtype=rl.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: x**3, (x,))
    True
    """
    inputs = as_tuple(inputs)
    if grad_outputs is None:
        outputs = differentiable(func(*inputs))
        grad_outputs = tuple(
            random_like(out, gen_non_contig_grad_outputs) for out in outputs
        )
    grad_outputs = as_tuple(grad_outputs)
    count = len(grad_outputs)

    @enable_grad()
    def gradients(*args):
        given, starts = args[:-count], args[-count:]
        wanted = tuple(
            one for one in given if isinstance(one, Tensor) and one.requires_grad
        )
        outputs = differentiable(func(*given))
        return grad(
            outputs,
            wanted,
            starts,
            create_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )

    options = {
        "eps": eps,
        "atol": atol,
        "rtol": rtol,
        "raise_exception": raise_exception,
        "nondet_tol": nondet_tol,
        "fast_mode": fast_mode,
        "masked": masked,
    }
    passed = True
    if check_rev_over_rev:
        passed = gradcheck(
            gradients,
            inputs + grad_outputs,
            check_undefined_grad=check_undefined_grad,
            check_grad_dtypes=check_grad_dtypes,
            check_batched_grad=check_batched_grad,
            **options,
        )
    if passed and check_fwd_over_rev:
        passed = gradcheck(
            _pulled_back(func, inputs, count),
            inputs + grad_outputs,
            check_backward_ad=False,
            check_forward_ad=True,
            **options,
        )
    return passed


def _pulled_back(func, inputs, count):
    """The gradients as a function whose own calls forward mode can follow."""
    from rushlight.func._gradients import vjp

    wanted = [
        i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad
    ]
    kept = [
        isinstance(out, Tensor) and out.requires_grad for out in as_tuple(func(*inputs))
    ]

    def gradients(*args):
        given, starts = list(args[:-count]), args[-count:]

        def part(*variables):
            for i, variable in zip(wanted, variables):
                given[i] = variable
            outputs = as_tuple(func(*given))
            return tuple(out for out, keep in zip(outputs, kept) if keep)

        _value, pull = vjp(part, *[args[i] for i in wanted])
        return pull(tuple(starts))

    return gradients


class _Undefined(Function):
    """Passes its input on, and no gradient back."""

    @staticmethod
    def forward(ctx, tensor):
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, grad_output):
        return None


class _Check:
    """One call of gradcheck."""

    def __init__(self, func, inputs, eps, atol, rtol, nondet_tol, check_dtypes):
        self.func = func
        self.inputs = inputs
        self.eps = eps
        self.atol = atol
        self.rtol = rtol
        self.nondet_tol = nondet_tol
        self.check_dtypes = check_dtypes
        self.checked = [
            (i, one)
            for i, one in enumerate(inputs)
            if isinstance(one, Tensor) and one.requires_grad
        ]

    def inspect_inputs(self):
        if not self.checked:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but "
                "none of them have requires_grad=True."
            )
        for i, one in self.checked:
            if one.dtype not in (float64, complex128):
                warnings.warn(
                    f"Input #{i} requires gradient and is not a double precision "
                    "floating point or complex. This check will likely fail if all the "
                    "inputs are not of double precision floating point or complex.",
                    stacklevel=4,
                )
            dims = zip(one.shape, one.stride())
            if any(step == 0 and size > 1 for size, step in dims):
                raise RuntimeError(
                    f"The {i}th input has a dimension with stride 0. gradcheck only "
                    "supports inputs that are non-overlapping to be able to compute "
                    "the numerical gradients correctly. You should call .contiguous on "
                    "the input before passing it to gradcheck."
                )

    def run(self, fast):
        outputs = as_tuple(self.func(*self.inputs))
        self.inspect_outputs(outputs)
        if not differentiable(outputs):
            self.expect_zero()
            return
        for place in range(len(outputs)):
            # computed anew: the differences of the last output changed the inputs
            output = as_tuple(self.func(*self.inputs))[place]
            if not isinstance(output, Tensor) or not output.requires_grad:
                continue
            if output.shape != outputs[place].shape and self.stays(output.shape, place):
                raise RuntimeError(
                    f"The expanded size of the tensor {tuple(outputs[place].shape)} must "
                    f"match the existing size {tuple(output.shape)}: output {place} of "
                    "the function had another shape in the first call"
                )
            if fast:
                self.compare_projections(output, place)
            else:
                self.compare_jacobians(output, place)

    def stays(self, shape, place):
        """Whether an output has a shape once more; else its differences say what is wrong."""
        return as_tuple(self.func(*self.inputs))[place].shape == shape

    def inspect_outputs(self, outputs):
        for output in outputs:
            if not isinstance(output, Tensor):
                raise AttributeError(
                    f"{type(output).__name__!r} object has no attribute 'requires_grad': "
                    "gradcheck compares gradients of tensors only"
                )
            if output.layout is not strided:
                raise ValueError(
                    "Sparse output is not supported at gradcheck yet. Please call "
                    "to_dense(masked_grad=...) on the output of fn for gradcheck."
                )

    def expect_zero(self):
        """Where nothing requires a gradient, nothing may depend on the inputs."""
        for _i, one in self.checked:
            for place in range(len(self.values())):
                if bool((self.numerical(one, place) != 0).any()):
                    raise GradcheckError(
                        "Numerical gradient for function expected to be zero"
                    )

    # -- all of the Jacobian ---------------------------------------------------

    def compare_jacobians(self, output, place):
        found = self.analytical(output)
        self.compare_runs(found, self.analytical(output))
        for (i, one), analytical in zip(self.checked, found):
            numerical = self.numerical(one, place)
            if not self.close(analytical, numerical):
                raise GradcheckError(
                    f"Jacobian mismatch for output {place} with respect to input {i},\n"
                    f"numerical:{numerical}\nanalytical:{analytical}\n"
                )

    def compare_runs(self, first, second):
        for one, other in zip(first, second):
            if one.numel() and (one - other).abs().max().item() > self.nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input "
                    "and grad_output multiple times gives different values, although "
                    "analytical gradient matches numerical gradient. The tolerance for "
                    f"nondeterminism was {self.nondet_tol}."
                )

    def analytical(self, output):
        """The Jacobian by each input, transposed: inputs down, outputs across."""
        columns = [[] for _ in self.checked]
        for i in range(parts_of(output.detach()).numel()):
            gradients = self.pull(output, unit_of(output, i))
            for column, value in zip(columns, gradients):
                column.append(parts_of(value))
        return [
            call.stack(column, 1)
            if column
            else call.zeros(parts_of(one.detach()).numel(), 0)
            for column, (_i, one) in zip(columns, self.checked)
        ]

    def pull(self, output, start):
        """Gradients by the checked inputs, zeros where there is none."""
        found = grad(
            output,
            [one for _i, one in self.checked],
            start,
            retain_graph=True,
            allow_unused=True,
        )
        for value, (_i, one) in zip(found, self.checked):
            if value is not None:
                self.check_kind(value, one)
        return [
            call.zeros_like(one) if value is None else value.detach()
            for value, (_i, one) in zip(found, self.checked)
        ]

    def check_kind(self, value, one):
        if value.shape != one.shape:
            raise GradcheckError("Analytical gradient has incorrect size")
        if self.check_dtypes and value.dtype != one.dtype:
            raise GradcheckError("Analytical gradient has incorrect dtype")

    def values(self):
        """The outputs for the inputs as they are now, without history.

        The function runs with the caller's mode: it may take gradients itself.
        """
        outputs = as_tuple(self.func(*self.inputs))
        return [out.detach().clone() for out in outputs if isinstance(out, Tensor)]

    def numerical(self, one, place):
        """Central differences of an output by an input, laid out as ``analytical``."""
        rows = []
        for index in itertools.product(*[range(size) for size in one.shape]):
            element = one.detach()[index]
            for step in (1, 1j) if one.is_complex() else (1,):
                rows.append(parts_of(self.difference(element, place, step, index)))
        if not rows:
            width = parts_of(self.values()[place]).numel()
            return call.zeros(0, width, dtype=one.dtype.to_real())
        return call.stack(rows, 0)

    def difference(self, element, place, step, index):
        """The change of an output per change of one element, which is put back."""
        middle = element.item()
        ends = []
        for end in (middle - self.eps * step, middle + self.eps * step):
            element.fill_(end)
            ends.append(self.values()[place])
        element.fill_(middle)
        self.expect_alike(ends, f" on index {index}")
        return (ends[1] - ends[0]) / (2 * self.eps)

    def expect_alike(self, ends, where=""):
        """Refuses outputs whose shape or type changed with the inputs."""
        for what in ("shape", "dtype"):
            before, after = (getattr(end, what) for end in ends)
            if before != after:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs "
                    f"are perturbed{where} by {self.eps}, but got: {what}s {before} and "
                    f"{after}."
                )

    def close(self, found, expected):
        expected = expected.to(found.dtype)
        limit = expected.abs() * self.rtol + self.atol
        same_nan = found.isnan() & expected.isnan()
        return bool((((found - expected).abs() <= limit) | same_nan).all())

    # -- one projection of it --------------------------------------------------

    def compare_projections(self, output, place):
        """``v J u`` both ways, for random ``u`` and ``v``, input by input."""
        import random

        source = random.Random(0)
        start = _random_direction(output, source)
        found = self.pull(output, start)
        for (i, one), value in zip(self.checked, found):
            direction = _random_direction(one, source)
            analytical = (parts_of(value) * parts_of(direction)).sum()
            moved = self.along(one, direction, place)
            numerical = (parts_of(moved) * parts_of(start)).sum()
            if not self.close(analytical, numerical):
                raise GradcheckError(
                    f"Jacobian mismatch for output {place} with respect to input {i},\n"
                    f"numerical:{numerical}\nanalytical:{analytical}\n"
                    "The above quantities relating the numerical and analytical "
                    "jacobians are computed in fast mode; run again with "
                    "fast_mode=False to see the whole Jacobian."
                )

    def along(self, one, direction, place):
        middle = one.detach().clone()
        ends = []
        for step in (-self.eps, self.eps):
            one.detach().copy_(middle + direction * step)
            ends.append(self.values()[place])
        one.detach().copy_(middle)
        self.expect_alike(ends)
        return (ends[1] - ends[0]) / (2 * self.eps)

    # -- forward mode ------------------------------------------------------------

    def push(self, which, direction):
        """The outputs' tangents along a direction of one input; None for zero."""
        from rushlight.autograd import forward_ad

        with forward_ad.dual_level():
            inputs = [
                with_requires_grad(one.detach(), one.requires_grad)
                if isinstance(one, Tensor)
                else one
                for one in self.inputs
            ]
            inputs[which] = forward_ad.make_dual(inputs[which], direction)
            outputs = as_tuple(self.func(*inputs))
            found = [
                forward_ad.unpack_dual(out).tangent
                for out in outputs
                if isinstance(out, Tensor)
            ]
            return [None if t is None else t.detach() for t in found]

    def check_forward(self):
        """Each direction's tangents against the differences."""
        values = self.values()
        for i, one in self.checked:
            rows = [
                self.push(i, unit_of(one, k))
                for k in range(parts_of(one.detach()).numel())
            ]
            for place, value in enumerate(values):
                if not (value.is_floating_point() or value.is_complex()):
                    continue
                numerical = self.numerical(one, place)
                found = [
                    parts_of(
                        call.zeros_like(value) if row[place] is None else row[place]
                    )
                    for row in rows
                ]
                if found and not self.close(call.stack(found, 0), numerical):
                    raise GradcheckError(
                        f"Jacobian computed with forward mode mismatch for output {place} "
                        f"with respect to input {i},\nnumerical:{numerical}\n"
                        f"analytical:{call.stack(found, 0)}\n"
                    )

    def check_forward_batches(self):
        """A batch of directions against one after another."""
        from rushlight.func._batches import vmap

        for i, one in self.checked:
            some = call.stack([random_like(one, False).detach() for _ in range(2)])
            values = self.values()

            def tangents(direction, i=i, values=values):
                found = self.push(i, direction)
                return tuple(
                    call.zeros_like(value) if t is None else t
                    for t, value in zip(found, values)
                )

            expected = [tangents(direction) for direction in some]
            for place, found in enumerate(vmap(tangents)(some)):
                self.compare_batch(found, [row[place] for row in expected], "forward")

    def check_batches(self):
        """A batch of gradients against one after another."""
        outputs = differentiable(self.func(*self.inputs))
        inputs = [one for _i, one in self.checked]
        for output in outputs:
            some = call.stack([random_like(output, False).detach() for _ in range(2)])
            expected = [self.pull(output, start) for start in some]
            found = grad(
                output,
                inputs,
                some,
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
            for at, value in enumerate(found):
                if value is not None:
                    self.compare_batch(value, [row[at] for row in expected], "backward")

    def compare_batch(self, found, expected, mode):
        expected = call.stack(expected)
        if not self.close(parts_of(found.detach()), parts_of(expected)):
            raise GradcheckError(
                f"While computing batched gradients in {mode} mode, got values that "
                f"differ from those computed one by one:\n{found}\nnot {expected}"
            )

    # -- missing gradients -----------------------------------------------------

    def is_moved_by_zeros(self, of_outputs):
        """Whether gradients of zero, past ``of_outputs`` each output, give others."""
        outputs = differentiable(self.func(*self.inputs))
        if not outputs:
            return False
        found = grad(
            [of_outputs(out) for out in outputs],
            [one for _i, one in self.checked],
            [call.zeros_like(out) for out in outputs],
            allow_unused=True,
        )
        return any(value is not None and bool((value != 0).any()) for value in found)

    def check_multiplied(self):
        """A gradient of zero must give one of zero."""
        if self.is_moved_by_zeros(lambda out: out):
            raise GradcheckError("backward not multiplied by grad_output")

    def check_undefined(self):
        """A gradient that does not arrive must count as zero."""
        if self.is_moved_by_zeros(_Undefined.apply):
            raise GradcheckError(
                "Expected backward function to handle undefined output grads: a "
                "missing gradient gave one that is not zero"
            )


def _random_direction(like, source):
    """A random tensor of length one."""
    count = like.numel() * (2 if like.is_complex() else 1)
    values = [source.uniform(-1, 1) for _ in range(count)]
    made = make_tensor(values, dtype=like.dtype.to_real())
    made = made / (made * made).sum().sqrt() if values else made
    if like.is_complex():
        made = call.view_as_complex(made.reshape(-1, 2))
    return made.reshape(like.shape)
