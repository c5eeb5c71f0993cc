"""A float argument is a parameter of the kernel: new values need no new kernels."""

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.runtime.cpu import code_cache

CALLS = {
    "batch_norm": lambda x, e: F.batch_norm(x, None, None, training=True, eps=e),
    "instance_norm": lambda x, e: F.instance_norm(x, eps=e),
    "normalize": lambda x, e: F.normalize(x, eps=e),
    "cosine_similarity": lambda x, e: F.cosine_similarity(x, x, eps=e),
    "pairwise_distance": lambda x, e: F.pairwise_distance(x, x, eps=e),
    "elu": lambda x, e: F.elu(x, e),
    "celu": lambda x, e: F.celu(x, e),
    "leaky_relu": lambda x, e: F.leaky_relu(x, e),
    "softplus": lambda x, e: F.softplus(x, e),
    "huber_loss": lambda x, e: F.huber_loss(x, x + 1, delta=e),
    "renorm": lambda x, e: rl.renorm(x, 2, 0, e),
    "layer_norm": lambda x, e: F.layer_norm(x, (5,), eps=e),
    "rms_norm": lambda x, e: F.rms_norm(x, (5,), eps=e),
    "group_norm": lambda x, e: F.group_norm(x, 3, eps=e),
    "group_norm of weights": lambda x, e: F.group_norm(x, 3, rl.ones(6), eps=e),
    "logit": lambda x, e: rl.logit(x, eps=e),
    "gradient of logit": lambda x, e: rl.autograd.grad(
        rl.logit(x.requires_grad_(), eps=e).sum(), x
    ),
}
NORMS = {
    "layer_norm": lambda t, x, e: t.nn.functional.layer_norm(x, (5,), eps=e),
    "rms_norm": lambda t, x, e: t.nn.functional.rms_norm(x, (5,), eps=e),
    "group_norm": lambda t, x, e: t.nn.functional.group_norm(x, 3, eps=e),
}


def kernels():
    return code_cache.counts["built"] + code_cache.counts["loaded"]


@pytest.mark.parametrize("name", CALLS)
def test_new_floats_need_no_new_kernels(name):
    x = rl.linspace(0.1, 0.9, 120).reshape(4, 6, 5)
    CALLS[name](x, 0.0301)
    before = kernels()
    for k in range(5):
        CALLS[name](x, 0.0302 + k / 1e4)
    assert kernels() == before


@pytest.mark.parametrize("name", NORMS)
def test_every_call_of_a_norm_has_its_own_epsilon(name):
    torch = pytest.importorskip("torch")
    compiled = {}
    for eps in (0.1, 0.1, 0.1, 2.5, 0.1, 1e-5):
        found = []
        for t in (torch, rl):
            x = t.linspace(0.1, 9, 120, dtype=t.float64).sin().reshape(4, 6, 5)
            x = x.detach().requires_grad_()
            y = NORMS[name](t, x, eps)
            (slope,) = t.autograd.grad((y**3).sum(), x, create_graph=True)
            (second,) = t.autograd.grad((slope**2).sum(), x)
            found += [y.tolist(), slope.tolist(), second.tolist()]
        call = compiled.setdefault(
            eps, rl.compile(lambda x, e=eps: NORMS[name](rl, x, e) * 2)
        )
        for expected, result in zip(found[:3], found[3:], strict=True):
            rl.testing.assert_close(
                rl.tensor(result), rl.tensor(expected), rtol=1e-5, atol=1e-5
            )
        doubled = rl.tensor(found[0], dtype=x.dtype) * 2
        rl.testing.assert_close(call(x.detach()), doubled, rtol=1e-9, atol=1e-9)
