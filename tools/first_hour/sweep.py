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


def main(args):
    if args.names:  # a process of its own
        from torch.testing._internal.common_methods_invocations import op_db

        import rushlight as rl
        from tests.cuda.sweep import judged

        with rl.backends.cudnn.flags(True, allow_tf32=False):
            for op in op_db:
                if op.name not in args.names:
                    continue
                print("BEGIN", op.name, flush=True)
                try:
                    verdict = judged(op, most=args.most, compiled=args.compiled)
                    rl.cuda.synchronize()
                except Exception as error:
                    verdict = f"{type(error).__name__}: {str(error)[:400]}"
                    traceback.print_exc()
                if str(verdict).startswith("other values"):
                    verdict += "; " + explained(op, args.most)
                print("TOLD", json.dumps([op.name, verdict]), flush=True)
                if verdict and re.search(
                    "Accelerator|illegal|misaligned|LAUNCH_FAILED", str(verdict)
                ):
                    os._exit(3)  # the context is gone
        return
    names = names_of_database()
    half = len(names) // 2
    names = {"0": names[:half], "1": names[half:]}.get(args.part, names)
    # those that matter most first
    names.sort(key=lambda n: (n not in FIRST, n))
    told, todo, begin = {}, names, time.time()
    chunks = [todo[i : i + PER] for i in range(0, len(todo), PER)]
    running = []

    def start(chunk):
        command = [
            sys.executable,
            "-m",
            "tools.first_hour",
            "sweep",
            "--out",
            args.out,
            "--most",
            str(args.most),
            "--names",
            *chunk,
        ]
        return chunk, subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=open(os.path.join(args.out, "sweep_errors.log"), "a"),
            text=True,
        )

    while (chunks or running) and time.time() - begin < args.limit:
        while chunks and len(running) < 6:
            running.append(start(chunks.pop(0)))
        for item in list(running):
            chunk, process = item
            if process.poll() is None:
                continue
            running.remove(item)
            text = process.stdout.read()
            done = [
                json.loads(line[5:])
                for line in text.splitlines()
                if line.startswith("TOLD ")
            ]
            told |= dict(done)
            begun = re.findall(r"^BEGIN (\S+)$", text, re.M)
            if begun and begun[-1] not in told:
                told[begun[-1]] = f"the process ended with {process.returncode}"
            rest = [n for n in chunk if n not in told]
            if begun and rest:
                chunks.insert(0, rest)
        time.sleep(0.1)
    for _, process in running:
        process.kill()
        text = process.stdout.read()
        told |= dict(
            json.loads(line[5:])
            for line in text.splitlines()
            if line.startswith("TOLD ")
        )
        begun = re.findall(r"^BEGIN (\S+)$", text, re.M)
        if begun and begun[-1] not in told:
            told[begun[-1]] = "was running at the end"
    groups = collections.defaultdict(list)
    for name, verdict in told.items():
        groups[str(verdict)].append(name)
    put(args.out, f"sweep_{args.part}", told)
    print(f"{len(told)} of {len(names)} operators in {time.time() - begin:.0f} s")
    for verdict, who in sorted(groups.items(), key=lambda row: -len(row[1])):
        print(
            f"{len(who):4} {verdict[:150]}"
            + ("" if verdict in ("same", "None") else f": {' '.join(who[:12])}")
        )
