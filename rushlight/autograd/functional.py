"""Jacobians, Hessians and their products with vectors, of Python functions."""

from rushlight.autograd.grad_mode import enable_grad
from rushlight.autograd.methods import grad
from rushlight.core.docstrings import describe_arguments
from rushlight.core.tensor import Tensor
from rushlight.operators import call

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


OUTPUTS = "outputs of the user-provided function"


def _as_tensors(value, what, where):
    """``(was a tuple, tuple of tensors)``."""
    several = isinstance(value, tuple)
    values = value if several else (value,)
    for i, one in enumerate(values):
        if not isinstance(one, Tensor):
            place = f"the value at index {i}" if several else f"the given {what}"
            raise TypeError(
                f"The {what} given to {where} must be either a Tensor or a tuple of "
                f"Tensors but {place} has type {type(one)}."
            )
    return several, values


def _prepared(inputs, create_graph):
    """Inputs to differentiate by: fresh leaves, or views that keep their history."""
    return tuple(
        one.view_as(one)
        if create_graph and one.requires_grad
        else one.detach().requires_grad_()
        for one in inputs
    )


def _finish(values, create_graph):
    if create_graph:
        return values
    return tuple(value.detach() for value in values)


def _given_or_ones(v, outputs, where):
    if v is not None:
        several, v = _as_tensors(v, "v", where)
        if len(v) != len(outputs):
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(outputs)} but got "
                f"{len(v)}."
            )
        for i, (one, output) in enumerate(zip(v, outputs)):
            if one.shape != output.shape:
                raise RuntimeError(
                    f"{f'Entry {i} in v' if several else 'v'} has invalid size: should be "
                    f"{output.shape} but got {one.shape}."
                )
        return v
    if len(outputs) != 1 or outputs[0].numel() != 1:
        raise RuntimeError(
            "The vector v can only be None if the user-provided function returns a "
            "single Tensor with a single element."
        )
    return (call.ones_like(outputs[0]),)


def _gradients(outputs, inputs, grad_outputs=None, create_graph=False, strict=None):
    """Gradients with zeros for what does not depend; an error instead where strict."""
    wanted = [
        (out, None if grad_outputs is None else grad_outputs[i])
        for i, out in enumerate(outputs)
        if out.requires_grad
    ]
    if strict and len(wanted) != len(outputs):
        raise RuntimeError(
            f"{strict}: an output of the user-provided function does not require "
            "gradients. The outputs must be computed in a differentiable manner from "
            "the input when running in strict mode."
        )
    if not wanted:
        return tuple(call.zeros_like(one) for one in inputs)
    found = grad(
        [out for out, _ in wanted],
        inputs,
        [given for _, given in wanted],
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
    )
    if strict and any(one is None for one in found):
        raise RuntimeError(
            f"{strict}: an output of the user-provided function is independent of an "
            "input. This is not allowed in strict mode."
        )
    return tuple(
        call.zeros_like(one) if value is None else value
        for value, one in zip(found, inputs)
    )


def _packed(values, several):
    return tuple(values) if several else values[0]


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """``func(*inputs)`` and the product of ``v`` with its Jacobian.

    Args:
        func: takes tensors, returns a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        v: a vector for each output; may be left out for a scalar function.
        create_graph: make the results differentiable.
        strict: raise where an output does not depend on an input.

    >>> vjp(lambda x: x**2, rl.tensor([1.0, 2.0]), rl.tensor([1.0, 1.0]))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        several, inputs = _as_tensors(inputs, "inputs", "vjp")
        inputs = _prepared(inputs, create_graph)
        many, outputs = _as_tensors(func(*inputs), OUTPUTS, "vjp")
        v = _given_or_ones(v, outputs, "vjp")
        found = _gradients(outputs, inputs, v, create_graph, "vjp" if strict else None)
    return (
        _packed(_finish(outputs, create_graph), many),
        _packed(_finish(found, create_graph), several),
    )


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """``func(*inputs)`` and the product of its Jacobian with ``v``.

    Differentiates the vector-Jacobian product once more. Arguments as in ``vjp``,
    ``v`` having the shapes of the inputs.

    >>> jvp(lambda x: x**2, rl.tensor([1.0, 2.0]), rl.tensor([1.0, 0.0]))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    with enable_grad():
        _several, inputs = _as_tensors(inputs, "inputs", "jvp")
        inputs = _prepared(inputs, create_graph)
        v = _given_or_ones(v, inputs, "jvp")
        many, outputs = _as_tensors(func(*inputs), OUTPUTS, "jvp")
        dummies = tuple(call.zeros_like(out, requires_grad=True) for out in outputs)
        pulled = _gradients(outputs, inputs, dummies, True, "jvp" if strict else None)
        pushed = _gradients(pulled, dummies, v, create_graph)
    return (
        _packed(_finish(outputs, create_graph), many),
        _packed(_finish(pushed, create_graph), many),
    )


