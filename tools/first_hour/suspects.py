"""What a card may refuse, or race on, by reading the sources: a process each."""

import itertools
import json
import subprocess
import sys
import time

from tools.first_hour.findings import put


def main(args):
    """One process each: an illegal address in one must not hide the next."""
    if not args.names:
        told = {}
        running = {
            name: subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tools.first_hour",
                    "suspects",
                    "--out",
                    args.out,
                    "--names",
                    name,
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in SUSPECTS
            if name != "out of memory"
        }
        end = time.time() + 150
        for name in SUSPECTS:
            process = running.get(name) or subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tools.first_hour",
                    "suspects",
                    "--out",
                    args.out,
                    "--names",
                    name,
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                out, err = process.communicate(timeout=max(1, end - time.time()))
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
            told[name] = (out.strip().splitlines() or [""])[
                -1
            ] + f"  rc={process.returncode}"
            if process.returncode:
                told[name] += "\n" + err.strip()[-1500:]
            print(f"{name:22}", told[name], flush=True)
        put(args.out, "suspects", told)
        return
    import rushlight as rl

    print(SUSPECTS[args.names[0]](rl))


def suspect_alignment(rl):
    """Operands of cuBLASLt that are two bytes off a multiple of 16."""
    worst = 0.0
    for dtype in (rl.float16, rl.bfloat16, rl.float32):
        for off in (1, 2, 3, 4):
            flat = rl.randn(256 * 256 + 8, device="cuda").to(dtype)
            a, b = (
                flat[off : off + 256 * 256].view(256, 256),
                flat[: 256 * 256].view(256, 256),
            )
            got, want = (a @ b).float().cpu(), a.float().cpu() @ b.float().cpu()
            worst = max(worst, float((got - want).abs().max()))
    return f"worst error {worst:.3g} (expected < 0.3)"


def suspect_many_registers(rl):
    """Blocks of 512 threads whose kernel would need more than 128 registers."""
    x = rl.randn(64, 4096, device="cuda", dtype=rl.float64)

    def fused(x):
        a = x.softmax(-1)
        b = rl.lgamma(x.abs() + 1)
        c = rl.erfinv(x.tanh() * 0.9)
        return (a * b + c).logsumexp(-1) + x.var(-1) + (b * c).sum(-1)

    got = rl.compile(fused)(x)
    got = rl.compile(fused)(x)
    return f"worst {float((got.cpu() - fused(x.cpu())).abs().max()):.3g}"


def suspect_backward_stream(rl):
    """A forward pass in a side stream whose backward() is called outside of it."""
    wrong = 0
    for _ in range(20):
        w = rl.ones(1 << 22, device="cuda").requires_grad_()
        s = rl.cuda.Stream()
        s.wait_stream(rl.cuda.current_stream())
        with rl.cuda.stream(s):
            y = w
            for _ in range(20):
                y = y * 1.01
            y = y.sum()
        y.backward()
        g = w.grad.cpu()
        wrong += bool((g - 1.01**20).abs().max() > 1e-3)
    return f"{wrong} of 20 wrong"


def suspect_wgmma(rl):
    """Products by warpgroups without cuBLASLt, in all four orders and with ragged edges."""
    from rushlight.runtime.cuda import libraries

    libraries.CUBLAS_LT.found, libraries.CUBLAS_LT.missing = None, "left out"
    sizes = (64, 64, 64), (256, 512, 1024), (8192, 256, 512), (1000, 1000, 520)
    cases = itertools.product((rl.float16, rl.bfloat16), sizes, (0, 1), (0, 1))
    worst, at = 0.0, "exact"
    for dtype, (m, n, k), ta, tb in cases:
        a = rl.randint(-3, 4, (k, m) if ta else (m, k), device="cuda").to(dtype)
        b = rl.randint(-3, 4, (n, k) if tb else (k, n), device="cuda").to(dtype)
        a, b = a.mT if ta else a, b.mT if tb else b
        want = (a.float().cpu() @ b.float().cpu()).to(dtype).float()
        error = float(((a @ b).float().cpu() - want).abs().max())
        if error > worst:
            worst, at = error, f"{dtype} {m} {n} {k} {ta} {tb}"
    return f"worst error {worst} ({at})"


