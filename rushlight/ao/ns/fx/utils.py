"""How far results are apart: measures that comparisons of models take."""

import functools

import rushlight as rl
from rushlight.ao.quantization.quantize_fx import FACTS
from rushlight.ao.quantization.utils import getattr_from_fqn
from rushlight.nn import functional as F


def maybe_dequantize_first_two_tensor_args_and_handle_tuples(f):
    """A measure of two tensors as one of quantized ones, too, and of tuples and lists.

    Args:
        f: takes two tensors of float32.
    """

    @functools.wraps(f)
    def inner(first, second, *rest, **settings):
        if any(isinstance(first, k) and isinstance(second, k) for k in (tuple, list)):
            return [inner(*pair, *rest, **settings) for pair in zip(first, second)]
        if isinstance(first, rl.Tensor) and isinstance(second, rl.Tensor):
            first, second = (
                each.dequantize() if each.is_quantized else each
                for each in (first, second)
            )
        if first.dtype != rl.float32 or second.dtype != rl.float32:
            return None
        return f(first, second, *rest, **settings)

    return inner


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_sqnr(x, y):
    """The ratio of a signal to its error, ``20 log10(|x| / |x - y|)``, in decibels.

    Args:
        x: the signal: a tensor of any shape, or a tuple or list of them.
        y: what came of it.

    >>> compute_sqnr(rl.tensor([3.0, 4.0]), rl.tensor([3.0, 4.5]))
    tensor(20.)
    """
    return 20 * rl.log10(rl.norm(x) / rl.norm(x - y))


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_normalized_l2_error(x, y):
    """The error beside the signal, ``|x - y| / |x|``.

    Args:
        x: the signal: a tensor of any shape, or a tuple or list of them.
        y: what came of it.

    >>> compute_normalized_l2_error(rl.tensor([3.0, 4.0]), rl.tensor([3.0, 4.5]))
    tensor(0.1000)
    """
    return rl.sqrt(((x - y) ** 2).sum() / (x**2).sum())


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_cosine_similarity(x, y):
    """The cosine of the angle between two tensors as vectors, of shape ``[1]``.

    Args:
        x, y: tensors of as many elements, or tuples or lists of them.

    >>> compute_cosine_similarity(rl.tensor([1.0, 0.0]), rl.tensor([3.0, 4.0]))
    tensor([0.6000])
    """
    return F.cosine_similarity(x.reshape(1, -1), y.reshape(1, -1))


def get_target_type_str(node, gm):
    """What a node calls, with its module; nothing where it calls nothing.

    Args:
        node: of the graph.
        gm: the graph's module.
    """
    if node.op == "call_module":
        return rl.typename(getattr_from_fqn(gm, node.target))
    return (
        rl.typename(node.target) if node.op in ("call_function", "call_method") else ""
    )


def path_of(node, gm):
    """The path of the module that a node of an observed graph was traced in, or None."""
    scopes = gm.meta.get(FACTS, {}).get("scopes")
    if scopes is None:
        return None
    return node.target if node.op == "call_module" else scopes.get(node.name, "")


def rekey_logger_info_on_node_name_of_model(results, model_name):
    """Results by the names of one model's nodes.

    Args:
        results: by the names that pairs of parts have.
        model_name: the model's.
    """
    found = {}
    for name, kinds in results.items():
        own = [kind[model_name][0] for kind in kinds.values() if kind.get(model_name)]
        found[own[-1]["ref_node_name"] if own else name] = kinds
    return found


def maybe_add_missing_fqns(results):
    """Paths of modules that one model's results have, in the other's, too.

    Args:
        results: changed in place.
    """
    for kinds in results.values():
        for models in kinds.values():
            known = [each for each in models.values() if each[0]["fqn"] is not None]
            for each in models.values():
                for mine, theirs in zip(each, known[0] if known else ()):
                    mine["fqn"] = theirs["fqn"]
