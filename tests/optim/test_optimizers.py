"""Every optimizer against the oracle over several steps, and its refusals."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as rl
from rushlight import optim

CONFIGS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.2, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "maximize": True}),
    ("Adam", {"eps": 1e-3}),
    ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "amsgrad": True, "weight_decay": 0.2}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("RMSprop", {"weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {}),
    (
        "Adagrad",
        {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
    ),
    ("Adadelta", {}),
    ("Adadelta", {"rho": 0.8, "weight_decay": 0.1}),
    ("Adamax", {}),
    ("Adamax", {"weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"betas": (0.8, 0.9)}),
    ("RAdam", {"weight_decay": 0.1}),
    ("ASGD", {"t0": 2}),
    ("Rprop", {}),
    ("Rprop", {"etas": (0.3, 1.5)}),
]
SHAPES = [(3, 4), (5,), (), (2, 1, 3)]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the oracle is not installed")


class Race:
    """The same parameters and gradients for an optimizer here and in the oracle."""

    def __init__(self, torch, name, options, dtype="float32", skip=()):
        torch.manual_seed(2)
        self.torch = torch
        self.dtype = dtype
        self.skip = skip
        start = [torch.randn(shape).to(getattr(torch, dtype)) for shape in SHAPES]
        self.theirs = [torch.nn.Parameter(each.clone()) for each in start]
        self.ours = [
            rl.nn.Parameter(rl.tensor(each.tolist(), dtype=getattr(rl, dtype)))
            for each in start
        ]
        self.their_optimizer = getattr(torch.optim, name)(self.theirs, **options)
        self.our_optimizer = getattr(optim, name)(self.ours, **options)

    def step(self, count=1):
        for number in range(count):
            for index, (ours, theirs) in enumerate(zip(self.ours, self.theirs)):
                if (number, index) in self.skip:
                    ours.grad = theirs.grad = None
                    continue
                theirs.grad = self.torch.randn_like(theirs)
                ours.grad = rl.tensor(
                    theirs.grad.tolist(), dtype=getattr(rl, self.dtype)
                )
            self.our_optimizer.step()
            self.their_optimizer.step()

    def assert_close(self, rtol=1e-5, atol=1e-6):
        for ours, theirs in zip(self.ours, self.theirs):
            found = self.torch.tensor(ours.tolist(), dtype=theirs.dtype)
            self.torch.testing.assert_close(
                found, theirs.detach(), rtol=rtol, atol=atol
            )

    def assert_same_state(self):
        ours, theirs = (
            self.our_optimizer.state_dict(),
            (self.their_optimizer.state_dict()),
        )
        assert ours["param_groups"] == theirs["param_groups"]
        assert list(ours["state"]) == list(theirs["state"])
        for key, state in theirs["state"].items():
            assert list(ours["state"][key]) == list(state)
            for name, value in state.items():
                mine = ours["state"][key][name]
                self.torch.testing.assert_close(
                    self.torch.tensor(mine.tolist(), dtype=value.dtype),
                    value,
                    rtol=1e-5,
                    atol=1e-6,
                )


@pytest.mark.parametrize("name, options", CONFIGS, ids=str)
def test_steps_and_state_equal_the_oracles(torch, name, options):
    race = Race(torch, name, options)
    race.step(5)
    race.assert_close()
    race.assert_same_state()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_dtypes_take_the_same_steps(torch, name, dtype):
    options = {"lr": 0.05, "weight_decay": 0.1}
    race = Race(torch, name, options, dtype)
    race.step(3)
    if dtype == "float64":
        race.assert_close(1e-12, 1e-12)
    else:
        race.assert_close(2e-2, 2e-2)


@pytest.mark.parametrize(
    "name, options",
    [("SGD", {"momentum": 0.9}), ("Adam", {}), ("RMSprop", {})],
    ids=str,
)
def test_parameters_without_gradient_are_left_alone(torch, name, options):
    race = Race(torch, name, options, skip={(0, 1), (1, 2), (2, 1)})
    race.step(4)
    race.assert_close()
    race.assert_same_state()


@pytest.mark.parametrize(
    "name, options", [("SGD", {"momentum": 0.9}), ("Adam", {"amsgrad": True})], ids=str
)
def test_large_parameters_are_updated_in_pieces(torch, name, options):
    theirs = torch.nn.Parameter(torch.randn(300, 401))
    ours = rl.nn.Parameter(rl.from_numpy(theirs.detach().numpy().copy()))
    a = getattr(optim, name)([ours], lr=0.1, **options)
    b = getattr(torch.optim, name)([theirs], lr=0.1, **options)
    for _ in range(3):
        theirs.grad = torch.randn_like(theirs)
        ours.grad = rl.from_numpy(theirs.grad.numpy().copy())
        a.step()
        b.step()
    found = torch.from_numpy(ours.detach().numpy())
    torch.testing.assert_close(found, theirs.detach(), rtol=1e-5, atol=1e-6)


def test_parameters_that_are_not_contiguous_take_the_same_steps(torch):
    theirs = torch.randn(4, 3).t().requires_grad_()
    ours = rl.tensor(theirs.detach().t().tolist()).t().requires_grad_()
    for optimizer, leaf in (
        (optim.Adam([ours]), ours),
        (torch.optim.Adam([theirs]), theirs),
    ):
        (leaf * leaf).sum().backward()
        optimizer.step()
    torch.testing.assert_close(torch.tensor(ours.tolist()), theirs.detach())


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_gradients_may_lie_otherwise_than_their_parameters(torch, name):
    leaves = []
    for lib, kind in ((rl, optim), (torch, torch.optim)):
        leaf = lib.arange(12.0).reshape(4, 3).t().requires_grad_()
        leaf.grad = lib.arange(12.0).reshape(3, 4) - 5
        getattr(kind, name)([leaf], lr=0.5, foreach=lib is rl or None).step()
        leaves.append(leaf)
    torch.testing.assert_close(torch.tensor(leaves[0].tolist()), leaves[1].detach())


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_learning_rate_may_be_a_tensor(torch, name):
    race = Race(torch, name, {})
    for group, other in zip(
        race.our_optimizer.param_groups, race.their_optimizer.param_groups
    ):
        group["lr"] = rl.tensor(0.25)
        other["lr"] = 0.25
    race.step(3)
    race.assert_close()


def test_a_step_counts_as_a_change_of_the_parameter():
    leaf = rl.ones(3, requires_grad=True)
    loss = (leaf * leaf).sum()
    leaf.grad = rl.ones(3)
    optim.SGD([leaf], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize(
    "name, options",
    [
        ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
        ("Adam", {"weight_decay": 0.1}),
        ("AdamW", {"weight_decay": 0.1}),
        *((name, {}) for name in "NAdam RAdam Adadelta RMSprop Adagrad ASGD".split()),
    ],
    ids=str,
)
def test_differentiable_steps_are_recorded(torch, name, options):
    def run(lib, package):
        leaf = lib.tensor([1.0, -2.0], dtype=lib.float64, requires_grad=True)
        moved = leaf.clone()
        optimizer = getattr(package, name)(
            [moved], lr=0.5, differentiable=True, **options
        )
        for size in (1.0, 3.0):
            moved.grad = (leaf * size + 0.5).exp()
            optimizer.step()
        return lib.autograd.grad((moved * moved).sum(), leaf)[0].tolist()

    # PyTorch counts a recorded step in float32, which 1 - 0.999 ** step feels.
    assert run(rl, optim) == pytest.approx(run(torch, torch.optim), rel=1e-3)


def test_states_move_between_optimizers(torch):
    first = Race(torch, "Adam", {"lr": 0.1})
    first.step(2)
    second = optim.Adam(first.ours, lr=0.7)
    second.load_state_dict(first.our_optimizer.state_dict())
    assert second.param_groups[0]["lr"] == 0.1
    first.our_optimizer = second
    first.step(2)
    first.assert_close()


def test_loading_casts_state_to_the_parameters_dtype_but_not_the_step():
    leaf = rl.ones(2, requires_grad=True)
    leaf.grad = rl.ones(2)
    source = optim.Adam([leaf])
    source.step()
    half = rl.ones(2, dtype=rl.float64, requires_grad=True)
    target = optim.Adam([half])
    target.load_state_dict(source.state_dict())
    assert target.state[half]["exp_avg"].dtype is rl.float64
    assert target.state[half]["step"].dtype is rl.float32


def test_optimizers_survive_pickling_and_copying():
    leaf = rl.ones(2, requires_grad=True)
    leaf.grad = rl.ones(2)
    optimizer = optim.SGD([leaf], lr=0.1, momentum=0.9)
    optimizer.step()
    for twin in (pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)):
        held = twin.param_groups[0]["params"][0]
        assert held is not leaf
        assert twin.state[held]["momentum_buffer"].tolist() == [1.0, 1.0]
        held.grad = rl.ones(2)
        twin.step()


def test_printing_equals_the_oracles(torch):
    race = Race(torch, "SGD", {"lr": 0.5, "momentum": 0.9})
    assert repr(race.our_optimizer) == repr(race.their_optimizer)
    for lib, one in ((rl, race.our_optimizer), (torch, race.their_optimizer)):
        one.add_param_group({"params": [lib.ones(1, requires_grad=True)], "lr": 0.1})
    assert repr(race.our_optimizer) == repr(race.their_optimizer)


def test_closures_are_called_with_gradients_on():
    leaf = rl.ones(1, requires_grad=True)
    optimizer = optim.SGD([leaf], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (leaf * leaf).sum()
        loss.backward()
        return loss

    with rl.no_grad():
        assert optimizer.step(closure).item() == 1.0
    assert leaf.item() == 0.0


def test_gradients_are_forgotten_or_zeroed():
    leaf = rl.ones(1, requires_grad=True)
    optimizer = optim.SGD([leaf])
    leaf.grad = rl.ones(1)
    optimizer.zero_grad(set_to_none=False)
    assert leaf.grad.tolist() == [0.0]
    optimizer.zero_grad()
    assert leaf.grad is None


def test_hooks_run_around_step_and_state():
    seen = []
    leaf = rl.ones(1, requires_grad=True)
    leaf.grad = rl.ones(1)
    optimizer = optim.SGD([leaf])
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    optimizer.register_state_dict_pre_hook(lambda *_: seen.append("saving"))
    optimizer.register_state_dict_post_hook(
        lambda optimizer, state: {**state, "extra": 1}
    )
    optimizer.register_load_state_dict_pre_hook(
        lambda optimizer, state: seen.append(state["extra"])
    )
    optimizer.register_load_state_dict_post_hook(lambda *_: seen.append("loaded"))
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["before", "after", "saving", 1, "loaded"]


REFUSED = [
    lambda o, lib: o.SGD(lib.ones(2)),
    lambda o, lib: o.SGD([]),
    lambda o, lib: o.SGD([3]),
    lambda o, lib: o.SGD([{"params": {lib.ones(2)}}]),
    lambda o, lib: o.SGD([lib.ones(2, requires_grad=True) * 2]),
    lambda o, lib: o.SGD([lib.ones(2)], lr=-1),
    lambda o, lib: o.SGD([lib.ones(2)], momentum=-1),
    lambda o, lib: o.SGD([lib.ones(2)], weight_decay=-1),
    lambda o, lib: o.SGD([lib.ones(2)], nesterov=True),
    lambda o, lib: o.SGD([lib.ones(2)], fused=True, foreach=True),
    lambda o, lib: o.Adam([lib.ones(2)], betas=(1.0, 0.9)),
    lambda o, lib: o.Adam([lib.ones(2)], betas=(0.9, -0.1)),
    lambda o, lib: o.Adam([lib.ones(2)], eps=-1),
    lambda o, lib: o.Adam([lib.ones(2)], lr=lib.ones(2)),
    lambda o, lib: o.AdamW([lib.ones(2)], weight_decay=-1),
    lambda o, lib: o.RMSprop([lib.ones(2)], alpha=-1),
    lambda o, lib: o.Adagrad([lib.ones(2)], lr_decay=-1),
    lambda o, lib: o.Adadelta([lib.ones(2)], rho=2),
    lambda o, lib: o.Rprop([lib.ones(2)], etas=(2, 1)),
    lambda o, lib: o.SGD([lib.ones(2)]).add_param_group([lib.ones(1)]),
    lambda o, lib: o.SGD([lib.ones(2)]).load_state_dict(
        {"state": {}, "param_groups": []}
    ),
    lambda o, lib: o.SGD([lib.ones(2)]).load_state_dict(
        {"state": {}, "param_groups": [{"params": [0, 1]}]}
    ),
    lambda o, lib: o.SGD([("a", lib.ones(2)), lib.ones(2)]),
    lambda o, lib: o.SGD([("a", lib.ones(2))]).add_param_group(
        {"params": [lib.ones(2)]}
    ),
]


@pytest.mark.parametrize("act", REFUSED)
def test_misuse_is_refused_in_the_oracles_words(torch, act):
    with pytest.raises(Exception) as expected:
        act(torch.optim, torch)
    with pytest.raises(Exception) as found:
        act(optim, rl)
    assert type(found.value) is type(expected.value)
    ours = str(found.value).replace("rushlight", "torch")
    assert ours == str(expected.value)


def test_a_parameter_belongs_to_one_group():
    leaf = rl.ones(1)
    with pytest.raises(ValueError, match="appear in more than one parameter group"):
        optim.SGD([leaf]).add_param_group({"params": leaf})
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([leaf, leaf])


def test_groups_keep_their_own_options_and_names():
    first, second = rl.ones(1), rl.ones(1)
    optimizer = optim.SGD(
        [{"params": [("a", first)]}, {"params": [("b", second)], "lr": 0.5}], lr=0.1
    )
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5]
    assert [group["param_names"] for group in optimizer.param_groups] == [["a"], ["b"]]
