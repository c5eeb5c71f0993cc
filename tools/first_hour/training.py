"""Training on the card beside the host: the same losses, step by step."""

import contextlib
import copy

import rushlight as rl
from tools.first_hour.findings import put
from tools.first_hour.networks import models


def run(model, batches, device, make, steps, mode=None):
    model = copy.deepcopy(model).to(device)
    optimizer, losses = make(model.parameters()), []
    scaler = rl.amp.GradScaler("cuda") if mode == "float16" else None
    for step in range(steps):
        x, y = (t.to(device) for t in batches[step % len(batches)])
        optimizer.zero_grad()
        cast = (
            rl.autocast(device, dtype=getattr(rl, mode))
            if mode
            else contextlib.nullcontext()
        )
        with cast:
            loss = rl.nn.functional.cross_entropy(model(x), y.flatten())
        (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(optimizer), scaler.update()
        else:
            optimizer.step()
        losses.append(loss.item())
    return losses


def main(args):

    LeNet, Gpt = models(rl)

    told = {}
    rl.manual_seed(0)
    images = [(rl.randn(32, 1, 28, 28), rl.randint(0, 10, (32,))) for _ in range(4)]
    texts = [
        (rl.randint(0, 256, (8, 128)), rl.randint(0, 256, (8, 128))) for _ in range(4)
    ]
    cases = {
        "lenet sgd": (
            LeNet(),
            images,
            lambda p: rl.optim.SGD(p, 0.05, momentum=0.9),
            100,
            None,
        ),
        "gpt adamw": (Gpt(), texts, lambda p: rl.optim.AdamW(p, 1e-3), 60, None),
        "gpt adamw fused": (
            Gpt(),
            texts,
            lambda p: rl.optim.AdamW(p, 1e-3, fused=p and next(iter(p)) is not None),
            1,
            None,
        ),
        "gpt bf16": (Gpt(), texts, lambda p: rl.optim.AdamW(p, 1e-3), 60, "bfloat16"),
        "gpt fp16 scaled": (
            Gpt(),
            texts,
            lambda p: rl.optim.AdamW(p, 1e-3),
            60,
            "float16",
        ),
    }
    del cases["gpt adamw fused"]
    for name, (model, batches, make, steps, mode) in cases.items():
        try:
            here = run(model, batches, "cpu", make, steps)
            begin = rl.cuda.memory_allocated()
            there = run(model, batches, "cuda", make, steps, mode)
            gap = max(abs(a - b) / max(abs(a), 1e-6) for a, b in zip(here, there))
            told[name] = dict(
                first=here[0],
                last=here[-1],
                last_there=there[-1],
                worst_relative_gap=gap,
                bytes_left=rl.cuda.memory_allocated() - begin,
            )
        except Exception as error:
            told[name] = f"{type(error).__name__}: {str(error)[:300]}"
        print(name, told[name], flush=True)
    put(args.out, "train", told)
