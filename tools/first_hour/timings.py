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


def patterns():
    """Layouts, broadcasts and reductions that programs are full of."""
    both(
        "transposed copy 8192",
        case(lambda t, x: x.t().contiguous(), 8192, 8192),
        8 << 26,
    )
    both(
        "heads to rows bf16",
        case(
            lambda t, x: x.transpose(1, 2).contiguous(),
            8,
            16,
            2048,
            64,
            dtype="bfloat16",
        ),
        4 << 24,
    )
    both(
        "add a row bf16",
        case(lambda t, x: x + x[0], 32768, 4096, dtype="bfloat16"),
        4 * n,
    )
    both("add a column", case(lambda t, x: x + x[:, :1], 32768, 4096), 8 * n)
    both("x > 0", case(lambda t, x: x > 0, n), 5 * n)
    both("silu bf16", case(lambda t, x: F(t).silu(x), n, dtype="bfloat16"), 4 * n)
    both("x ** 3", case(lambda t, x: x**3, n), 8 * n)
    both("pow 1.7", case(lambda t, x: x.abs_().pow(1.7), n), 12 * n)
    both("float to bf16", case(lambda t, x: x.bfloat16(), n), 6 * n)
    both("sum of all bf16", case(lambda t, x: x.sum(), n, dtype="bfloat16"), 2 * n)
    both("var rows 32768x4096", case(lambda t, x: x.var(1), 32768, 4096), 4 * n)
    both("var columns 32768x4096", case(lambda t, x: x.var(0), 32768, 4096), 4 * n)
    both(
        "sum of channels 64x256x56x56",
        case(lambda t, x: x.sum((0, 2, 3)), 64, 256, 56, 56),
        4 * 64 * 256 * 56 * 56,
    )
    both(
        "amax rows bf16",
        case(lambda t, x: x.amax(1), 32768, 4096, dtype="bfloat16"),
        2 * n,
    )
    both("logsumexp rows", case(lambda t, x: x.logsumexp(1), 32768, 4096), 4 * n)
    both("softmax 1<<20 x 128", case(lambda t, x: x.softmax(1), 1 << 20, 128), 8 * n)
    both(
        "rms_norm 32768x4096 bf16",
        case(lambda t, x: F(t).rms_norm(x, (4096,)), 32768, 4096, dtype="bfloat16"),
        4 * n,
    )
    both(
        "group_norm 64x256x56x56",
        case(lambda t, x: F(t).group_norm(x, 32), 64, 256, 56, 56),
        8 * 64 * 256 * 56 * 56,
    )


def places():
    """Elements that are picked, turned, resampled, and products of small matrices."""

    def picked(f):
        return lambda t: (lambda x, i: lambda: f(x, i))(
            tensors(t, 65536, 1024), t.randint(0, 65536, (65536,), device="cuda")
        )

    both(
        "index_select rows 64k x 1024",
        picked(lambda x, i: x.index_select(0, i)),
        8 << 26,
    )
    both("x[i] rows 64k x 1024", picked(lambda x, i: x[i]), 8 << 26)
    both(
        "index_add rows 64k x 1024",
        picked(lambda x, i: x.new_zeros(65536, 1024).index_add_(0, i, x)),
        16 << 26,
    )
    both("flip rows", case(lambda t, x: x.flip(1), 8192, 8192), 8 << 26)
    both("roll", case(lambda t, x: x.roll(3, 1), 8192, 8192), 8 << 26)
    both("nonzero 1<<24", case(lambda t, x: (x > 1).nonzero(), 1 << 24), least=3)
    both("cummax rows 4096x4096", case(lambda t, x: x.cummax(1), 4096, 4096), 16 << 24)
    both(
        "interpolate x2 bilinear",
        case(
            lambda t, x: F(t).interpolate(x, scale_factor=2, mode="bilinear"),
            32,
            64,
            64,
            64,
        ),
    )
    both(
        "avg_pool2d 64x64x56x56",
        case(lambda t, x: F(t).avg_pool2d(x, 2), 64, 64, 56, 56),
    )
    both("fft 1024x16384", case(lambda t, x: t.fft.rfft(x), 1024, 16384))
    both(
        "bmm 256x128x128x128 bf16",
        case(lambda t, x: x @ x, 256, 128, 128, dtype="bfloat16"),
        flops=2 * 256 * 128**3,
    )
    both(
        "cholesky 64x256x256",
        case(
            lambda t, x: t.linalg.cholesky(x @ x.mT + 300 * t.eye(256, device="cuda")),
            64,
            256,
            256,
        ),
        least=3,
    )
    both("eigh 512", case(lambda t, x: t.linalg.eigh(x + x.t()), 512, 512), least=2)


