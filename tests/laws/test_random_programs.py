"""Random calls with random, often wrong, arguments never end the interpreter."""

import subprocess
import sys

import pytest

PROGRAM = """
import faulthandler, random, sys, warnings
import rushlight as rl
import rushlight.nn.functional as F

faulthandler.enable()
warnings.simplefilter("ignore")
choose = random.Random(int(sys.argv[1]))
rl.manual_seed(0)
DTYPES = [rl.float32, rl.float64, rl.int64, rl.bool, rl.bfloat16, rl.int32, rl.uint8]
LEFT_OUT = {
    "load", "save", "set_num_threads", "set_num_interop_threads", "manual_seed",
    "set_default_dtype", "set_default_device", "set_printoptions", "set_grad_enabled",
    "seed", "explain", "use_deterministic_algorithms", "share_memory_",
}


def tensor():
    sizes = [choose.choice([0, 1, 2, 3, 3]) for _ in range(choose.randrange(5))]
    result = rl.randint(0, 5, sizes).to(choose.choice(DTYPES))
    shape = choose.random()
    if shape < 0.15 and sizes:
        result = result.transpose(0, -1)
    elif shape < 0.25:
        result = result.expand(3, *sizes)
    elif shape < 0.3:
        result = result.to("meta")
    elif shape < 0.45 and result.is_floating_point():
        result.requires_grad_()
    return result


def argument(depth=0):
    kind = choose.random()
    if kind < 0.45:
        return choose.choice(tensors)
    if kind < 0.65:
        return choose.choice([-3, -2, -1, 0, 0, 1, 1, 2, 3])
    if kind < 0.7:
        return choose.choice([2**31, 2**62, 2**63 - 1, -(2**63), 10**30])
    if kind < 0.8:
        return choose.choice([0.5, -1.0, float("nan"), None, "mean", "", True, False])
    if kind < 0.85:
        return choose.choice([*DTYPES, slice(None, None, 2), slice(-1, None, -1), ...])
    if depth == 2:
        return object()
    return [argument(depth + 1) for _ in range(choose.randrange(4))]


def names(owner):
    return sorted(n for n in dir(owner) if not n.startswith("_") and n not in LEFT_OUT)


METHODS = [n for n in dir(rl.Tensor) if n in ("__getitem__", "__setitem__", "__add__")]
METHODS += names(rl.Tensor)
FUNCTIONS = [getattr(rl, n) for n in names(rl)] + [getattr(F, n) for n in names(F)]
FUNCTIONS = [f for f in FUNCTIONS if callable(f) and not isinstance(f, type)]
tensors = [tensor() for _ in range(10)]
for _ in range(int(sys.argv[2])):
    tensors[choose.randrange(10)] = tensor()
    receiver = choose.choice(tensors)
    arguments = [argument() for _ in range(choose.randrange(4))]
    try:
        if choose.random() < 0.6:
            result = getattr(receiver, choose.choice(METHODS))(*arguments)
        else:
            result = choose.choice(FUNCTIONS)(receiver, *arguments)
        if isinstance(result, rl.Tensor) and result.numel() < 1000:
            repr(result)
            if result.requires_grad:
                result.sum().backward()
    except Exception:
        pass
"""


@pytest.mark.parametrize("seed", range(3))
def test_random_calls_end_in_a_result_or_an_exception(seed):
    command = [sys.executable, "-c", PROGRAM, str(seed), "600"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
