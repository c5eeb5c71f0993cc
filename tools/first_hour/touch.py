"""A small tour of all kinds of kernels, for compute-sanitizer."""

import rushlight as rl


def main(args):

    F, c = rl.nn.functional, dict(device="cuda")
    x = rl.randn(37, 129, **c).requires_grad_()
    for f in (
        lambda: (x * 2 + x.sin()).sum().backward(),
        lambda: x.softmax(1).sum(),
        lambda: x.sum(0),
        lambda: x.cumsum(1),
        lambda: x.sort(1),
        lambda: x.topk(5),
        lambda: x.median(),
        lambda: x.mode(1),
        lambda: x[x > 0],
        lambda: x.t().contiguous(),
        lambda: F.layer_norm(x, (129,)).sum().backward(),
        lambda: rl.randn(1 << 18, **c).sum(),
        lambda: rl.randn(1 << 18, **c).sort(),
        lambda: rl.randn(1 << 18, **c).cumsum(0),
        lambda: x.long().abs().flatten().bincount(),
        lambda: x.histc(9),
        lambda: rl.zeros(9, **c).scatter_add(
            0, rl.arange(40, **c) % 9, rl.ones(40, **c)
        ),
        lambda: rl.zeros(9, **c).index_copy(
            0, rl.arange(20, **c) % 9, rl.ones(20, **c)
        ),
        lambda: F.dropout(x, 0.5),
        lambda: F.embedding(rl.arange(9, **c), x),
        lambda: F.cross_entropy(x, rl.zeros(37, dtype=rl.int64, **c)).backward(),
        lambda: x.half() @ x.half().t(),
        lambda: rl.randn(200, 136, **c).half() @ rl.randn(136, 200, **c).half(),
        lambda: x @ x.t(),
        lambda: F.conv2d(
            rl.randn(2, 3, 17, 17, **c), rl.randn(5, 3, 3, 3, **c), padding=1
        ),
        lambda: F.max_pool2d(rl.randn(2, 3, 17, 17, **c), 2),
        lambda: rl.fft.rfft(x),
    ):
        try:
            f()
        except Exception as error:
            print(type(error).__name__, str(error)[:150])
    q = rl.randn(1, 2, 130, 64, **c).bfloat16().requires_grad_()
    F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    F.scaled_dot_product_attention(q, q, q, dropout_p=0.2).sum().backward()
    model = rl.nn.Sequential(
        rl.nn.Linear(64, 64), rl.nn.GELU(), rl.nn.Linear(64, 8)
    ).to("cuda")
    optimizer = rl.optim.AdamW(model.parameters(), fused=True)
    for _ in range(2):
        model(rl.randn(16, 64, **c)).square().mean().backward()
        optimizer.step()
    rl.cuda.synchronize()
    print("touched")
