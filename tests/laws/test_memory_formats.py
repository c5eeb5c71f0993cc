"""Layers keep channels last where the oracle does, in results and in gradients."""

import pytest

import rushlight as rl
import rushlight.nn.functional as F

torch = pytest.importorskip("torch", reason="the oracle is not installed")

CALLS = {
    "max_pool": lambda f, n, x, w: pool(f, "max_pool", n)(x, 2),
    "max_pool_indices": lambda f, n, x, w: pool(f, "max_pool", n)(
        x, 2, return_indices=True
    ),
    "avg_pool": lambda f, n, x, w: pool(f, "avg_pool", n)(x, 2),
    "lp_pool": lambda f, n, x, w: pool(f, "lp_pool", n)(x, 2, 2),
    "adaptive_avg_1": lambda f, n, x, w: pool(f, "adaptive_avg_pool", n)(x, 1),
    "adaptive_avg": lambda f, n, x, w: pool(f, "adaptive_avg_pool", n)(x, 3),
    "adaptive_max_1": lambda f, n, x, w: pool(f, "adaptive_max_pool", n)(x, 1),
    "adaptive_max": lambda f, n, x, w: pool(f, "adaptive_max_pool", n)(x, 3),
    "conv": lambda f, n, x, w: pool(f, "conv", n)(x, w),
    "conv_dilated": lambda f, n, x, w: pool(f, "conv", n)(x, w, dilation=2),
    "conv_transpose": lambda f, n, x, w: pool(f, "conv_transpose", n)(
        x, w.transpose(0, 1)
    ),
    "batch_norm": lambda f, n, x, w: f.batch_norm(x, None, None, training=True),
    "instance_norm": lambda f, n, x, w: f.instance_norm(x),
    "group_norm": lambda f, n, x, w: f.group_norm(x, 2),
    "nearest": lambda f, n, x, w: f.interpolate(x, scale_factor=2),
    "smooth": lambda f, n, x, w: f.interpolate(
        x, scale_factor=0.5, mode=["linear", "bilinear", "trilinear"][n - 1]
    ),
    "rms_norm": lambda f, n, x, w: f.rms_norm(x, x.shape[-1:]),
    "rrelu": lambda f, n, x, w: f.rrelu(x),
    "relu": lambda f, n, x, w: f.relu(x),
    "leaky_relu": lambda f, n, x, w: f.leaky_relu(x),
    "threshold": lambda f, n, x, w: f.threshold(x, 0.1, 2.0),
    "where": lambda f, n, x, w: x.where(x > 0, 0.0),
    "maximum": lambda f, n, x, w: x.maximum(x.detach() * 2),
    "minimum": lambda f, n, x, w: x.minimum(x.detach() * 2),
    "roll": lambda f, n, x, w: x.roll((1, 2), (1, 2)),
}


def pool(functions, name, n):
    return getattr(functions, f"{name}{n}d")


def strides(module, functions, name, n, lasts):
    """Strides of results and gradients; ``lasts`` says which are channels last."""
    formats = {2: module.channels_last, 3: module.channels_last_3d}
    operands = [module.ones(2, 4, *[6] * n), module.ones(6, 4, *[2] * n)]
    for at, last in enumerate(lasts):
        if last and n > 1:
            operands[at] = operands[at].contiguous(memory_format=formats[n])
        elif last:
            operands[at] = operands[at].transpose(1, 2).contiguous().transpose(1, 2)
        operands[at] = operands[at].detach().requires_grad_()
    results = CALLS[name](functions, n, *operands)
    results = list(results) if isinstance(results, tuple) else [results]
    found = [tuple(result.stride()) for result in results]
    out = results[0]
    grads = module.autograd.grad(
        out, operands, module.ones(*out.shape), allow_unused=True
    )
    return found + [None if g is None else tuple(g.stride()) for g in grads]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_laid_out_as_the_oracles(name, n):
    for lasts in ((False, False), (True, False), (False, True), (True, True)):
        if "conv" not in name and lasts[1]:
            continue
        mine = strides(rl, F, name, n, lasts)
        theirs = strides(torch, torch.nn.functional, name, n, lasts)
        assert mine == theirs, f"{name} {n} {lasts}"


@pytest.mark.parametrize(
    "name", ["rms_norm", "relu", "max_pool", "batch_norm", "nearest"]
)
def test_a_gradient_in_channels_last_stays_so_where_it_does_on_the_oracle(name):
    found = []
    for module, functions in ((rl, F), (torch, torch.nn.functional)):
        last = module.channels_last
        x = module.ones(2, 4, 6, 6).contiguous(memory_format=last).requires_grad_()
        result = CALLS[name](functions, 2, x, None)
        grad = module.ones(*result.shape).contiguous(memory_format=last)
        (given,) = module.autograd.grad(result, [x], grad)
        found.append((tuple(result.stride()), tuple(given.stride())))
    assert found[0] == found[1]
