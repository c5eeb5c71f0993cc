"""Times on the card beside PyTorch's: bandwidths, products, launches, steps."""

import torch

import rushlight as rl
from tools.first_hour.findings import put
from tools.first_hour.networks import models

n = 1 << 27
told: dict = {}


def of(t, f, least=20):
    f()
    f()
    t.cuda.synchronize()
    begin, end = t.cuda.Event(enable_timing=True), t.cuda.Event(enable_timing=True)
    best = 1e9
    for _ in range(5):
        begin.record()
        for _ in range(least):
            f()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / least)
    return best


def both(name, make, n_bytes=0, flops=0, least=20):
    row = {}
    for key, t in (("rushlight", rl), ("torch", torch)):
        try:
            row[key] = of(t, make(t), least)
        except Exception as error:
            row[key] = f"{type(error).__name__}: {str(error)[:120]}"
    a, b = row.values()
    if isinstance(a, float) and isinstance(b, float):
        row["ratio"] = a / b
        if n_bytes:
            row["GB/s"] = n_bytes / a / 1e6
        if flops:
            row["TFLOP/s"] = flops / a / 1e9
    told[name] = row
    print(
        f"{name:34}",
        {k: (round(v, 4) if isinstance(v, float) else v) for k, v in row.items()},
        flush=True,
    )


def tensors(t, *shape, dtype="float32"):
    return t.randn(*shape, device="cuda").to(getattr(t, dtype))


def case(f, *shape, dtype="float32"):
    def make(t):
        x = tensors(t, *shape, dtype=dtype)
        return lambda: f(t, x)

    return make


def F(t):
    return t.nn.functional


def bandwidths():
    both(
        "copy_ f32 512 MB",
        lambda t: (lambda x, y: lambda: y.copy_(x))(tensors(t, n), tensors(t, n)),
        8 * n,
    )
    both("x * 2 f32", case(lambda t, x: x * 2.0, n), 8 * n)
    both("x + x f32", case(lambda t, x: x + x, n), 8 * n)
    both(
        "gelu bf16",
        case(lambda t, x: t.nn.functional.gelu(x), n, dtype="bfloat16"),
        4 * n,
    )
    both(
        "add transposed 8192",
        lambda t: (lambda x, y: lambda: x + y.t())(
            tensors(t, 8192, 8192), tensors(t, 8192, 8192)
        ),
        12 << 26,
    )
    both("sum of all", case(lambda t, x: x.sum(), n), 4 * n)
    both("sum rows 32768x4096", case(lambda t, x: x.sum(1), 32768, 4096), 4 * n)
    both("sum columns 32768x4096", case(lambda t, x: x.sum(0), 32768, 4096), 4 * n)
    both("softmax 32768x4096", case(lambda t, x: x.softmax(1), 32768, 4096), 8 * n)
    both(
        "layer_norm 32768x4096 bf16",
        case(
            lambda t, x: t.nn.functional.layer_norm(x, (4096,)),
            32768,
            4096,
            dtype="bfloat16",
        ),
        4 * n,
    )
    both("cumsum 1<<27", case(lambda t, x: x.cumsum(0), n), 8 * n, least=5)
    both("sort 1<<24", case(lambda t, x: x.sort(), 1 << 24), least=3)
    both(
        "topk 50 of 4096x50257",
        case(lambda t, x: x.topk(50), 4096, 50257),
        4 * 4096 * 50257,
        least=3,
    )
    both(
        "embedding 64k x 1024",
        lambda t: (lambda w, i: lambda: t.nn.functional.embedding(i, w))(
            tensors(t, 50257, 1024), t.randint(0, 50257, (65536,), device="cuda")
        ),
        8 << 26,
    )
    both(
        "cross_entropy 8192x50257",
        lambda t: (lambda x, i: lambda: t.nn.functional.cross_entropy(x, i))(
            tensors(t, 8192, 50257), t.randint(0, 50257, (8192,), device="cuda")
        ),
        4 * 8192 * 50257,
        least=5,
    )
    both("rand 1<<27", lambda t: lambda: t.rand(n, device="cuda"), 4 * n)
    both("a + b, 64x64 (launch)", case(lambda t, x: x + x, 64, 64), least=2000)


def products():
    for m in (1024, 4096, 8192):
        both(
            f"mm bf16 {m}",
            case(lambda t, x: x @ x, m, m, dtype="bfloat16"),
            flops=2 * m**3,
            least=5,
        )
    both(
        "mm f32 4096", case(lambda t, x: x @ x, 4096, 4096), flops=2 * 4096**3, least=5
    )
    for causal in (False, True):
        both(
            f"attention 4x16x4096x64 bf16 {causal}",
            case(
                lambda t, x, causal=causal: (
                    t.nn.functional.scaled_dot_product_attention(
                        x, x, x, is_causal=causal
                    )
                ),
                4,
                16,
                4096,
                64,
                dtype="bfloat16",
            ),
            flops=4 * 4 * 16 * 4096**2 * 64 / (1 + causal),
            least=5,
        )

    def attention_backward(t):
        x = tensors(t, 4, 16, 2048, 64, dtype="bfloat16").requires_grad_()
        g = tensors(t, 4, 16, 2048, 64, dtype="bfloat16")
        return lambda: t.nn.functional.scaled_dot_product_attention(
            x, x, x, is_causal=True
        ).backward(g)

    both("attention and gradients 2048", attention_backward, least=5)
    both(
        "conv2d 64x64x56x56 3x3 bf16",
        lambda t: (lambda x, w: lambda: t.nn.functional.conv2d(x, w, padding=1))(
            tensors(t, 64, 64, 56, 56, dtype="bfloat16"),
            tensors(t, 64, 64, 3, 3, dtype="bfloat16"),
        ),
        least=5,
    )


