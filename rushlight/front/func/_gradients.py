"""Gradients, products with Jacobians, and Jacobians of functions."""

import functools

from rushlight.autograd.levels.gradient import GradientLevel
from rushlight.autograd.levels.stack import THREAD
from rushlight.autograd.levels.tangent import TangentLevel
from rushlight.core.facts import with_requires_grad
from rushlight.core.layout import jagged, strided
from rushlight.core.state import is_grad_enabled
from rushlight.core.tensor import Tensor
from rushlight.func._batches import refuse_nested, vmap
from rushlight.operators import call
from rushlight.utils import _pytree as pytree

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
]


def _chosen(args, argnums):
    """The arguments that ``argnums`` names, as a nest: one of them or a tuple.

    Raises:
        RuntimeError: a number is none of an argument, or named twice.
    """
    single = isinstance(argnums, int)
    numbers = (argnums,) if single else argnums
    if not isinstance(numbers, tuple) or not all(isinstance(n, int) for n in numbers):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {argnums!r}")
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    wrapped = []
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(
                f"Got argnum={n}, but only {len(args)} positional inputs"
            )
        wrapped.append(n % len(args))
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return wrapped, single


def _replaced(args, numbers, values):
    args = list(args)
    for n, value in zip(numbers, values):
        args[n] = value
    return tuple(args)


def _tensors(tree, expected):
    leaves, spec = pytree.tree_flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{expected} {type(leaf)}")
    return leaves, spec


JVP = "jvp(f, primals, tangents)"
RETURNED = "expected f(*primals) to return only tensors, got unsupported type"


def _refuse_nested(name, tree, layouts=(strided, jagged)):
    for leaf in pytree.tree_leaves(tree):
        if isinstance(leaf, Tensor) and leaf.layout in layouts:
            refuse_nested(name, leaf)


def _wrapped(level, tree):
    """A nest with all of its tensors as the level's own: they may be written to.

    Raises:
        RuntimeError: one is nested, without a jagged layout.
    """
    _refuse_nested("torch.func", tree, (strided,))
    return pytree.tree_map_only(Tensor, level.wrap, tree)


def _unwrapped(level, tree):
    """A nest with the values of a level's tensors."""
    return pytree.tree_map_only(Tensor, level.unwrap, tree)


def _variables(tree):
    """The leaves of a nest of a level's tensors, made to be differentiated by.

    Raises:
        ValueError: a leaf is no tensor.
        RuntimeError: a tensor has a type without gradients.
    """
    leaves, spec = pytree.tree_flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"Thing passed to transform API must be Tensor, got {type(leaf)}"
            )
        with_requires_grad(leaf)
    return leaves, spec


def _refuse_complex(name, tree, what):
    """Raises for a complex tensor, of which a Jacobian would not be one of reals."""
    for index, leaf in enumerate(pytree.tree_leaves(tree)):
        if isinstance(leaf, Tensor) and leaf.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor "
                f"at flattened input idx: {index}"
            )


def _split_aux(output, has_aux, name):
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux "
            f"is True, got {type(output).__name__}"
        )
    for leaf in pytree.tree_leaves(output[1]):
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return output


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives the gradient of ``func``, and its value.

    Args:
        func: returns a scalar tensor, or ``(scalar, aux)`` with ``has_aux``.
        argnums: the positions of the arguments to differentiate by.
        has_aux: ``func`` also returns something that is passed through.

    Raises:
        RuntimeError: the output is no scalar tensor, or an argument no tensor.

    >>> grad_and_value(lambda x: (x * x).sum())(rl.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        numbers, single = _chosen(args, argnums)
        _refuse_nested("torch.func.grad", args)
        with GradientLevel() as level:
            inside = _wrapped(level, args)
            taken = inside[numbers[0]] if single else tuple(inside[n] for n in numbers)
            variables, spec = _variables(taken)
            output = func(*inside, **_wrapped(level, kwargs))
            output, aux = _split_aux(output, has_aux, "grad_and_value")
            if not isinstance(output, Tensor):
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, "
                    f"got {type(output)}"
                )
            if output.dim():
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar "
                    f"Tensor, got tensor with {output.dim()} dims. Maybe you wanted to "
                    "use the vjp or jacrev APIs instead?"
                )
            found = level.gradients([output], variables, [None])
        value, aux = level.unwrap(output), _unwrapped(level, aux)
        gradient = pytree.tree_unflatten(_filled(level, found, variables), spec)
        return (gradient, (value, aux)) if has_aux else (gradient, value)

    return wrapper


def _filled(level, found, variables):
    """Values of gradients, seen from outside; zeros where there is none."""
    return [
        call.zeros_like(level.unwrap(variable)) if g is None else level.unwrap(g)
        for g, variable in zip(found, variables)
    ]


