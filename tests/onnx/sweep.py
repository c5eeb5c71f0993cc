"""The operators of PyTorch's database, exported and run by ONNX Runtime.

``python -m tests.onnx operators`` goes through all of them; the suite takes a part.
"""

import collections

import numpy as np

import rushlight as rl
from rushlight.utils._pytree import tree_leaves
from tests.export import sweep
from tests.fuzz import draw, judge

SAMPLES = 4  # of each operator, spread over those that the database has
# What these give is random, or whatever was in memory.
RANDOM = (
    *("bernoulli", "multinomial", "normal", "rand_like", "randint", "randint_like"),
    *("randn", "randn_like", "empty", "empty_like", "empty_strided", "new_empty"),
    *("new_empty_strided", "empty_permuted", "nn.functional.dropout2d"),
    *("nn.functional.dropout3d", "nn.functional.dropout", "native_dropout_backward"),
    *("nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout"),
    "nn.functional.multi_head_attention_forward",  # its samples drop elements
)


def samples(at):
    """Calls of an operator with float32 tensors."""
    info, public = draw.operators()[at]
    if info.name in sweep.SKIPPED or info.name in draw.UNSAFE or info.name in RANDOM:
        return
    path = (
        ("function", info.name) if public else ("method", info.name.rpartition(".")[2])
    )
    found = list(draw.samples(at, "float32"))
    if len(found) > SAMPLES:
        step = (len(found) - 1) / (SAMPLES - 1)
        found = [found[round(step * one)] for one in range(SAMPLES)]
    for args, kwargs in found:
        if not kwargs.get("dropout_p"):  # what is dropped is random, too
            yield draw.Case(path, args, kwargs, ["float32"])


def verdict(case):
    """What becomes of a call: a word, and why."""
    if not judge.present(case):
        return None
    module, specs = sweep.program_of(rl, case)
    tensors = sweep.tensors_of(rl, specs)
    with sweep.quietly():
        try:
            made = module(*[one.clone() for one in tensors])
        except Exception:  # a call that is refused has nothing to be compared
            return None
    wanted = [one for one in tree_leaves(made) if isinstance(one, rl.Tensor)]
    if not wanted or any(one.is_complex() for one in (*tensors, *wanted)):
        return None
    with sweep.quietly():
        try:
            program = rl.onnx.export(module, tensors)
        except rl.onnx.OnnxExporterError as error:
            return "no form", str(error)
        except Exception as error:  # what `export` says of programs it cannot record
            return "not recorded", f"{type(error).__name__}: {error}"
        try:
            results = program(*tensors)
        except Exception as error:  # of ONNX Runtime's own types
            return "not run", str(error)
    for ours, theirs in zip(wanted, results, strict=True):
        if ours.shape != theirs.shape or ours.dtype is not theirs.dtype:
            return "differs", f"{ours.dtype}{ours.shape} {theirs.dtype}{theirs.shape}"
        pair = [one.detach().double().numpy() for one in (ours, theirs)]
        if not np.allclose(*pair, rtol=1e-5, atol=1e-5, equal_nan=True):
            return "differs", f"by {np.nanmax(np.abs(pair[0] - pair[1]))}"
    return "agrees", ""


def main():
    """Goes through all operators, and prints what becomes of their calls."""
    calls: collections.Counter = collections.Counter()
    operators: collections.Counter = collections.Counter()
    for at, name in sweep.names():
        found = [one for one in map(verdict, samples(at)) if one is not None]
        if not found:
            continue
        calls.update(word for word, _ in found)
        words = {word for word, _ in found}
        operators["all"] += 1
        operators["exported"] += bool(words & {"agrees", "differs", "not run"})
        operators["agree"] += words == {"agrees"}
        for word, text in dict(found).items():
            if word in ("differs", "not run"):
                print(name, word, text[:200].replace("\n", " "))
    print(dict(calls), dict(operators))
