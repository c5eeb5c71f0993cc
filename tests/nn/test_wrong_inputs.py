"""Modules of PyTorch's database with wrong inputs: refused alike, or with equal results.

``python -m tests.nn.test_wrong_inputs`` runs all cases of all modules; the test takes a
few of each.
"""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
common_modules = pytest.importorskip("torch.testing._internal.common_modules")

SEED = 20
SAMPLES = 3  # of a module's settings
QUICK = 6  # changes of a module
BAD = (TypeError, ValueError)
UNABLE = (RuntimeError, NotImplementedError)


def known(info):
    """The twin of one of the database's modules, or None."""
    name = info.module_cls.__name__
    mine = getattr(rl.nn, name, None)
    return mine if getattr(torch.nn, name, None) is info.module_cls else None


INFOS = {
    info.module_cls.__name__: info
    for info in common_modules.module_db
    if known(info) is not None
}


class Untold(Exception):
    """A value that has no twin."""


def twin(value):
    """A value of PyTorch's as one of ours."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_nested:
            raise Untold
        return rl.from_numpy(value.detach().clone().numpy())
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(map(twin, value))
    if isinstance(value, dict):
        return {key: twin(item) for key, item in value.items()}
    if isinstance(value, torch.dtype):
        return getattr(rl, str(value).rpartition(".")[2])
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise Untold


def wider(tensor):
    """One more element along the second dimension."""
    if tensor.ndim < 2 or not tensor.shape[1]:
        return tensor.double()
    return torch.cat([tensor, tensor[:, :1]], 1)


CHANGES = {
    "rank + 1": lambda tensor: tensor.unsqueeze(0),
    "rank - 1": lambda tensor: tensor[0] if tensor.ndim and tensor.shape[0] else None,
    "no samples": lambda tensor: tensor[:0] if tensor.ndim else None,
    "another size": wider,
    "float64": lambda tensor: tensor.double(),
    "int64": lambda tensor: tensor.long(),
    "bool": lambda tensor: tensor.bool(),
    "no elements": lambda tensor: tensor[..., :0] if tensor.ndim else None,
    "a number": lambda tensor: 3.5,
    "nothing": lambda tensor: None,
}


def cases(name):
    """A module's settings, and inputs of which one was changed."""
    info, rng = INFOS[name], random.Random(f"{SEED}:{name}")
    torch.manual_seed(SEED)
    try:
        inputs = info.module_inputs_func(
            info, "cpu", torch.float32, requires_grad=False, training=False
        )
    except Exception:  # of the database's own
        return
    inputs = list(inputs)
    rng.shuffle(inputs)
    for sample in inputs[:SAMPLES]:
        forward = sample.forward_input
        if forward is None:
            continue
        places = [i for i, v in enumerate(forward.args) if isinstance(v, torch.Tensor)]
        for at in places:
            for change in rng.sample(sorted(CHANGES), len(CHANGES)):
                args = list(forward.args)
                args[at] = CHANGES[change](args[at])
                yield sample.constructor_input, args, forward.kwargs, (at, change)


def answer(module, args, kwargs):
    torch.manual_seed(SEED)  # a lazy module draws its parameters now
    rl.manual_seed(SEED)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return module(*args, **kwargs), None
    except Exception as error:  # every kind is an answer
        return None, error


def leaves(value):
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def difference(name, built, args, kwargs):
    """How the twins' answers differ, or None."""
    try:
        ours = known(INFOS[name])(*map(twin, built.args), **twin(built.kwargs))
        mine = list(map(twin, args)), twin(kwargs)
    except Untold:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = INFOS[name].module_cls(*built.args, **built.kwargs)
    if not any(map(torch.nn.parameter.is_lazy, theirs.state_dict().values())):
        state = {key: twin(value) for key, value in theirs.state_dict().items()}
        ours.load_state_dict(state)
    theirs.eval(), ours.eval()
    (expected, error), (found, mistake) = (
        answer(theirs, args, kwargs),
        answer(ours, *mine),
    )
    if error is not None:
        if isinstance(error, (AttributeError, AssertionError)) and mistake is not None:
            return None  # not PyTorch's to promise
        if mistake is None:
            if isinstance(error, NotImplementedError):
                return None  # a type for which PyTorch has no kernel
            return f"accepted, where PyTorch says {type(error).__name__}: {error}"
        if "tuple index out of range" in str(error):
            return None  # Python's words for what PyTorch does not check
        both = {type(error), type(mistake)}
        # what is not implemented for a type is a RuntimeError in any case
        if len(both) == 1 or both <= set(BAD) or both <= set(UNABLE):
            return None
        return (
            f"{type(mistake).__name__}: {mistake}, not {type(error).__name__}: {error}"
        )
    if mistake is not None:
        return f"refused: {type(mistake).__name__}: {mistake}"
    if name.startswith("LazyConv") and theirs.in_channels == 0:
        return None  # PyTorch's convolution of no channels gives no channels either
    for a, b in zip(leaves(expected), leaves(found), strict=True):
        if a is None or b is None:
            if a is not b:
                return f"{b}, not {a}"
            continue
        a, b = a.detach(), b.detach()
        if str(a.dtype).rpartition(".")[2] != str(b.dtype).rpartition(".")[2]:
            return f"{b.dtype}, not {a.dtype}"
        if tuple(a.shape) != tuple(b.shape):
            return f"{tuple(b.shape)}, not {tuple(a.shape)}"
        if not np.allclose(b.numpy(), a.numpy(), 1e-4, 1e-5, equal_nan=True):
            return "other values"
    return None


def run(name, most):
    for _, (built, args, kwargs, note) in zip(range(most), cases(name)):
        found = difference(name, built, args, kwargs)
        if found:
            yield f"{name}{built.args}{built.kwargs} {note}: {found}"


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.parametrize("name", INFOS)
def test_wrong_inputs_are_refused_as_the_oracle_refuses_them(name):
    found = list(run(name, QUICK))
    assert not found, "\n".join(found)


if __name__ == "__main__":
    for one in sys.argv[1:] or INFOS:
        for line in run(one, 1000):
            print(line.replace("\n", " | ")[:300], flush=True)