def grad(func, argnums=0, has_aux=False):
    """A function that gives the gradient of ``func``.

    Args:
        func: returns a scalar tensor, or ``(scalar, aux)`` with ``has_aux``.
        argnums: the positions of the arguments to differentiate by.
        has_aux: return ``(gradient, aux)``.

    >>> grad(grad(lambda x: x**3))(rl.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func, *primals, has_aux=False):
    """The value of ``func`` and a function from cotangents to gradients.

    Args:
        func: a function of the primals.
        primals: tensors or nests of them.
        has_aux: ``func`` returns ``(output, aux)``; the result has ``aux`` at its end.

    >>> value, pull = vjp(lambda x: x * x, rl.tensor([1.0, 2.0]))
    >>> pull(rl.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    return _vjp(func, primals, {}, range(len(primals)), has_aux)


def _vjp(func, args, kwargs, numbers, has_aux):
    """`vjp` by some of the arguments; the others are the level's tensors, too."""
    with GradientLevel() as level:
        inside = _wrapped(level, args)
        variables, spec = _variables(tuple(inside[n] for n in numbers))
        output = func(*inside, **_wrapped(level, kwargs))
        output, aux = _split_aux(output, has_aux, "vjp")
        outputs, shape = _tensors(output, f"vjp(f, *primals): {RETURNED}")
        level.settle(outputs)
        if not outputs:
            raise RuntimeError(
                "vjp(f, *primals): Expected f to return at least a Tensor"
            )
        for t in outputs:
            if not (t.is_floating_point() or t.is_complex()):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex "
                    f"Tensors, got Tensor with dtype {t.dtype}"
                )
    values, aux = [level.unwrap(t) for t in outputs], _unwrapped(level, aux)

    def pull(cotangents, retain_graph=True, create_graph=None):
        given, form = _tensors(
            cotangents, "vjp: Expected cotangents to be Tensors, got"
        )
        if form != shape:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree "
                f"structure of outputs to the function. cotangents: {form}, primal "
                f"output: {shape}"
            )
        for at, (cotangent, value) in enumerate(zip(given, values)):
            if cotangent.shape != value.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{at}] has a shape of "
                    f"{cotangent.shape} and output[{at}] has a shape of {value.shape}."
                )
        record = is_grad_enabled() if create_graph is None else create_graph
        found = level.gradients(outputs, variables, given, retain_graph, record)
        return pytree.tree_unflatten(_filled(level, found, variables), spec)

    result = pytree.tree_unflatten(values, shape)
    return (result, pull, aux) if has_aux else (result, pull)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The value of ``func`` and its derivative along the tangents.

    Args:
        func: a function of the primals.
        primals: a tuple of tensors, or of nests of them.
        tangents: the directions, of the same structure.
        strict: refuse outputs that do not depend on the primals.
        has_aux: ``func`` returns ``(output, aux)``.

    >>> jvp(rl.sin, (rl.tensor(0.0),), (rl.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp: Expected primals to be a tuple. E.g. it should be valid to call "
            "f(*primals)."
        )
    return _jvp(func, primals, {}, range(len(primals)), tangents, strict, has_aux)


def _jvp(func, args, kwargs, numbers, tangents, strict, has_aux):
    """`jvp` along tangents of some arguments; the others are the level's, too."""
    primals = tuple(args[n] for n in numbers)
    leaves, spec = _tensors(
        primals, f"{JVP}: Expected primals to only contain Tensors, got"
    )
    if not leaves:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to contain at least one Tensor."
        )
    moved, form = _tensors(
        tangents, f"{JVP}: Expected tangents to only contain Tensors, got"
    )
    if form != spec:
        raise RuntimeError(
            "jvp: Expected primals and tangents to have the same python structure. Got "
            f"primals with structure {spec} and tangents with structure {form}"
        )
    for value, tangent in zip(leaves, moved):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(
                f"Expected primal to be floating point or complex, but got: {value.dtype}"
            )
        if value.shape != tangent.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of "
                f"the original Tensor, this is not supported. Tensor is of size "
                f"{list(value.shape)} while the given forward gradient is of size "
                f"{list(tangent.shape)}."
            )
    if THREAD.dual is not None:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment: leave the dual_level "
            "that is open first"
        )
    with TangentLevel() as level:
        duals = [level.wrap(value, tangent) for value, tangent in zip(leaves, moved)]
        inside = _wrapped(level, args)
        inside = _replaced(inside, numbers, pytree.tree_unflatten(duals, spec))
        output = func(*inside, **_wrapped(level, kwargs))
        output, aux = _split_aux(output, has_aux, "jvp")
        outputs, shape = _tensors(output, f"{JVP}: {RETURNED}")
        values = [level.unwrap(t) for t in outputs]
        found = [level.tangent_of(t) for t in outputs]
        aux = _unwrapped(level, aux)
    if strict and any(t is None for t in found):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of "
            "the inputs. This is not allowed with strict=True."
        )
    pushed = [
        call.zeros_like(value) if tangent is None else tangent
        for value, tangent in zip(values, found)
    ]
    result = (
        pytree.tree_unflatten(values, shape),
        pytree.tree_unflatten(pushed, shape),
    )
    return (*result, aux) if has_aux else result


