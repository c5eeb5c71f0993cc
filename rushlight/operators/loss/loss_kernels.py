"""The negative log likelihood loss: kernels over ``(samples, classes, positions)``."""

from __future__ import annotations

from math import prod

from rushlight.codegen.loops import A, T, f64, loops
from rushlight.core.dtypes import int64, uint8
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators.loop_calls import (
    brief,
    fault_flag,
    filled,
    fresh,
    name_of,
    refuse_fault,
    run,
    run_whole,
    scalar_name,
)
from rushlight.operators.loss import label_losses
from rushlight.operators.operand_types import TYPE_NAMES

NONE, MEAN, SUM = 0, 1, 2


@loops
def nll_each(
    out: "T*",
    x: "T*",
    target: "i64*",
    weight: "T*",
    fault: "i64*",
    classes: int,
    inner: int,
    ignore: int,
    weighted: int,
    begin: int,
    end: int,
):
    """The loss of every target by itself."""
    for i in range(begin, end):
        label = target[i]
        loss = A(0)
        if label != ignore:
            if label < 0 or label >= classes:
                fault[0] = label
            else:
                loss = -A(x[(i // inner * classes + label) * inner + i % inner])
                if weighted:
                    loss = loss * A(weight[label])
        out[i] = T(loss)


@loops
def nll_total(
    out: "T*",
    total_weight: "T*",
    x: "T*",
    target: "i64*",
    weight: "T*",
    fault: "i64*",
    classes: int,
    inner: int,
    ignore: int,
    weighted: int,
    mean: int,
    begin: int,
    end: int,
):
    """The sum or weighted mean of all losses; summed in order, in double precision."""
    mass = f64(0)
    count = f64(0)
    for o in range(begin, end):
        for i in range(inner):
            label = target[o * inner + i]
            if label != ignore:
                if label < 0 or label >= classes:
                    fault[0] = label
                else:
                    w = f64(1)
                    if weighted:
                        w = f64(weight[label])
                    mass = mass - w * f64(x[(o * classes + label) * inner + i])
                    count = count + w
    if mean:
        out[0] = T(mass / count)
    else:
        out[0] = T(mass)
    total_weight[0] = T(count)


@loops
def nll_backward(
    grad_input: "T*",
    grad: "T*",
    target: "i64*",
    weight: "T*",
    total_weight: "T*",
    fault: "i64*",
    classes: int,
    inner: int,
    ignore: int,
    weighted: int,
    each: int,
    mean: int,
    begin: int,
    end: int,
):
    """Puts minus the (weighted, averaged) gradient at every sample's label."""
    for n in range(begin, end):
        for k in range(n * classes * inner, (n + 1) * classes * inner):
            grad_input[k] = T(0)
        for s in range(inner):
            label = target[n * inner + s]
            if label != ignore:
                if label < 0 or label >= classes:
                    fault[0] = label
                else:
                    g = A(0)
                    if each:
                        g = -A(grad[n * inner + s])
                    else:
                        g = -A(grad[0])
                    if weighted:
                        g = g * A(weight[label])
                    if mean:
                        g = g / A(total_weight[0])
                    grad_input[(n * classes + label) * inner + s] = T(g)


def _layout(operator, x, target, weight):
    """Checks the operands; returns samples, classes and places for each sample."""
    sizes, labels = tuple(x.shape), tuple(target.shape)
    if not sizes:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    single = len(sizes) == 1
    classes, samples = (sizes[0], 1) if single else (sizes[1], sizes[0])
    positions = sizes[2:]
    if not single and samples != (labels[0] if labels else None):
        raise ValueError(
            f"Expected input batch_size ({samples}) to match target batch_size"
            f" ({labels[0] if labels else 0})."
        )
    if target.dtype is not int64 and target.dtype is not uint8:
        raise RuntimeError(
            f"{operator}: expected target dtype to be int64 or uint8, but got"
            f" {name_of(target.dtype)}\n  target: {brief(target)}"
        )
    if single and len(labels) == 1 and labels[0] != 1:
        raise ValueError(
            "For 1D input, 1D target must have size 1, but got target size: "
            f"{labels[0]}"
        )
    if labels != (samples, *positions) and not (single and not labels):
        raise RuntimeError(
            f"{operator}: size mismatch (got input: {list(sizes)} , target:"
            f" {list(labels)})\n  self: {brief(x)}\n  target: {brief(target)}"
        )
    shaped = weight is None or weight.ndim == 1 or bool(positions)
    if weight is not None and not (shaped and weight.numel() == classes):
        raise RuntimeError(
            f"{operator}: weight tensor should be defined either for all {classes}"
            " classes or no classes but got weight tensor of shape:"
            f" {list(weight.shape)}"
        )
    if not x.is_floating_point():
        raise NotImplementedError(
            f"\"{operator}_out_frame\" not implemented for '{scalar_name(x.dtype)}'"
        )
    if weight is not None and weight.dtype is not x.dtype:
        raise RuntimeError(
            f"expected scalar type {scalar_name(x.dtype)} but found "
            f"{scalar_name(weight.dtype)}\n  weight: {brief(weight)}"
        )
    return samples, classes, prod(positions)


def _operands(target, weight):
    if target.dtype is not int64:
        target = target.to(int64)
    return target.contiguous(), None if weight is None else weight.contiguous()


def _no_class(label):
    """The error for a label that is no class."""
    return IndexError(f"Target {label} is out of bounds.")


def nll_loss_forward(self, target, weight, reduction, ignore_index):
    """The negative log likelihood of the targets, and the weight it was divided by.

    Args:
        self: log-probabilities ``(N, C)``, ``(C,)`` or ``(N, C, *positions)``.
        target: labels ``(N,)``, ``()`` or ``(N, *positions)``.
        reduction: 0 none, 1 mean, 2 sum.

    Raises:
        IndexError: a label is no class and isn't ``ignore_index``.
    """
    samples, classes, inner = _layout("nll_loss", self, target, weight)
    x, flag = self.contiguous(), fault_flag(self)
    shape = target.shape if self.ndim > 1 else ()
    target, weight = _operands(target, weight)
    types = {"T": name_of(x.dtype), "weighted": int(weight is not None)}
    if inner == 1:
        types["inner"] = 1
    ints = [classes, inner, ignore_index, types["weighted"]]
    if reduction == NONE:
        out, total = fresh(x, shape), filled(x, (), 0)
        operands = [out, x, target, weight, flag]
        run(nll_each, operands, ints, samples * inner, **types)
    else:
        out, total = fresh(x, ()), fresh(x, ())
        if samples * inner == 0:
            out.fill_(float("nan") if reduction == MEAN else 0.0)
            total.fill_(0.0)
        operands = [target, weight, flag]
        _total(x, out, total, operands, ints, int(reduction == MEAN), types)
    refuse_fault(flag, "nll_loss_forward", _no_class)
    return out, total


def _total_in_order(x, out, total, operands, ints, mean, types):
    """The sum or weighted mean of all losses, sample by sample."""
    ints, types = [*ints, mean], {**types, "mean": mean}
    samples = operands[0].numel() // ints[1] if ints[1] else 0
    run_whole(nll_total, [out, total, x, *operands], ints, samples, **types)


_total = KernelTable(cpu=_total_in_order, cuda=label_losses.total)


def _check_slopes(self, target, reduction, grad_output, total_weight):
    """What the gradient is made from fits the loss: the kernel reads it unlooked.

    Raises:
        RuntimeError: it does not.
    """
    found = list(grad_output.shape)
    if total_weight.numel() != 1:
        raise RuntimeError(
            "expected total_weight to be a  single element tensor, got: "
            f"{list(total_weight.shape)} ({total_weight.numel()} elements)"
        )
    if reduction == NONE and self.ndim > 1:
        if found != list(target.shape):
            raise RuntimeError(
                f"Expected a tensor of dimension {target.ndim} and tensor.size[0] == "
                f"{self.shape[0]} but got: dimension {len(found)} and "
                f"tensor.size[0] = {found[0] if found else 1}"
            )
    elif grad_output.numel() != 1:
        raise RuntimeError(
            f"Expected a single element grad_output tensor, but got: {found}"
        )
    for other in (grad_output, total_weight):
        if other.dtype is not self.dtype:
            raise RuntimeError(
                f"expected scalar type {TYPE_NAMES.get(self.dtype.name, self.dtype.name)} "
                f"but found {TYPE_NAMES.get(other.dtype.name, other.dtype.name)}"
            )


def nll_loss_backward(
    grad_output, self, target, weight, reduction, ignore_index, total_weight
):
    """The gradient of ``nll_loss_forward``'s loss for the log-probabilities."""
    _, classes, inner = _layout("nll_loss_backward", self, target, weight)
    _check_slopes(self, target, reduction, grad_output, total_weight)
    target, weight = _operands(target, weight)
    flag = fault_flag(self)
    types = {
        "T": name_of(self.dtype),
        "weighted": int(weight is not None),
        "each": int(reduction == NONE),
        "mean": int(reduction == MEAN),
    }
    ints = [
        classes,
        inner,
        ignore_index,
        types["weighted"],
        types["each"],
        types["mean"],
    ]
    operands = [grad_output.contiguous(), target, weight, total_weight, flag]
    grad_input = _gradients(self, operands, ints, types)
    refuse_fault(flag, "nll_loss_backward", _no_class)
    return grad_input


def _gradients_in_order(x, operands, ints, types):
    """The gradient of the log-probabilities, sample by sample."""
    grad_input, (classes, inner, *_) = fresh(x, x.shape), ints
    samples = operands[1].numel() // inner if inner else 0
    operands = [grad_input, *operands]
    run(nll_backward, operands, ints, samples, classes * inner, **types)
    return grad_input


_gradients = KernelTable(cpu=_gradients_in_order, cuda=label_losses.gradients)


def nll_loss2d_forward(self, target, weight, reduction, ignore_index):
    """``nll_loss_forward`` for ``(N, C, H, W)``."""
    return nll_loss_forward(self, target, weight, reduction, ignore_index)
