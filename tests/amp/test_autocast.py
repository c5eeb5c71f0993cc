"""Mixed precision has PyTorch's types, values and scales."""

import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

# Results in each precision, asked of both sides.
CALLS = {
    "matmul": lambda m, a, b: a @ b,
    "linear": lambda m, a, b: m.nn.functional.linear(a, b),
    "bmm": lambda m, a, b: m.bmm(a[None], b[None]),
    "addmm": lambda m, a, b: m.addmm(a, a, b),
    "conv2d": lambda m, a, b: m.nn.functional.conv2d(a[None, None], b[None, None]),
    "add": lambda m, a, b: a + b,
    "exp": lambda m, a, b: a.exp(),
    "softmax": lambda m, a, b: (a @ b).softmax(-1),
    "layer_norm": lambda m, a, b: m.nn.functional.layer_norm(a @ b, (4,)),
    "mse_loss": lambda m, a, b: m.nn.functional.mse_loss(a @ b, b),
    "cross_entropy": lambda m, a, b: m.nn.functional.cross_entropy(a @ b, m.arange(4)),
    "cat": lambda m, a, b: m.cat([a, a @ b]),
    "stack": lambda m, a, b: m.stack([a, a @ b]),
    "prod": lambda m, a, b: (a @ b).prod(),
    "sum": lambda m, a, b: (a @ b).sum(),
    "attention": lambda m, a, b: m.nn.functional.scaled_dot_product_attention(
        a[None], b[None], a[None]
    ),
    "double": lambda m, a, b: a.double() @ b.double(),
    "prelu": lambda m, a, b: m.nn.functional.prelu(a, b[0, :1]),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_a_result_has_the_type_and_about_the_value_that_pytorch_gives(name, dtype):
    def run(m):
        a = (m.arange(16.0).reshape(4, 4) - 8) / 16
        with m.autocast("cpu", dtype=getattr(m, dtype)):
            return CALLS[name](m, a, a.t() + 0.25)

    ours, theirs = run(rl), run(torch)
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
    close = torch.from_numpy(ours.double().numpy())
    torch.testing.assert_close(close, theirs.double(), rtol=2e-2, atol=2e-2)


BORDERS = [
    (mode, n) for mode in ("reflect", "replicate", "circular") for n in (1, 2, 3)
]


@pytest.mark.parametrize(("mode", "axes"), BORDERS)
def test_borders_have_the_type_that_pytorch_gives(mode, axes):
    def padded(m):
        x = m.ones(1, 1, *[4] * axes, dtype=m.bfloat16)
        with m.autocast("cpu"):
            return m.nn.functional.pad(x, (1, 1) * axes, mode=mode)

    assert padded(rl).dtype.name == str(padded(torch).dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_take_what_a_block_s_other_layers_give(name, given, dtype):
    def types(m):
        layer = getattr(m.nn, name)(2, 3)
        x, h = m.ones(4, 1, 2, dtype=getattr(m, dtype)), m.zeros(1, 1, 3)
        state = ((h, h) if name == "LSTM" else h,) if given else ()
        with m.autocast("cpu"):
            out, last = layer(x, *state)
        found = [out, *(last if isinstance(last, tuple) else (last,))]
        return [str(each.dtype).split(".")[-1] for each in found]

    assert types(rl) == types(torch)


def test_gradients_reach_parameters_in_their_own_type():
    layer = rl.nn.Linear(3, 2)
    with rl.autocast("cpu"):
        out = layer(rl.ones(2, 3))
        again = layer(rl.ones(2, 3))
    assert out.dtype is rl.bfloat16
    (out.float().sum() + again.float().sum()).backward()
    assert layer.weight.grad.dtype is rl.float32
    assert layer.weight.grad.tolist() == [[4.0] * 3] * 2


def test_blocks_nest_and_end():
    a = rl.ones(2, 2)
    with rl.autocast("cpu"):
        assert rl.is_autocast_enabled("cpu") and (a @ a).dtype is rl.bfloat16
        with rl.autocast("cpu", enabled=False):
            assert (a @ a).dtype is rl.float32
        with rl.autocast("cpu", dtype=rl.float16):
            assert (a @ a).dtype is rl.float16
        assert (a @ a).dtype is rl.bfloat16
    assert (a @ a).dtype is rl.float32 and not rl.is_autocast_enabled("cpu")

    @rl.autocast("cpu")
    def product():
        return a @ a

    assert product().dtype is rl.bfloat16


def test_other_threads_are_not_concerned():
    import threading

    found = []
    with rl.autocast("cpu"):
        one = threading.Thread(
            target=lambda: found.append((rl.ones(2, 2) @ rl.ones(2, 2)).dtype)
        )
        one.start()
        one.join()
    assert found == [rl.float32]


def test_what_cannot_be_cast_to_warns_or_raises_as_in_pytorch():
    for module in (rl, torch):
        with pytest.warns(UserWarning, match="target dtype is not supported"):
            module.autocast("cpu", dtype=module.float32)
        with pytest.warns(UserWarning, match="CUDA is not available or"):
            module.autocast("cuda")
        with pytest.warns(UserWarning, match="In MPS autocast, but the target dtype"):
            module.autocast("mps", dtype=module.float32)
        with module.autocast("mps"):
            assert module.is_autocast_enabled("mps")
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
            module.autocast(3)
        with pytest.raises(RuntimeError, match="Expected one of cpu"):
            module.autocast("nothing")


def scaled_steps(m):
    weight = m.nn.Parameter(m.ones(2))
    optimizer = m.optim.SGD([weight], lr=0.5)
    scaler = m.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    trace = []
    for factor in (1.0, float("inf"), 1.0, 1.0, 1.0):
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        trace.append((scaler.get_scale(), weight.detach().tolist()))
    return trace, scaler.state_dict()


def test_scaled_steps_are_pytorch_s():
    assert scaled_steps(rl) == scaled_steps(torch)


def test_a_scaler_for_a_gpu_does_nothing_without_one():
    for module in (rl, torch):
        with pytest.warns(UserWarning, match="not available"):
            scaler = module.amp.GradScaler("cuda")
        assert not scaler.is_enabled() and scaler.state_dict() == {}
        assert scaler.scale(3) == 3


def test_a_function_of_ones_own_may_ask_for_a_type():
    class Product(rl.autograd.Function):
        @staticmethod
        @rl.amp.custom_fwd(device_type="cpu", cast_inputs=rl.float32)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @rl.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad @ b.t(), a.t() @ grad

    a = rl.ones(2, 2, requires_grad=True)
    with rl.autocast("cpu"):
        out = Product.apply(a.to(rl.bfloat16), a)
    assert out.dtype is rl.float32
    out.sum().backward()
    assert a.grad.tolist() == [[4.0] * 2] * 2


def test_former_names_warn_and_do_the_same():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.warns(FutureWarning, match="torch.cuda.amp.autocast"):
            rl.cuda.amp.autocast()
        with pytest.warns(FutureWarning, match="torch.cuda.amp.GradScaler"):
            rl.cuda.amp.GradScaler()
