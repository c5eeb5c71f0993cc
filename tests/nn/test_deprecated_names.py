"""Names that PyTorch keeps for old programs are there, and say what took their place."""

import pytest

import rushlight as rl


def test_old_modules_work_and_warn():
    with pytest.warns(FutureWarning, match="`nn.Container` is deprecated"):
        held = rl.nn.Container(a=rl.nn.ReLU())
    assert list(dict(held.named_children())) == ["a"]
    with pytest.warns(FutureWarning, match="use `NLLLoss` instead"):
        loss = rl.nn.NLLLoss2d(ignore_index=1)
    logs = rl.rand(2, 3, 4, 4).log_softmax(1)
    target = rl.randint(0, 3, (2, 4, 4))
    assert rl.equal(loss(logs, target), rl.nn.NLLLoss(ignore_index=1)(logs, target))


def test_old_worker_functions_warn():
    from rushlight.utils.data.backward_compatibility import worker_init_fn

    with pytest.warns(FutureWarning, match="automatically applies sharding"):
        worker_init_fn(0)
