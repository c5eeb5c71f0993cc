"""Operators of PyTorch's database on the card beside the host, some at a time."""

import collections
import json
import os
import re
import subprocess
import sys
import time
import traceback

from tools.first_hour.findings import put

PER = 25  # operators of a process: an illegal address ends one
FIRST = (
    "add mul sum softmax matmul nn.functional.linear nn.functional.conv2d "
    "nn.functional.layer_norm cumsum sort topk index_select gather scatter_add "
    "nn.functional.scaled_dot_product_attention nn.functional.embedding"
).split()


def names_of_database():
    from torch.testing._internal.common_methods_invocations import op_db

    seen = dict.fromkeys(op.name for op in op_db)
    return list(seen)


def explained(op, most):
    """Where a card's results differ: sample, shapes, the largest difference."""
    from itertools import islice

    import torch

    import rushlight as rl
    from tests.cuda.sweep import called

    function = rl
    for part in op.name.split("."):
        function = getattr(function, part, None) or getattr(rl.Tensor, op.name, None)
    dtype = torch.float32 if torch.float32 in op.dtypes else next(iter(op.dtypes))
    said = []
    try:
        for number, sample in enumerate(islice(op.sample_inputs("cpu", dtype), most)):
            for a, b in zip(
                called(function, sample, "cpu"), called(function, sample, "cuda")
            ):
                a, b = a.to_dense() if a.is_sparse else a, b.cpu()
                if a.shape != b.shape:
                    said.append(f"{number}: {tuple(a.shape)} {tuple(b.shape)}")
                    continue
                a, b = a.to(rl.complex128).flatten(), b.to(rl.complex128).flatten()
                gap = (a - b).abs()
                gap = gap[~(a.isnan() & b.isnan())]
                if gap.numel() and not float(gap.max()) == 0.0:
                    most, size = float(gap.max()), float(a.abs().max())
                    count = f"{int((gap > 0).sum())} of {gap.numel()}"
                    said.append(f"{number}: gap {most:.3g} of {size:.3g}, {count}")
    except Exception as error:
        said.append(f"{type(error).__name__}: {str(error)[:100]}")
    return " | ".join(said[:4])


def worker(args):
    """Judges operators by name, in a process of its own."""
    from torch.testing._internal.common_methods_invocations import op_db

    import rushlight as rl

    with rl.backends.cudnn.flags(True, allow_tf32=False):
        for op in op_db:
            if op.name in args.names:
                print("BEGIN", op.name, flush=True)
                verdict = verdict_of(op, args)
                print("TOLD", json.dumps([op.name, verdict]), flush=True)
                if re.search(
                    "Accelerator|illegal|misaligned|LAUNCH_FAILED", str(verdict)
                ):
                    os._exit(3)  # the context is gone


def verdict_of(op, args):
    """What becomes of an operator's samples, and where they differ."""
    import rushlight as rl
    from tests.cuda.sweep import judged

    try:
        verdict = judged(op, most=args.most, compiled=args.compiled)
        rl.cuda.synchronize()
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {str(error)[:400]}"
    if str(verdict).startswith("other values"):
        verdict += "; " + explained(op, args.most)
    return verdict


def start(chunk, args):
    """A process that judges some operators."""
    command = [sys.executable, "-m", "tools.first_hour", "sweep", "--out", args.out]
    command += ["--compiled"] * args.compiled
    command += ["--most", str(args.most), "--names", *chunk]
    errors = open(os.path.join(args.out, "sweep_errors.log"), "a", encoding="utf-8")
    return chunk, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=errors, text=True
    )


def read(process, told, ended):
    """Takes in what a process has said; whether it had begun."""
    text = process.stdout.read()
    said = [line[5:] for line in text.splitlines() if line.startswith("TOLD ")]
    told |= dict(map(json.loads, said))
    begun = re.findall(r"^BEGIN (\S+)$", text, re.M)
    if begun and begun[-1] not in told:
        told[begun[-1]] = ended
    return bool(begun)


def main(args):
    """Judges all operators, or the named ones in this process."""
    if args.names:
        worker(args)
        return
    names = names_of_database()
    half = len(names) // 2
    names = {"0": names[:half], "1": names[half:]}.get(args.part, names)
    names.sort(key=lambda n: (n not in FIRST, n))
    told, running, begin = {}, [], time.time()
    chunks = [names[i : i + PER] for i in range(0, len(names), PER)]
    while (chunks or running) and time.time() - begin < args.limit:
        while chunks and len(running) < 6:
            running.append(start(chunks.pop(0), args))
        for chunk, process in [item for item in running if item[1].poll() is not None]:
            running.remove((chunk, process))
            begun = read(process, told, f"the process ended with {process.returncode}")
            rest = [n for n in chunk if n not in told]
            if begun and rest:
                chunks.insert(0, rest)
        time.sleep(0.1)
    for _, process in running:
        process.kill()
        read(process, told, "was running at the end")
    put(args.out, f"sweep_{args.part}", told)
    print(f"{len(told)} of {len(names)} operators in {time.time() - begin:.0f} s")
    groups = collections.defaultdict(list)
    for name, verdict in told.items():
        groups[str(verdict)].append(name)
    for verdict, who in sorted(groups.items(), key=lambda row: -len(row[1])):
        names = "" if verdict in ("same", "None") else f": {' '.join(who[:12])}"
        print(f"{len(who):4} {verdict[:150]}{names}")