def linearize(func, *primals):
    """The value of ``func`` and a function from tangents to its derivative along them.

    Args:
        func: the function.
        primals: where it is looked at.

    >>> value, push = linearize(lambda x: x * x, rl.tensor(3.0))
    >>> push(rl.tensor(1.0))
    tensor(6.)
    """
    output = func(*primals)

    dtypes = [leaf.dtype for leaf in pytree.tree_leaves(primals)]

    def push(*tangents):
        for at, (leaf, dtype) in enumerate(zip(pytree.tree_leaves(tangents), dtypes)):
            if leaf.dtype is not dtype:
                raise RuntimeError(
                    f"tangent:{at} with dtype {leaf.dtype} in flattened pytree doesn't "
                    f"match the dtype {dtype} of the corresponding primal."
                )
        return jvp(func, primals, tangents)[1]

    return output, push


# -- Jacobians -------------------------------------------------------------------------


def _basis(leaves):
    """For all leaves together, as many directions as they have elements."""
    total = sum(leaf.numel() for leaf in leaves)
    basis, at = [], 0
    for leaf in leaves:
        block = call.zeros(total, leaf.numel(), dtype=leaf.dtype, device=leaf.device)
        block[at : at + leaf.numel()].fill_diagonal_(1)
        basis.append(block.view(total, *leaf.shape))
        at += leaf.numel()
    return basis


def _rows(pull, basis, shape, chunk_size):
    """The gradients along every direction of a basis; one by one without `vmap`."""

    def row(*cotangents):
        return pull(pytree.tree_unflatten(cotangents, shape))

    if chunk_size != 1:
        return vmap(row, chunk_size=chunk_size)(*basis)
    rows = [row(*cotangents) for cotangents in zip(*basis)]
    return pytree.tree_map(lambda *parts: call.stack(parts), rows[0], *rows[1:])


def jacrev(
    func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False
):
    """A function that gives the Jacobian of ``func``, row by row of its output.

    Args:
        func: returns a tensor or a nest of them.
        argnums: the positions of the arguments to differentiate by.
        has_aux: ``func`` returns ``(output, aux)``; so does the result.
        chunk_size: how many rows at once; None for all of them.

    >>> jacrev(lambda x: x * x)(rl.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        _refuse_complex("jacrev", args, "inputs")
        _refuse_nested("torch.func.jacrev", args)
        numbers, single = _chosen(args, argnums)
        found = _vjp(func, args, kwargs, numbers, has_aux)
        output, pull = found[:2]
        _refuse_complex("jacrev", output, "outputs")
        outputs, shape = pytree.tree_flatten(output)
        rows = _rows(pull, _basis(outputs), shape, chunk_size)
        by_input, spec = pytree.tree_flatten(rows)
        results, at = [], 0
        for value in outputs:
            n = value.numel()
            parts = [
                block[at : at + n].reshape((*value.shape, *block.shape[1:]))
                for block in by_input
            ]
            nest = pytree.tree_unflatten(parts, spec)
            results.append(nest[0] if single else nest)
            at += n
        jacobian = pytree.tree_unflatten(results, shape)
        return (jacobian, found[2]) if has_aux else jacobian

    return wrapper


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """A function that gives the Jacobian of ``func``, column by column of its input.

    Args:
        func: returns a tensor or a nest of them.
        argnums: the positions of the arguments to differentiate by.
        has_aux: ``func`` returns ``(output, aux)``; so does the result.
        randomness: as of `vmap`.

    >>> jacfwd(rl.sin)(rl.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        _refuse_complex("jacfwd", args, "inputs")
        _refuse_nested("torch.func.jacfwd", args)
        numbers, single = _chosen(args, argnums)
        chosen = tuple(args[n] for n in numbers)
        leaves, spec = _tensors(
            chosen, f"{JVP}: Expected primals to only contain Tensors, got"
        )

        def push(*directions):
            tangents = pytree.tree_unflatten(directions, spec)
            found = _jvp(func, args, kwargs, numbers, tangents, False, has_aux)
            _refuse_complex("jacfwd", found[0], "outputs")
            return found[1:] if has_aux else found[1]

        columns = vmap(push, randomness=randomness)(*_basis(leaves))
        if has_aux:
            columns, aux = columns
            aux = pytree.tree_map(lambda t: t[0], aux)
        outputs, shape = pytree.tree_flatten(columns)
        results = []
        for block in outputs:
            sizes = block.shape[1:]
            rows = block.movedim(0, -1)
            parts, at = [], 0
            for leaf in leaves:
                n = leaf.numel()
                parts.append(rows[..., at : at + n].reshape((*sizes, *leaf.shape)))
                at += n
            nest = pytree.tree_unflatten(parts, spec)
            results.append(nest[0] if single else nest)
        jacobian = pytree.tree_unflatten(results, shape)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def hessian(func, argnums=0):
    """A function that gives the Hessian of ``func``: forward over reverse.

    Args:
        func: gives one number.
        argnums: which argument, or which, it is for.

    >>> hessian(lambda x: (x**3).sum())(rl.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
