"""Random calls of all operators leave no memory behind.

python -m tests.flat --calls 1000000

The same calls are made again and again. Kernels and tables fill up in the first rounds;
from then on neither the bytes that storages hold nor the objects that Python counts may
grow, whether the calls end in results, in gradients or in exceptions.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import resource
import sys
import warnings

import rushlight as rl
from rushlight.dispatch.dispatcher import packets

DTYPES = (rl.float32, rl.float32, rl.float64, rl.int64, rl.bool, rl.complex64)
DTYPES += (rl.int32, rl.float16, rl.bfloat16, rl.uint8)
SIZES = (
    (3,),
    (2, 3),
    (3, 3),
    (2, 3, 3),
    (1, 3, 4, 4),
    (),
    (0, 3),
    (17,),
    (5, 2),
    (2, 17),
)
# What changes the process, waits, or makes tensors of any size asked for.
LEFT_OUT = ("manual_seed", "set_", "resize", "from_file", "_foreach", "record_stream")
# Polynomials of a degree of 2^40 take that many steps, as they do in PyTorch.
LEFT_OUT += ("special_chebyshev", "special_hermite", "special_laguerre")
LEFT_OUT += ("special_legendre", "special_shifted_chebyshev")
WARM = 3  # rounds before anything is counted
MEMORY = 4 << 30  # what calls that ask for very much are refused beyond
ROUND = 2_000


def operators():
    """Every operator's overloads by their names, in one order."""
    chosen = []
    for (namespace, name), packet in sorted(packets().items()):
        if namespace == "aten" and not name.startswith(LEFT_OUT):
            chosen += [(packet, op) for op in packet.overloads]
    return chosen


def tensor(choose):
    """A small tensor of some type and layout."""
    sizes, low, high = choose.choice(SIZES), 0, 3
    if choose.random() < 0.1:
        low, high = -9, 2**40  # places where nothing is
    made = rl.randint(low, high, sizes).to(choose.choice(DTYPES))
    if made.ndim > 1 and choose.random() < 0.2:
        made = made.transpose(0, 1)
    if made.is_floating_point() and choose.random() < 0.4:
        made.requires_grad_()
    return made


def argument(choose, kind):
    """A value for an argument of a kind, right most of the time."""
    if choose.random() < 0.05:
        return choose.choice((None, "x", -1, 2**31, 2**62, -(2**63), [], object()))
    if kind in (0, 1, 4):
        return tensor(choose)
    if kind in (2, 3):
        return [tensor(choose) for _ in range(choose.randrange(1, 3))]
    if kind in (5, 6, 11, 12):
        return choose.choice((0.5, 1.0, 2.0))
    if kind in (7, 8):
        return choose.choice((0, 0, 1, -1, 2))
    if kind in (9, 10):
        return [choose.choice((0, 1, 2)) for _ in range(choose.randrange(1, 3))]
    if kind in (13, 14):
        return choose.random() < 0.5
    return choose.choice(("mean", "sum", "none"))


def call(choose, packet, op):
    """One call, and its gradients where it has any."""
    given = []
    for _, kind, default, keyword, *_ in op.signature.rows:
        if default is not ... and (keyword or choose.random() < 0.5):
            break
        if keyword:
            break
        given.append(argument(choose, kind))
    try:
        result = packet(*given)
        results = result if isinstance(result, (tuple, list)) else [result]
        for one in results:
            if isinstance(one, rl.Tensor) and one.requires_grad and one.numel() < 1000:
                one.sum().backward(retain_graph=True)
                break
    except Exception:  # a refusal may keep nothing, either
        pass


def play(seed, calls):
    """So many calls, the same for the same seed."""
    choose, all_of_them = random.Random(seed), operators()
    rl.manual_seed(seed)
    for _ in range(calls):
        call(choose, *choose.choice(all_of_them))


def held():
    """Bytes in storages, and objects that the collector knows."""
    gc.collect()
    return rl.cpu.memory_allocated(), len(gc.get_objects())


def growth(calls, per_round=ROUND, seed=0):
    """What the last rounds added: bytes of storages, objects, KiB of the process."""
    rounds = max(WARM + 2, -(-calls // per_round))
    marks = []
    for number in range(rounds):
        play(seed, per_round)
        if number + 1 >= WARM:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            marks.append((*held(), peak))
    first, last = marks[0], marks[-1]
    return tuple(b - a for a, b in zip(first, last, strict=True)), rounds * per_round


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--round", type=int, default=ROUND)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # its map of memory is larger
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    (size, objects, process), done = growth(options.calls, options.round, options.seed)
    print(f"{done} calls: {size} bytes, {objects} objects, {process} KiB more")
    # the interpreter's own tables move by a few objects in ten thousand calls
    return int(size > 0 or objects > max(50, done // 1000) or process > 64 << 10)


if __name__ == "__main__":
    sys.exit(main())
