"""A float argument is a parameter of the kernel: new values need no new kernels."""

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.backends.cpu import cache

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
    "logit": lambda x, e: rl.logit(x, eps=e),
}
# May only shrink: row kernels and `logit` still have `eps` as a constant.
COMPILED_IN = {"layer_norm", "rms_norm", "logit"}


def kernels():
    return cache.counts["built"] + cache.counts["loaded"]


@pytest.mark.parametrize("name", CALLS)
def test_new_floats_need_no_new_kernels_but_where_listed(name):
    x = rl.linspace(0.1, 0.9, 120).reshape(4, 6, 5)
    CALLS[name](x, 0.0301)
    before = kernels()
    for k in range(5):
        CALLS[name](x, 0.0302 + k / 1e4)
    assert (kernels() > before) == (name in COMPILED_IN)