def jacobian(
    func,
    inputs,
    create_graph=False,
    strict=False,
    vectorize=False,
    strategy="reverse-mode",
):
    """The Jacobian of ``func``: for each output and input, shape ``output + input``.

    Args:
        func: takes tensors, returns a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        create_graph: make the result differentiable.
        strict: raise where an output does not depend on an input.
        vectorize: compute all rows at once.
        strategy: "reverse-mode", or "forward-mode" with ``vectorize``.

    Raises:
        ValueError: the strategy has another name.
        NotImplementedError: forward mode without ``vectorize``.
        RuntimeError: ``strict`` together with ``vectorize`` or forward mode.

    >>> jacobian(lambda x: x**2, rl.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If '
            'your function has more outputs than inputs, "forward-mode" tends to be more '
            'performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, strict, vectorize)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are "
            "not supported together. Please either set `strict=False` or "
            "`vectorize=False`."
        )
    with enable_grad():
        several, inputs = _as_tensors(inputs, "inputs", "jacobian")
        inputs = _prepared(inputs, create_graph)
        many, outputs = _as_tensors(func(*inputs), OUTPUTS, "jacobian")
        rows = _rows_at_once if vectorize else _rows
        blocks = [
            rows(out, inputs, create_graph, "jacobian" if strict else None)
            for out in outputs
        ]
    shown = tuple(_packed(_finish(block, create_graph), several) for block in blocks)
    return _packed(shown, many)


def _forward_jacobian(func, inputs, create_graph, strict, vectorize):
    if strict:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and "
            '`strategy="forward-mode"` are not supported together (yet). Please either '
            'set `strict=False` or `strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
            "implemented for `vectorize=True`."
        )
    if create_graph:
        raise NotImplementedError(
            "torch.autograd.functional.jacobian: `create_graph=True` and "
            '`strategy="forward-mode"` are not supported together (yet).'
        )
    from rushlight.func._gradients import jacfwd

    several, tensors = _as_tensors(inputs, "inputs", "jacobian")
    tensors = tuple(one.detach() for one in tensors)
    found = jacfwd(func, argnums=tuple(range(len(tensors))))(*tensors)
    if several:
        return found
    many = isinstance(found[0], tuple)
    return tuple(row[0] for row in found) if many else found[0]


def _rows_at_once(output, inputs, create_graph, strict):
    """The same for all rows together."""
    if not output.requires_grad:
        return tuple(one.new_zeros((*output.shape, *one.shape)) for one in inputs)
    n = output.numel()
    starts = call.eye(n, dtype=output.dtype, device=output.device)
    starts = starts.reshape(n, *output.shape)
    found = grad(
        (output,),
        inputs,
        (starts,),
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
        is_grads_batched=True,
    )
    return tuple(
        one.new_zeros((*output.shape, *one.shape))
        if value is None
        else value.reshape((*output.shape, *one.shape))
        for one, value in zip(inputs, found)
    )


def _rows(output, inputs, create_graph, strict):
    """The Jacobian of one output by each input."""
    flat = output.reshape(-1)
    columns = [[] for _ in inputs]
    for i in range(flat.numel()):
        row = _gradients((flat[i],), inputs, None, create_graph, strict)
        for column, value in zip(columns, row):
            column.append(value)
    return tuple(
        call.stack(column).reshape(tuple(output.shape) + tuple(one.shape))
        if column
        else one.new_zeros(tuple(output.shape) + tuple(one.shape))
        for column, one in zip(columns, inputs)
    )


def _require_scalar(outputs, where):
    if len(outputs) != 1:
        raise RuntimeError(
            f"The function given to {where} should return a single Tensor"
        )
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {where} should contain a "
            "single element"
        )


def hessian(
    func,
    inputs,
    create_graph=False,
    strict=False,
    vectorize=False,
    outer_jacobian_strategy="reverse-mode",
):
    """The Hessian of a scalar function: for each pair of inputs, their shapes joined.

    Arguments as in ``jacobian``.

    Args:
        vectorize: whether all rows are computed at once, by vmap.
        outer_jacobian_strategy: ``"reverse-mode"`` or, with ``vectorize``,
            ``"forward-mode"``.

    >>> hessian(lambda x: (x**3).sum(), rl.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    several, tensors = _as_tensors(inputs, "inputs", "hessian")
    if outer_jacobian_strategy == "forward-mode":
        return _forward_hessian(func, tensors, several, create_graph, strict)

    def gradient(*args):
        _many, outputs = _as_tensors(func(*args), OUTPUTS, "hessian")
        _require_scalar(outputs, "hessian")
        return _gradients(
            (outputs[0].reshape(()),), args, None, True, "hessian" if strict else None
        )

    rows = jacobian(
        gradient, tensors, create_graph, strict, vectorize, outer_jacobian_strategy
    )
    if several:
        return rows
    return rows[0][0]


def _forward_hessian(func, inputs, several, create_graph, strict):
    """Forward over reverse mode."""
    if strict or create_graph:
        raise RuntimeError(
            'hessian: `outer_jacobian_strategy="forward-mode"` takes neither '
            "`strict=True` nor `create_graph=True`"
        )
    from rushlight.func._gradients import hessian as transformed

    def scalar(*args):
        _many, outputs = _as_tensors(func(*args), OUTPUTS, "hessian")
        _require_scalar(outputs, "hessian")
        return outputs[0].reshape(())

    inputs = tuple(one.detach() for one in inputs)
    rows = transformed(scalar, argnums=tuple(range(len(inputs))))(*inputs)
    return rows if several else rows[0][0]


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """``func(*inputs)`` and the product of its Hessian with ``v``.

    >>> hvp(lambda x: (x**3).sum(), rl.tensor([1.0, 2.0]), rl.tensor([1.0, 0.0]))
    (tensor(9.), tensor([6., 0.]))
    """
    return _second_product(func, inputs, v, create_graph, strict, "hvp")


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """``func(*inputs)`` and the product of ``v`` with its Hessian.

    >>> vhp(lambda x: (x**3).sum(), rl.tensor([1.0, 2.0]), rl.tensor([1.0, 0.0]))
    (tensor(9.), tensor([6., 0.]))
    """
    return _second_product(func, inputs, v, create_graph, strict, "vhp")


def _second_product(func, inputs, v, create_graph, strict, where):
    """Both products at once, as a Hessian is symmetric."""
    with enable_grad():
        several, inputs = _as_tensors(inputs, "inputs", where)
        inputs = _prepared(inputs, create_graph)
        v = _given_or_ones(v, inputs, where)
        _many, outputs = _as_tensors(func(*inputs), OUTPUTS, where)
        _require_scalar(outputs, where)
        check = where if strict else None
        first = _gradients(outputs, inputs, None, True, check)
        second = _gradients(first, inputs, v, create_graph, check)
    return (
        _finish(outputs, create_graph)[0],
        _packed(_finish(second, create_graph), several),
    )


describe_arguments(
    globals(),
    func="a function of tensors that gives a tensor, or a tuple of them.",
    inputs="a tensor, or a tuple of them.",
    create_graph="whether the results can be differentiated.",
    strict="whether an output that does not depend on an input is an error.",
    v=("the vector, in the shape of the inputs; not needed where there is one number."),
)