def rows():
    both("sum columns 4096x768", case(lambda t, x: x.sum(0), 4096, 768), 4 * 4096 * 768)
    both("sum columns 1<<20 x 64", case(lambda t, x: x.sum(0), 1 << 20, 64), 4 << 26)
    both(
        "softmax columns 4096x4096",
        case(lambda t, x: x.softmax(0), 4096, 4096),
        8 << 24,
    )
    both(
        "layer_norm 4096x768",
        case(lambda t, x: F(t).layer_norm(x, (768,)), 4096, 768),
        8 * 4096 * 768,
    )


def gradients():
    def ln(t):
        x = tensors(t, 8192, 1024).requires_grad_()
        w = tensors(t, 1024).requires_grad_()
        b = tensors(t, 1024).requires_grad_()
        g = tensors(t, 8192, 1024)
        return lambda: F(t).layer_norm(x, (1024,), w, b).backward(g)

    both("layer_norm and gradients 8192x1024", ln, least=5)

    def ce(t):
        x = tensors(t, 4096, 50257).requires_grad_()
        i = t.randint(0, 50257, (4096,), device="cuda")
        return lambda: F(t).cross_entropy(x, i).backward()

    both("cross_entropy and gradients 4096x50257", ce, least=5)

    def emb(t):
        w = tensors(t, 50257, 768).requires_grad_()
        i = t.randint(0, 50257, (4, 1024), device="cuda")
        g = tensors(t, 4, 1024, 768)
        return lambda: F(t).embedding(i, w).backward(g)

    both("embedding and gradients 50257x768", emb, least=5)


def elements():
    both(
        "dropout f16 1<<26",
        case(lambda t, x: F(t).dropout(x, 0.1), 1 << 26, dtype="float16"),
    )
    both("randn 1<<26", lambda t: lambda: t.randn(1 << 26, device="cuda"), 4 << 26)
    both(
        "index 1-D 1<<22",
        lambda t: (lambda x, i: lambda: x[i])(
            tensors(t, 1 << 24), t.randint(0, 1 << 24, (1 << 22,), device="cuda")
        ),
    )
    both(
        "gather rows 4096x4096",
        lambda t: (lambda x, i: lambda: x.gather(1, i))(
            tensors(t, 4096, 4096), t.randint(0, 4096, (4096, 4096), device="cuda")
        ),
    )
    both(
        "scatter_add 1<<22",
        lambda t: (lambda x, i, y: lambda: x.scatter_add_(0, i, y))(
            tensors(t, 1 << 20),
            t.randint(0, 1 << 20, (1 << 22,), device="cuda"),
            tensors(t, 1 << 22),
        ),
    )
    both("masked_select 1<<24", case(lambda t, x: x[x > 0], 1 << 24), least=3)
    both(
        "batch_norm 64x64x56x56",
        case(
            lambda t, x: F(t).batch_norm(x, None, None, training=True), 64, 64, 56, 56
        ),
        least=5,
    )
    both(
        "max_pool2d 64x64x56x56",
        case(lambda t, x: F(t).max_pool2d(x, 3, 2, 1), 64, 64, 56, 56),
        least=5,
    )
    both("cat 2 x 1<<25", case(lambda t, x: t.cat([x, x]), 1 << 25), 16 << 25, least=5)
    both("exp f32", case(lambda t, x: x.exp(), n), 8 * n)
    both("sin f32", case(lambda t, x: x.sin(), n), 8 * n)
    both("tanh bf16", case(lambda t, x: x.tanh(), n, dtype="bfloat16"), 4 * n)
    both("argmax rows 32768x4096", case(lambda t, x: x.argmax(1), 32768, 4096), 4 * n)
    both(
        "linear 64x1024 bf16",
        lambda t: (lambda x, w, b: lambda: F(t).linear(x, w, b))(
            tensors(t, 64, 1024, dtype="bfloat16"),
            tensors(t, 1024, 1024, dtype="bfloat16"),
            tensors(t, 1024, dtype="bfloat16"),
        ),
        least=200,
    )


def orders():
    both("sort rows 4096x1024", case(lambda t, x: x.sort(1), 4096, 1024))
    both(
        "sort i64 1<<22",
        lambda t: (lambda x: lambda: x.sort())(
            t.randint(0, 1 << 40, (1 << 22,), device="cuda")
        ),
    )
    both(
        "unique 1<<22",
        lambda t: (lambda x: lambda: x.unique())(
            t.randint(0, 1 << 16, (1 << 22,), device="cuda")
        ),
    )
    both("histc 1<<24", case(lambda t, x: x.histc(100, -3, 3), 1 << 24))
    both(
        "bincount 1<<24",
        lambda t: (lambda x: lambda: x.bincount())(
            t.randint(0, 1000, (1 << 24,), device="cuda")
        ),
    )


def gpt(t, size=(50257, 768, 12, 12, 1024), batch=4):
    _, Gpt = models(t)
    model = Gpt(*size[:4], length=size[4]).to("cuda")
    optimizer = t.optim.AdamW(model.parameters(), 1e-4, fused=True)
    x, y = (t.randint(0, size[0], (batch, size[4]), device="cuda") for _ in range(2))

    def step():
        optimizer.zero_grad()
        with t.autocast("cuda", dtype=t.bfloat16):
            loss = t.nn.functional.cross_entropy(model(x), y.flatten())
        loss.backward()
        optimizer.step()

    return step


def main(args):
    """Every case, one after the other: a card is timed alone."""
    for part in (bandwidths, products, rows, gradients, elements, orders):
        part()
    both("GPT-2 small step, bf16, 4x1024", gpt, least=3)
    put(args.out, "timings", told)