def layers():
    """A convolution with its gradients, and a step over many parameters."""

    def conv(t):
        w = tensors(t, 256, 256, 3, 3, dtype="bfloat16")
        x = tensors(t, 64, 256, 28, 28, dtype="bfloat16")
        x, w = (v.to(memory_format=t.channels_last).requires_grad_() for v in (x, w))
        g = t.ones_like(x)
        return lambda: F(t).conv2d(x, w, padding=1).backward(g)

    both("conv and gradients, channels_last bf16", conv, least=5)

    def fused(t):
        ps = [
            tensors(t, 1 << k).requires_grad_()
            for k in (8, 12, 16, 20)
            for _ in range(30)
        ]
        for p in ps:
            p.grad = t.ones_like(p)
        return t.optim.AdamW(ps, fused=True).step

    both("AdamW of 120 tensors", fused, least=10)


def launches():
    """What a call of little work takes, the host's share of it."""
    few = dict(least=500)
    both("empty", lambda t: lambda: t.empty(16, device="cuda"), **few)
    both("x.view", case(lambda t, x: x.view(4, 4), 16), **few)
    both("layer_norm 8x64", case(lambda t, x: F(t).layer_norm(x, (64,)), 8, 64), **few)
    both("softmax 8x64", case(lambda t, x: x.softmax(1), 8, 64), **few)
    both("sum 8x64", case(lambda t, x: x.sum(), 8, 64), **few)
    both("mm 64", case(lambda t, x: x @ x, 64, 64), **few)
    both("cat 8x64", case(lambda t, x: t.cat([x, x]), 8, 64), **few)
    both(
        "conv2d 1x8x8x8",
        lambda t: (lambda x, w: lambda: F(t).conv2d(x, w))(
            tensors(t, 1, 8, 8, 8), tensors(t, 8, 8, 3, 3)
        ),
        **few,
    )
    both(
        "attention 1x4x16x64 bf16",
        case(
            lambda t, x: F(t).scaled_dot_product_attention(x, x, x),
            1,
            4,
            16,
            64,
            dtype="bfloat16",
        ),
        **few,
    )

    def backward(t):
        w = tensors(t, 64, 64).requires_grad_()
        return lambda: (w * 2 + 1).sum().backward()

    both("w * 2 + 1, sum, backward", backward, **few)


def steps():
    """Training steps, eager, compiled and as a graph of launches."""
    both("GPT-2 small step, bf16, 4x1024", gpt, least=3)

    def lenet(t, wrap=lambda f: f):
        model = models(t)[0]().to("cuda")
        optimizer = t.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        x, y = tensors(t, 64, 1, 28, 28), t.randint(0, 10, (64,), device="cuda")
        loss = wrap(lambda: F(t).cross_entropy(model(x), y))

        def step():
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

        return step

    both("LeNet step, 64", lenet, least=50)
    told["LeNet step, 64, compiled"] = of(rl, lenet(rl, rl.compile), 50)
    print("LeNet step, 64, compiled", told["LeNet step, 64, compiled"], flush=True)

    def captured(t):
        model = models(t)[0]().to("cuda")
        x = tensors(t, 64, 1, 28, 28)
        with t.no_grad():
            side = t.cuda.Stream()
            with t.cuda.stream(side):
                model(x)
            t.cuda.synchronize()
            graph = t.cuda.CUDAGraph()
            with t.cuda.graph(graph):
                model(x)
        return graph.replay

    both("LeNet forward as a CUDA graph", captured, least=100)


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


PARTS = (
    bandwidths,
    products,
    rows,
    gradients,
    elements,
    orders,
    patterns,
    places,
    layers,
    launches,
    steps,
)


def main(args):
    """Every case, one after the other: a card is timed alone."""
    for part in PARTS:
        if args.names and part.__name__ not in args.names:
            continue
        try:
            part()
        except Exception as error:
            print(part.__name__, type(error).__name__, str(error)[:300], flush=True)
        put(args.out, "_".join(["timings", *(args.names or ())]), told)
