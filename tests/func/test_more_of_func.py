"""Rules from outside, names of dimensions, parts that keep some results: as in PyTorch."""

import functools

import pytest

import rushlight as rl
from rushlight.func import (
    debug_unwrap,
    grad,
    rearrange,
    replace_all_batch_norm_modules_,
    vmap,
)
from rushlight.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

SHAPES = [
    ("a b c -> c a b", {}),
    ("a b c -> a (b c)", {}),
    ("a (b d) c -> a b d c", {"b": 3}),
    ("... c -> c ...", {}),
    ("a b c -> (c b a)", {}),
    ("a b c -> a b c 1", {}),
    ("a (b d) (c e) -> (b c) a (d e)", {"b": 3, "e": 2}),
    ("a ... -> ... a", {}),
]


@pytest.mark.parametrize(("pattern", "sizes"), SHAPES)
def test_rearranged_tensors_are_pytorchs(pattern, sizes):
    torch = pytest.importorskip("torch")
    from functorch.einops.rearrange import rearrange as theirs

    x = torch.arange(24.0).reshape(2, 3, 4)
    expected = theirs(x, pattern, **sizes)
    found = rearrange(rl.arange(24.0).reshape(2, 3, 4), pattern, **sizes)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "pattern", ["a b -> a", "a b c a", "a b c -> a a b c", "a b c -> a b d", "a -> a"]
)
def test_patterns_that_do_not_fit_are_refused(pattern):
    with pytest.raises(ValueError):
        rearrange(rl.zeros(2, 3, 4), pattern)


def test_a_rule_from_outside_is_told_the_dimensions():
    calls = []

    @rl.library.custom_op("morefunc::product", mutates_args=())
    def product(x: rl.Tensor, y: rl.Tensor, scale: float) -> rl.Tensor:
        return x * y * scale

    @rl.library.register_vmap("morefunc::product")
    def rule(info, in_dims, x, y, scale):
        calls.append((info.batch_size, info.randomness, in_dims))
        x = x.movedim(in_dims[0], -1) if in_dims[0] is not None else x.unsqueeze(-1)
        y = y.movedim(in_dims[1], -1) if in_dims[1] is not None else y.unsqueeze(-1)
        return x * y * scale, x.dim() - 1

    x, y = rl.randn(3, 4), rl.randn(4)
    found = vmap(lambda x: product(x, y, 2.0))(x)
    assert rl.allclose(found, x * y * 2)
    assert calls == [(3, "error", (0, None, None))]
    found = vmap(lambda x: product(x, y[:3], 2.0), in_dims=1)(x)
    assert rl.allclose(found, (x * y[:3, None] * 2).t())


def test_a_rule_gives_a_dimension_for_each_result():
    @rl.library.custom_op("morefunc::both", mutates_args=())
    def both(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        return x.sin(), x.cos()

    both.register_vmap(lambda info, dims, x: (both(x), (dims[0], dims[0])))
    x = rl.randn(2, 3)
    sine, cosine = vmap(both, in_dims=1, out_dims=1)(x)
    assert rl.equal(sine, x.sin()) and rl.equal(cosine, x.cos())


def test_normalisations_lose_their_running_statistics():
    model = rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.BatchNorm1d(2))
    assert replace_all_batch_norm_modules_(model) is model
    assert model[1].running_var is None and not model[1].track_running_stats


def test_what_a_tensor_stands_for_can_be_looked_at():
    seen = []

    def look(x):
        seen.append((debug_unwrap(x), debug_unwrap(x, recurse=False)))
        return x.sum()

    x = rl.ones(2, 3)
    vmap(grad(look))(x)
    whole, inner = seen[0]
    assert whole.shape == (2, 3)
    assert inner.shape == (3,)
    assert debug_unwrap(x) is x


