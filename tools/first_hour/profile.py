"""Where the host's time goes in steps of a GPT on the card."""

import cProfile
import io
import pstats
import time

import rushlight as rl
from tools.first_hour.networks import models


def main(args):
    """Where the host's time goes in steps of a GPT."""

    _, Gpt = models(rl)
    model = Gpt(50257, 768, 12, 12, length=1024).to("cuda")
    optimizer = rl.optim.AdamW(model.parameters(), 1e-4, fused=True)
    x, y = (rl.randint(0, 50257, (4, 1024), device="cuda") for _ in range(2))

    def step():
        marks = [time.perf_counter()]
        optimizer.zero_grad()
        with rl.autocast("cuda", dtype=rl.bfloat16):
            loss = rl.nn.functional.cross_entropy(model(x), y.flatten())
        marks.append(time.perf_counter())
        loss.backward()
        marks.append(time.perf_counter())
        optimizer.step()
        marks.append(time.perf_counter())
        rl.cuda.synchronize()
        marks.append(time.perf_counter())
        return [round(1e3 * (b - a), 2) for a, b in zip(marks, marks[1:])]

    for _ in range(4):
        print("forward, backward, step, wait in ms:", step(), flush=True)
    p = cProfile.Profile()
    p.enable()
    step()
    step()
    p.disable()
    for by in ("tottime", "cumtime"):
        out = io.StringIO()
        pstats.Stats(p, stream=out).sort_stats(by).print_stats(45)
        print(out.getvalue())
