"""What nodes of the graph are called and show, beside PyTorch."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

# One call a line, of a matrix `x` of 2 x 2 and of images `i` of 1 x 1 x 4 x 4.
CALLS = """
x.sum() | x.sum(0) | x.sum(0, keepdim=True) | x.mean() | x.mean(1) | x.prod() | x.prod(0)
x.max() | x.max(0)[0] | x.min() | x.min(1)[0] | x.median() | x.median(0)[0]
x.nanmedian() | x.nanmedian(0)[0] | x.amax(0) | x.var() | x.std(0) | x.norm()
x.logsumexp(0) | x.cumsum(0) | x.sort(0)[0] | x.sort(stable=True)[0] | x.topk(1)[0]
x + x | x + 1 | x - x | 1 - x | x * x | x * 3 | x / x | x / 2 | 2 / x | -x | x ** 2
x ** x | 2 ** x | x % 2 | m.square(x) | m.div(x, 2, rounding_mode="floor")
m.clamp(x, 0, 1) | m.clamp(x, x, x) | m.clamp_min(x, 0) | m.where(x > 0, x, x)
m.lerp(x, x, 0.5) | m.lerp(x, x, x) | x.masked_fill(x > 0, 1.0) | x.round()
x.round(decimals=1) | x.exp() | x.abs() | x.sigmoid() | x.tanh() | x.relu() | x.sqrt()
x.reshape(4) | x.view(4) | x.flatten() | x.t() | x.mT | x.permute(1, 0) | x[0] | x[:, :1]
x[[0]] | x.narrow(0, 0, 1) | x[None].squeeze(0) | x[None, None].squeeze((0, 1))
x.unsqueeze(0) | x.expand(2, 2, 2) | x.repeat(2, 2) | x.clone() | x.double() | x.tril()
m.cat([x, x]) | m.stack([x, x]) | x.split(1)[0] | x.unbind()[0] | x.roll(1) | x.flip(0)
x.gather(0, z) | x.scatter(0, z, 0.0) | x.scatter(0, z, x) | x.index_select(0, z[0])
x.index_fill(0, z[0], 1.0) | x @ x | m.addmm(x, x, x) | m.bmm(x[None], x[None])
F.linear(x, x) | F.linear(x, x, x[0]) | F.linear(x[None], x, x[0]) | F.linear(x[None], x)
F.cross_entropy(x, z[0]) | F.nll_loss(x, z[0]) | F.nll_loss(i, t) | F.mse_loss(x, x)
F.huber_loss(x, x, reduction="none") | F.smooth_l1_loss(x, x, reduction="none")
F.binary_cross_entropy_with_logits(x, x, reduction="none") | F.gelu(x) | F.glu(x)
F.layer_norm(x, (2,)) | F.softmax(x, 0) | F.log_softmax(x, 0) | F.embedding(z, x)
F.pad(x, (1, 1)) | F.pad(i, (1, 1, 1, 1), "reflect") | F.pad(i, (1, 1, 1, 1), "replicate")
F.interpolate(i, scale_factor=2.0) | F.interpolate(i, scale_factor=2.0, mode="bilinear")
F.interpolate(i, 3, mode="bilinear", antialias=True)
F.interpolate(i, 3, mode="bicubic") | F.interpolate(i[0], 3, mode="linear")
F.grid_sample(i, m.zeros(1, 2, 2, 2), align_corners=False) | F.avg_pool2d(i, 2)
F.max_pool2d(i, 2) | F.conv2d(i, i) | F.pdist(x) | x.clone().copy_(x)
"""
# Of these, what is saved is listed and compared.
LISTED = "x ** 2 | x.sum(0) | x.exp() | m.cat([x, x]) | x * x | F.gelu(x) | x.expand(2, 2, 2)"


def value_of(m, text):
    x = m.tensor([[0.5, 1.5], [2.5, 0.25]], requires_grad=True)
    i = m.linspace(0, 1, 16).reshape(1, 1, 4, 4).detach().requires_grad_()
    z, t = m.zeros(1, 2, dtype=m.int64), m.zeros(1, 4, 4, dtype=m.int64)
    return eval(text, {"m": m, "F": m.nn.functional, "x": x, "i": i, "z": z, "t": t})


def calls(text):
    return [call.strip() for call in text.replace("\n", "|").split("|") if call.strip()]


def test_nodes_have_pytorchs_names_before_and_after_backward():
    for call in calls(CALLS):
        ours, theirs = (value_of(m, call) for m in (rl, torch))
        assert ours.grad_fn.name() == theirs.grad_fn.name(), call
        ours.sum().backward()
        assert ours.grad_fn.name() == theirs.grad_fn.name(), call


def test_a_node_lists_what_it_saved_under_pytorchs_names():
    for call in calls(LISTED):
        ours, theirs = (value_of(m, call).grad_fn for m in (rl, torch))
        names = {name for name in dir(theirs) if name.startswith("_saved_")}
        listed = {name for name in dir(ours) if name.startswith("_saved_")}
        assert listed <= names, call
        for name in listed:
            mine, other = getattr(ours, name), getattr(theirs, name)
            if isinstance(mine, rl.Tensor):
                assert mine.tolist() == other.tolist(), (call, name)
            else:
                assert mine == other, (call, name)


def test_what_a_node_saved_is_listed_raw_where_it_is_a_tensor():
    node = (rl.ones(2, requires_grad=True) ** 2).grad_fn
    found = [name for name in dir(node) if "saved_" in name]
    assert sorted(found) == ["_raw_saved_self", "_saved_exponent", "_saved_self"]
