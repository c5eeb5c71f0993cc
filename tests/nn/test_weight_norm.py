"""Weights as a length and a direction, and layers multiplied together, as in PyTorch."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def steps(m, dim):
    m.manual_seed(0)
    layer = m.nn.utils.weight_norm(m.nn.Conv1d(3, 4, 2), dim=dim)
    optimizer = m.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        layer(m.ones(2, 3, 5)).square().sum().backward()
        optimizer.step()
    state = {name: value.detach().numpy() for name, value in layer.state_dict().items()}
    m.nn.utils.remove_weight_norm(layer)
    state["after"] = layer.weight.detach().numpy()
    return state


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_steps_and_state_are_pytorch_s(dim):
    ours, theirs = steps(rl, dim), steps(torch, dim)
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        torch.testing.assert_close(
            torch.from_numpy(value), torch.from_numpy(theirs[name])
        )


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_a_weight_has_one_hook_and_none_cannot_be_removed():
    layer = rl.nn.utils.weight_norm(rl.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="two weight_norm hooks"):
        rl.nn.utils.weight_norm(layer)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        rl.nn.utils.remove_weight_norm(rl.nn.Linear(2, 2))


def test_layers_and_their_batch_norms_become_one():
    rl.manual_seed(0)
    pairs = [
        (rl.nn.Conv2d(2, 3, 3), rl.nn.BatchNorm2d(3), rl.randn(2, 2, 4, 4), False),
        (
            rl.nn.ConvTranspose2d(2, 3, 3),
            rl.nn.BatchNorm2d(3),
            rl.randn(2, 2, 4, 4),
            True,
        ),
    ]
    for layer, norm, x, transposed in pairs:
        norm(layer(x))
        layer.eval(), norm.eval()
        fused = rl.nn.utils.fuse_conv_bn_eval(layer, norm, transposed)
        assert rl.allclose(fused(x), norm(layer(x)), atol=1e-5)
    layer, norm = rl.nn.Linear(3, 4), rl.nn.BatchNorm1d(4)
    x = rl.randn(5, 3)
    norm(layer(x))
    layer.eval(), norm.eval()
    fused = rl.nn.utils.fuse_linear_bn_eval(layer, norm)
    assert rl.allclose(fused(x), norm(layer(x)), atol=1e-6)
    with pytest.raises(AssertionError, match="eval"):
        rl.nn.utils.fuse_linear_bn_eval(layer.train(), norm)