def suspect_attention(rl):
    """Forward and gradients by units and by warpgroups beside the composition in float64."""
    F, worst = rl.nn.functional, {}
    for dtype in (rl.bfloat16, rl.float16):
        for q, k, e, causal in (
            (128, 128, 64, True),
            (130, 77, 64, False),
            (512, 512, 128, True),
            (33, 500, 96, False),
            (256, 256, 256, True),
        ):
            x = [rl.randn(2, 3, n, e).requires_grad_() for n in (q, k, k)]
            y = [t.detach().to("cuda", dtype).requires_grad_() for t in x]
            want = F.scaled_dot_product_attention(
                *[t.double() for t in x], is_causal=causal
            )
            got = F.scaled_dot_product_attention(*y, is_causal=causal)
            g = rl.randn(*want.shape)
            want.backward(g.double())
            got.backward(g.to("cuda", dtype))
            gaps = [float((got.float().cpu() - want.float()).abs().max())]
            gaps += [
                float((b.grad.float().cpu() - a.grad).abs().max()) for a, b in zip(x, y)
            ]
            worst[f"{dtype} {q} {k} {e} {causal}"] = [round(v, 4) for v in gaps]
    return json.dumps(worst)


def suspect_large(rl):
    """More than 2**31 elements, and offsets beyond 32 bits."""
    x = rl.ones((1 << 31) + 77, dtype=rl.int8, device="cuda")
    y = x + x
    total = int(y.sum()) if False else int((y[-77:]).sum()) + int(y[: 1 << 20].sum())
    z = rl.zeros(3, 1 << 30, dtype=rl.uint8, device="cuda").t()[5:9].contiguous()
    return f"{total == 2 * 77 + (2 << 20)}, {z.shape}"


def suspect_capture(rl):
    """A graph captured with kernels that were never launched before."""
    x = rl.randn(1003, device="cuda")
    g = rl.cuda.CUDAGraph()
    with rl.cuda.graph(g):
        y = (x * 3.7).sinh().cumsum(0)
    g.replay()
    rl.cuda.synchronize()
    return (
        f"worst {float((y.cpu() - (x.cpu() * 3.7).sinh().cumsum(0)).abs().max()):.3g}"
    )


def suspect_out_of_memory(rl):
    kept = []
    try:
        while True:
            kept.append(rl.empty(1 << 30, dtype=rl.uint8, device="cuda"))
    except rl.cuda.OutOfMemoryError as error:
        n = len(kept)
        kept.clear()
        rl.cuda.empty_cache()
        x = rl.ones(10, device="cuda") + 1
        return (
            f"after {n} GiB: {str(error).splitlines()[0][:120]}; then {x.sum().item()}"
        )


def suspect_bad_index(rl):
    try:
        rl.nn.functional.embedding(
            rl.tensor([5], device="cuda"), rl.ones(3, 4, device="cuda")
        )
        rl.cuda.synchronize()  # it is told to who waits
    except IndexError as error:
        return (
            f"IndexError: {error}; then {(rl.ones(3, device='cuda') + 1).sum().item()}"
        )
    return "no error"


def suspect_libraries(rl):
    from rushlight.runtime.cuda import libraries

    return {door.name: door.present() or door.missing[:80] for door in libraries.ALL}


SUSPECTS = {
    "libraries": suspect_libraries,
    "alignment": suspect_alignment,
    "wgmma": suspect_wgmma,
    "attention": suspect_attention,
    "many registers": suspect_many_registers,
    "backward stream": suspect_backward_stream,
    "capture": suspect_capture,
    "bad index": suspect_bad_index,
    "large": suspect_large,
}