def counted(policy):
    """How often a product is computed, with a policy and without checkpoints."""
    counts = []

    class Count(rl.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            counts.append(str(func))
            return func(*args, **(kwargs or {}))

    def part(x, y):
        return rl.sigmoid(x @ y @ y) * y

    x = rl.rand(3, 3, requires_grad=True)
    y = rl.rand(3, 3, requires_grad=True)
    rl.autograd.grad(part(x, y).sum(), (x, y))
    expected = rl.autograd.grad(part(x, y).sum(), (x, y))
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    result = checkpoint(part, x, y, use_reentrant=False, context_fn=contexts)
    with Count():
        found = rl.autograd.grad(result.sum(), (x, y))
    assert all(map(rl.equal, found, expected))
    return counts.count("aten.mm.default")


def test_a_checkpoint_keeps_what_its_policy_says():
    mm = rl.ops.aten.mm.default
    backward = 4  # two products, each by both of its factors
    assert counted([mm]) == backward
    assert counted(lambda ctx, op, *a, **k: op == mm) == backward
    assert counted([rl.ops.aten.sigmoid.default]) == backward + 2
    assert counted(lambda *a, **k: CheckpointPolicy.PREFER_RECOMPUTE) == backward + 2


@pytest.mark.parametrize(
    ("given", "kind"), [(3, TypeError), ([rl.add], ValueError), (["x"], ValueError)]
)
def test_policies_that_are_none_are_refused(given, kind):
    with pytest.raises(kind):
        create_selective_checkpoint_contexts(given)


def test_no_region_is_being_compiled():
    with pytest.raises(ValueError, match="must be in"):
        with rl.autograd.graph.region_activation_memory_budget(1.5):
            pass
    with pytest.raises(RuntimeError, match=r"inside a torch\.compile region"):
        with rl.autograd.graph.region_activation_memory_budget(0.5):
            pass


@pytest.mark.parametrize("which", [(0, None, None), (None, 0, None), (None, None, 0)])
@pytest.mark.parametrize("positive", [None, 3.0])
def test_losses_take_a_batch_in_any_argument(which, positive):
    given = [rl.rand(4, 3, 2), rl.rand(4, 3, 2), rl.rand(4, 3, 2)]
    args = [one if dim == 0 else one[0] for one, dim in zip(given, which, strict=True)]
    more = {} if positive is None else {"pos_weight": rl.full((2,), positive)}

    def loss(x, y, w):
        return rl.nn.functional.binary_cross_entropy_with_logits(x, y, weight=w, **more)

    found = vmap(loss, in_dims=which)(*args)
    for i in range(4):
        one = [
            arg[i] if dim == 0 else arg for arg, dim in zip(args, which, strict=True)
        ]
        assert rl.allclose(found[i], loss(*one))


def test_margin_losses_take_targets_in_a_batch():
    x, y = rl.rand(3, 5), rl.randint(0, 5, (4, 3))
    found = vmap(lambda y: rl.nn.functional.multi_margin_loss(x, y))(y)
    expected = [rl.nn.functional.multi_margin_loss(x, one) for one in y]
    assert rl.allclose(found, rl.stack(expected))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", ["sum", "amax", "mean", "prod", "any"])
def test_single_numbers_are_reduced_in_a_batch(name, dim, keepdim):
    x = rl.rand(3)
    function = getattr(rl, name)
    found = vmap(lambda x: function(x, dim, keepdim=keepdim))(x)
    expected = rl.stack([function(one, dim, keepdim=keepdim) for one in x])
    assert rl.equal(found, expected)


def test_a_batch_is_converted_in_the_format_of_one_example():
    x = rl.rand(2, 1, 3, 2, 2)
    found = vmap(lambda x: x.to(rl.float64, memory_format=rl.channels_last))(x)
    assert found.dtype is rl.float64 and rl.equal(found, x.double())


@pytest.mark.parametrize(
    "draw",
    [
        "m.bernoulli(x)",
        "m.poisson(x)",
        "m.normal(x, 1.0)",
        "m.normal(0.0, x)",
        "m.multinomial(x, 1)",
        "m.binomial(x, x)",
        "m._standard_gamma(x)",
        "m.distributions.Bernoulli(x).sample()",
        "m.rand_like(x)",
        "x.clone().bernoulli_(0.5)",
        "x.clone().normal_()",
        "m.nn.functional.dropout(x)",
        "m.nn.functional.alpha_dropout(x, training=True)",
    ],
)
@pytest.mark.parametrize("randomness", ["same", "different"])
def test_one_draw_is_not_made_by_the_numbers_of_many_examples(draw, randomness):
    def outcome(m):
        run = m.func.vmap(lambda x: eval(draw, {"m": m, "x": x}), randomness=randomness)
        try:
            return tuple(run(m.full((3, 2), 0.5)).shape)
        except RuntimeError as error:
            return str(error).split(".")[0]

    assert outcome(rl) == outcome(pytest.importorskip("torch"))
