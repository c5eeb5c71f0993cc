"""Initialisation against the oracle: the same stream gives the same values."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.nn import init

FILLS = [
    ("uniform_", (-1.0, 2.0), {}),
    ("normal_", (1.0, 0.5), {}),
    ("trunc_normal_", (), {}),
    ("trunc_normal_", (0.0, 1.0, 1.2, 1.5), {}),
    ("constant_", (3.0,), {}),
    ("ones_", (), {}),
    ("zeros_", (), {}),
    ("xavier_uniform_", (), {"gain": 2.0}),
    ("xavier_normal_", (), {}),
    ("kaiming_uniform_", (), {"a": 0.3}),
    ("kaiming_uniform_", (), {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_normal_", (), {"nonlinearity": "tanh"}),
]


@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 3, 3)], ids=str)
@pytest.mark.parametrize("name, args, options", FILLS, ids=str)
def test_one_seed_gives_the_oracles_values(torch, name, args, options, shape):
    ours, theirs = rl.empty(shape), torch.empty(shape)
    rl.manual_seed(9)
    assert getattr(init, name)(ours, *args, **options) is ours
    torch.manual_seed(9)
    getattr(torch.nn.init, name)(theirs, *args, **options)
    torch.testing.assert_close(torch.tensor(ours.tolist()), theirs)


@pytest.mark.parametrize(
    "name, shape, options",
    [
        ("eye_", (3, 5), {}),
        ("dirac_", (4, 2, 3), {}),
        ("dirac_", (4, 2, 3, 3), {}),
        ("dirac_", (6, 2, 3), {"groups": 3}),
    ],
    ids=str,
)
def test_patterns_equal_the_oracles(torch, name, shape, options):
    ours = getattr(init, name)(rl.empty(shape), **options)
    theirs = getattr(torch.nn.init, name)(torch.empty(shape), **options)
    assert ours.tolist() == theirs.tolist()


def test_sparse_columns_lose_the_same_rows(torch):
    rl.manual_seed(1)
    ours = init.sparse_(rl.empty(10, 4), 0.3)
    torch.manual_seed(1)
    theirs = torch.nn.init.sparse_(torch.empty(10, 4), 0.3)
    torch.testing.assert_close(torch.tensor(ours.tolist()), theirs)


@pytest.mark.parametrize(
    "args",
    [
        ("linear",),
        ("tanh",),
        ("relu",),
        ("leaky_relu",),
        ("leaky_relu", 0.2),
        ("selu",),
        ("conv_transpose2d",),
        ("sigmoid",),
    ],
    ids=str,
)
def test_gains_equal_the_oracles(torch, args):
    assert init.calculate_gain(*args) == torch.nn.init.calculate_gain(*args)


@pytest.mark.parametrize(
    "act",
    [
        lambda i, lib: i.calculate_gain("softmax"),
        lambda i, lib: i.calculate_gain("leaky_relu", True),
        lambda i, lib: i.xavier_uniform_(lib.ones(3)),
        lambda i, lib: i.kaiming_normal_(lib.ones(3, 3), mode="fan_all"),
        lambda i, lib: i.eye_(lib.ones(3)),
        lambda i, lib: i.dirac_(lib.ones(3)),
        lambda i, lib: i.dirac_(lib.ones(3, 2, 1), groups=2),
        lambda i, lib: i.sparse_(lib.ones(3), 0.1),
        lambda i, lib: i.orthogonal_(lib.ones(3)),
    ],
)
def test_misuse_is_refused_in_the_oracles_words(torch, act):
    with pytest.raises(Exception) as expected:
        act(torch.nn.init, torch)
    with pytest.raises(Exception) as found:
        act(init, rl)
    assert type(found.value) is type(expected.value)
    assert str(found.value) == str(expected.value)


def test_old_names_work_and_warn():
    with pytest.warns(FutureWarning, match="`nn.init.constant` is now deprecated"):
        assert init.constant(rl.empty(2), 4.0).tolist() == [4.0, 4.0]


def test_nothing_is_recorded():
    leaf = rl.ones(2, 2, requires_grad=True)
    assert init.xavier_uniform_(leaf).grad_fn is None
