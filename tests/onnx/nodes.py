"""The node tests of the ONNX standard, run by what reads ONNX here.

``python -m tests.onnx nodes`` runs all of them; the suite takes those of some operators.
"""

import collections
import warnings

import numpy as np
import onnx

import rushlight as rl
from rushlight.onnx.importing import IMPLEMENTED, Source, module_of
from rushlight.onnx.importing._reader import tensor_of

# Their numbers are random, so that nobody else's are the same.
RANDOM = ("bernoulli", "training_dropout")


def cases():
    """The standard's cases: each a model, its inputs and its results."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return load_model_tests(kind="node")


def operators(graph):
    """The operators of a graph, and of those inside of it."""
    for node in graph.node:
        own = node.domain in ("", "ai.onnx")
        yield node.op_type if own else f"{node.domain}::{node.op_type}"
        for one in node.attribute:
            if one.HasField("g"):
                yield from operators(one.g)


def value_of(given):
    """A case's value as tensors; None for one of a type that is not here."""
    if isinstance(given, list):
        return [value_of(one) for one in given]
    if isinstance(given, onnx.TensorProto):
        return tensor_of(given, Source("case"), "value")
    if given is None:
        return None
    array = np.asarray(given)
    if array.dtype.name == "bfloat16":
        return rl.from_numpy(array.view(np.int16).copy()).view(rl.bfloat16)
    if array.dtype.kind not in "biufc":
        raise LookupError(f"elements of {array.dtype}")
    return rl.from_numpy(array.copy())


def same(made, wanted):
    """Whether results are alike: types, sizes, and numbers but for rounding."""
    if isinstance(wanted, list):
        return len(made) == len(wanted) and all(map(same, made, wanted))
    if wanted is None or made is None:
        return made is wanted
    if made.dtype is not wanted.dtype or made.shape != wanted.shape:
        return False
    if made.dtype is rl.bool or made.is_complex():
        return bool((made == wanted).all())
    rough = 1e-3  # the standard's own measure; of halves, one bit
    if made.dtype.itemsize <= 2 and made.dtype.is_floating_point:
        rough = 1e-2 if made.dtype is rl.bfloat16 else 2e-3
    ours, theirs = made.detach().double().numpy(), wanted.double().numpy()
    return np.allclose(ours, theirs, rtol=rough, atol=1e-5, equal_nan=True)


def verdict(case):
    """``passes``, ``differs``, ``no type``, ``random``, or the operators that lack."""
    missing = set(operators(case.model.graph)) - set(IMPLEMENTED)
    if missing:
        return f"lacks {', '.join(sorted(missing))}"
    if any(word in case.name for word in RANDOM):
        return "random"
    try:
        sets = [tuple(map(value_of, side)) for one in case.data_sets for side in one]
    except (LookupError, rl.onnx.OnnxLoadError):
        return "no type"
    module = module_of(case.model)
    for inputs, wanted in zip(sets[::2], sets[1::2]):
        made = module(*inputs)
        made = list(made) if len(wanted) > 1 else [made]
        if not same(made, list(wanted)):
            return "differs"
    return "passes"


def outcome(case):
    """The verdict, or the error's first words."""
    try:
        return verdict(case)
    except rl.onnx.OnnxLoadError as error:
        text = str(error)
        return "no type" if "not there in Rushlight" in text else f"refused: {text}"


def main():
    """Runs all cases, and prints how many pass."""
    counts: collections.Counter = collections.Counter()
    for case in cases():
        found = outcome(case)
        counts[found.split(" ")[0].rstrip(":")] += 1
        if found == "differs" or found.startswith("refused"):
            print(case.name, found[:200])
    print(dict(counts))
