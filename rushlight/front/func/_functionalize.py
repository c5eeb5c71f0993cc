"""``functionalize``: a function with its writes taken out."""

import functools

from rushlight.autograd.levels.functional import FunctionalLevel
from rushlight.autograd.levels.stack import Outside
from rushlight.core.tensor import Tensor
from rushlight.utils import _pytree as pytree


def functionalize(func, *, remove="mutations"):
    """A function that computes what ``func`` does without writing in place inside.

    Arguments that ``func`` writes to are written once, at the end.

    Args:
        func: a function of tensors, or nests of them.
        remove: ``"mutations"``, or ``"mutations_and_views"`` to have copies in the place
            of views, too.

    Raises:
        RuntimeError: ``remove`` is neither.

    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> def f(x):
    ...     y = x.clone()
    ...     y[0] = 0
    ...     return y.mul_(2)
    >>> functionalize(f)(rl.ones(3))
    tensor([0., 2., 2.])
    >>> graph = make_fx(functionalize(f))(rl.ones(3)).graph
    >>> any(str(node.target).endswith("_.Tensor") for node in graph.nodes)
    False
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for "
            f"remove={remove}. Valid options are:\n"
            "     remove='mutations': in-place and out= operators are taken out of the "
            "program, and the operators that make new values stand in their place.\n"
            "     remove='mutations_and_views': so are those that make views; copies "
            "stand in their place."
        )

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        with FunctionalLevel(remove == "mutations_and_views") as level:
            given, spec = pytree.tree_flatten((args, kwargs))
            inside = [level.wrap(t) if isinstance(t, Tensor) else t for t in given]
            args, kwargs = pytree.tree_unflatten(inside, spec)
            result = func(*args, **kwargs)
            result = pytree.tree_map_only(Tensor, level.unwrap, result)
            with Outside(level):
                for before, after in zip(given, inside):
                    if isinstance(before, Tensor) and level.written(after):
                        _write_back(before, level.unwrap(after))
        return result

    return wrapper


def _write_back(target, value):
    if value.shape != target.shape:
        target.resize_(value.shape)
    target.copy_(value)
