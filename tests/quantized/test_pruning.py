"""Masks of `ao.pruning` and their schedules are PyTorch's, element by element."""

import copy
import warnings

import pytest

import rushlight as rl
import rushlight.ao.pruning as pruning

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.ao.pruning")
RULES = [
    {"sparsity_level": 0.5},
    {"sparsity_level": 1.0, "sparse_block_shape": (1, 4), "zeros_per_block": 2},
    {"sparsity_level": 0.5, "sparse_block_shape": (1, 4), "zeros_per_block": 2},
    {"sparsity_level": 0.3, "sparse_block_shape": (4, 1)},
    {"sparsity_level": 0.6, "sparse_block_shape": (3, 5)},
    {"sparsity_level": 0.4, "sparse_block_shape": (1, 1), "norm": 1},
    {"sparsity_level": 0.0},
    {"sparsity_level": 1.0},
    {"sparsity_level": 0.5, "sparse_block_shape": (2, 4), "zeros_per_block": 3},
]
SIDES = ((rl, pruning), (torch, theirs))


def model(library):
    library.manual_seed(1)
    nn = library.nn
    return nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 12)))


def prepared(library, rules, made, config=None):
    net = model(library)
    sparsifier = made(rules)
    sparsifier.prepare(net, config)
    return net, sparsifier


def weights(net):
    return [net[0].weight.tolist(), net[2][0].weight.tolist()]


def test_masks_take_away_the_same_elements():
    for rule in RULES:
        found = []
        for library, rules in SIDES:
            make = lambda rules, rule=rule: rules.WeightNormSparsifier(**rule)  # noqa: E731
            net, sparsifier = prepared(library, rules, make)
            sparsifier.step()
            found.append(weights(net))
        assert found[0] == found[1], rule
    net, pairs = prepared(rl, pruning, lambda r: r.WeightNormSparsifier(1.0, (1, 4), 2))
    pairs.step()
    assert ((net[0].weight != 0).view(-1, 4).sum(1) == 2).all()
    found = []
    for library, rules in SIDES:
        net, band = prepared(library, rules, lambda r: r.NearlyDiagonalSparsifier(3))
        band.step()
        found.append(weights(net))
    assert found[0] == found[1]


def course(library, rules):
    """What a sparsifier and its schedule say while they go on, and what they leave."""
    config = [
        {"tensor_fqn": "0.weight", "sparsity_level": 0.7},
        {"tensor_fqn": "2.0.weight"},
    ]
    make = lambda rules: rules.WeightNormSparsifier()  # noqa: E731
    net, sparsifier = prepared(library, rules, make, config)
    yield repr(sparsifier)
    schedule = rules.CubicSL(sparsifier, delta_t=1, total_t=5)
    for _ in range(6):
        sparsifier.step()
        schedule.step()
        yield schedule.get_last_sl(), weights(net)
    yield sorted(net.state_dict()), sorted(schedule.state_dict())
    state = sparsifier.state_dict()
    yield [sorted(group) for group in state["groups"]]
    other, again = prepared(library, rules, make, config)
    again.load_state_dict(copy.deepcopy(state))
    yield weights(other) != weights(model(library)), weights(other)
    layer = {"0": ("sparse_block_shape",)}
    sparsifier.squash_mask(("sparsity_level",), layer)
    yield net[0].sparse_params, net[2][0].sparse_params, sorted(net.state_dict())
    net, sparsifier = prepared(library, rules, make)
    schedule = rules.LambdaSL(sparsifier, lambda step: step / 4)
    for _ in range(3):
        sparsifier.step()
        schedule.step()
        yield schedule.get_last_sl()


def test_sparsifiers_and_schedules_go_the_same_way():
    for mine, other in zip(course(*SIDES[0]), course(*SIDES[1]), strict=True):
        assert mine == other


def refused(library, rules):
    def stepped(made, config=None):
        prepared(library, rules, made, config)[1].step()

    def norm(**rule):
        return lambda rules: rules.WeightNormSparsifier(**rule)

    net, sparsifier = prepared(library, rules, norm())
    for call in (
        lambda: norm(norm=3)(rules), lambda: rules.BaseSparsifier(),
        lambda: rules.CubicSL(3), lambda: rules.LambdaSL(sparsifier, [1]),
        lambda: rules.CubicSL(sparsifier, init_sl=[1, 2, 3]),
        lambda: stepped(norm(), [3]), lambda: stepped(norm(), [{}]),
        lambda: stepped(norm(), [{"tensor_fqn": "0.weight", "module_fqn": "1"}]),
        lambda: sparsifier.convert(net), lambda: stepped(norm(zeros_per_block=9)),
        lambda: stepped(norm(zeros_per_block=-1)),
        lambda: stepped(lambda r: r.NearlyDiagonalSparsifier(2)),
        lambda: stepped(lambda r: r.NearlyDiagonalSparsifier(41)),
        lambda: rules.FakeSparsity(library.ones(2))(library.ones(3)),
    ):  # fmt: skip
        with pytest.raises(Exception) as caught:
            call()
        yield type(caught.value).__name__, str(caught.value).split("(")[0][:60]
    yield rules.module_to_fqn(net, net[2][0]), rules.fqn_to_module(net, "2.0.none")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rules.CubicSL(sparsifier).step()
    yield [str(each.message)[:60] for each in seen]


def test_what_does_not_go_is_refused_in_the_same_words():
    for mine, other in zip(refused(*SIDES[0]), refused(*SIDES[1]), strict=True):
        assert mine == other


def test_modules_with_masks_are_replaced_and_keep_their_hooks():
    class Half(rl.nn.Module):
        @classmethod
        def from_dense(cls, module):
            made = cls()
            made.weight = rl.nn.Parameter(module.weight[:1].detach())
            return made

        def forward(self, x):
            return x @ self.weight.T

    net, _ = prepared(rl, pruning, lambda r: r.WeightNormSparsifier())
    net[0].register_forward_hook(lambda module, args, out: out + 1)
    made = pruning.WeightNormSparsifier().convert(net, {rl.nn.Linear: Half})
    assert type(made[0]) is type(made[2][0]) is Half
    assert type(net[0]) is not Half
    assert made[0](rl.zeros(2, 16)).tolist() == [[1.0], [1.0]]
    for mapping in ("static", "dynamic"):
        with pytest.raises(NotImplementedError, match="squash_mask"):
            getattr(pruning, f"get_{mapping}_sparse_quantized_mapping")()
