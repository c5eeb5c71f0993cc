"""What programs keep of parameters is what the parameters are, however they are written to."""

import gc
import weakref

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.graph import compiled_function


def drawn(*sizes, seed=0, dtype=rl.float32):
    generator = np.random.default_rng([seed, *sizes])
    return rl.tensor(generator.standard_normal(sizes)).to(dtype)


def settled(module, *args):
    """The compiled module where nobody learns, and its programs, which have run."""
    rl.compiler.reset()

    def answer(*args):
        with rl.no_grad():
            return module(*args)

    compiled = rl.compile(answer)
    for _ in range(3):
        compiled(*args)
    return compiled, [g for r in compiled_function._runners for g in r.graphs]


def kept(programs):
    return sum(len(program.prepared) for program in programs)


def two_layers():
    rl.manual_seed(3)
    return nn.Sequential(nn.Linear(24, 80), nn.ReLU(), nn.Linear(80, 8)).eval()


def normalised():
    rl.manual_seed(5)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 1),
        nn.BatchNorm2d(4), nn.Flatten(),
    )  # fmt: skip
    for norm in (model[1], model[4]):
        norm.running_mean.copy_(drawn(norm.num_features, seed=1))
        norm.running_var.copy_(drawn(norm.num_features, seed=2).abs() + 0.2)
    return model.eval()


def by_an_operator(p):
    with rl.no_grad():
        p.mul_(1.5)


def through_data(p):
    p.data.add_(0.25)


def through_a_detached_view(p):
    p.detach().view(-1)[1:].fill_(0.5)


def where_inference_is_on(p):
    with rl.inference_mode():
        p.add_(1.0)


def by_an_array(p):
    p.detach().numpy()[...] *= 0.5


def by_other_data(p):
    p.data = p.data * 3


def by_a_list_of_tensors(p):
    with rl.no_grad():
        rl._foreach_mul_([p.data], 0.3)


def by_its_storage(p):
    p.untyped_storage().copy_((p.data * 2).untyped_storage())


def by_a_step(p):
    p.grad = rl.ones_like(p)
    rl.optim.SGD([p], lr=0.1).step()


def by_adam(p):
    p.grad = rl.ones_like(p)
    rl.optim.Adam([p], lr=0.1).step()


def by_a_compiled_step(p):
    p.grad = rl.ones_like(p)
    update = rl.optim.SGD([p], lr=0.1)
    rl.compile(update.step)()


WAYS = [
    by_an_operator, through_data, through_a_detached_view, where_inference_is_on,
    by_an_array, by_other_data, by_a_list_of_tensors, by_its_storage, by_a_step, by_adam,
    by_a_compiled_step,
]  # fmt: skip


@pytest.mark.parametrize("write", WAYS, ids=lambda way: way.__name__)
def test_a_turned_weight_follows_what_is_written_to_it(write):
    model, x = two_layers(), drawn(7, 24)
    compiled, programs = settled(model, x)
    assert kept(programs) == 2
    for _ in range(3):
        write(model[0].weight)
        expected = model(x).detach()
        assert rl.equal(compiled(x), expected)
        assert rl.equal(compiled(x), expected)


@pytest.mark.parametrize("write", WAYS, ids=lambda way: way.__name__)
def test_a_folded_norm_follows_what_is_written_to_any_of_its_parts(write):
    model, x = normalised(), drawn(2, 3, 6, 6)
    compiled, programs = settled(model, x)
    assert kept(programs) == 2
    for part in (model[0].weight, model[1].bias, model[1].weight, model[4].running_mean,
                 model[3].bias, model[4].running_var):  # fmt: skip
        write(part)
        if part is model[4].running_var:
            with rl.no_grad():
                part.abs_().add_(0.1)
        expected = model(x).detach()
        rl.testing.assert_close(compiled(x), expected, rtol=2e-5, atol=2e-5)


SIZES = [  # of the input and the weight: panels that are not whole, two blocks of the depth
    ((7, 24), (80, 24)), ((2, 30), (64, 30)), ((3, 5, 40), (130, 40)), ((30, 400), (70, 400)),
    ((400, 9), (65, 9)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64], ids=str)
@pytest.mark.parametrize("given, sizes", SIZES)
def test_a_weight_in_panels_gives_the_bits_of_one_that_is_turned(given, sizes, dtype):
    x, bias = drawn(*given, dtype=dtype), drawn(sizes[0], dtype=dtype)
    weight = nn.Parameter(drawn(*sizes, dtype=dtype))
    flat = nn.Parameter(weight.detach().t())
    turned = weight.detach().t().contiguous().t()
    linear, rows = nn.functional.linear, x.flatten(0, -2)
    calls = [
        (lambda x: linear(x, weight, bias), linear(x, turned, bias)),
        (lambda x: linear(x, weight), linear(x, turned)),
        (lambda x: x.flatten(0, -2) @ flat, linear(rows, turned)),
    ]
    for call, expected in calls:
        compiled, programs = settled(call, x)
        assert "_linear_packed" in "".join(program.code for program in programs)
        assert rl.equal(compiled(x), expected)
        assert rl.equal(compiled(rl.stack([x, x], -1)[..., 0]), expected)


def test_an_array_that_looks_at_a_weight_may_write_between_calls():
    model, x = two_layers(), drawn(7, 24)
    compiled, _ = settled(model, x)
    array = model[2].weight.detach().numpy()
    for factor in (2.0, 3.0, 0.5):
        array *= factor
        assert rl.equal(compiled(x), model(x).detach())
    del array
    assert rl.equal(compiled(x), model(x).detach())


def test_statistics_that_a_norm_has_learned_are_folded_anew():
    model, x = normalised(), drawn(2, 3, 6, 6)
    compiled, _ = settled(model, x)
    model.train()
    model(drawn(8, 3, 6, 6, seed=9) * 4)
    model.eval()
    expected = model(x).detach()
    rl.testing.assert_close(compiled(x), expected, rtol=2e-5, atol=2e-5)


def test_one_function_keeps_copies_of_several_modules_and_lets_them_go():
    rl.compiler.reset()
    x, layers = drawn(4, 16), [nn.Linear(16, 16) for _ in range(3)]

    @rl.compile
    def apply(x, weight, bias):
        with rl.no_grad():
            return nn.functional.linear(x, weight, bias)

    for _ in range(4):
        for layer in layers:
            expected = layer(x).detach()
            assert rl.equal(apply(x, layer.weight, layer.bias), expected)
    gone = weakref.ref(layers[0].weight.untyped_storage())
    del layers, layer
    gc.collect()
    assert gone() is None


def test_nothing_is_kept_of_what_is_given_or_learns_or_is_written():
    x, other = drawn(7, 24), drawn(24, 40).t()
    _, programs = settled(lambda a, b: nn.functional.linear(a, b), x, other)
    assert kept(programs) == 0
    model = two_layers()
    rl.compiler.reset()
    learning = rl.compile(model)
    for _ in range(3):
        learning(x).sum().backward()
    assert kept(g for r in compiled_function._runners for g in r.graphs) == 0

    def writes(x):
        result = model(x)
        model[0].weight.mul_(0.5)
        return result

    compiled, programs = settled(writes, x)
    assert kept(programs) == 1
    with rl.no_grad():
        expected = model(x)
    assert rl.equal(compiled(x), expected)
    with rl.no_grad():
        expected = model(x)
    assert rl.equal(compiled(x), expected)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("form", ["mm", "addmm", "many", "one row"])
def test_products_with_turned_weights_have_the_same_bits(dtype, form):
    weight = nn.Parameter(drawn(33, 17, dtype=dtype).clone())
    x = drawn(*{"many": (3, 4, 17), "one row": (1, 17)}.get(form, (6, 17)), dtype=dtype)
    bias = drawn(33, dtype=dtype)

    def function(x):
        if form == "mm":
            return rl.mm(x, weight.t())
        if form == "addmm":
            return rl.addmm(bias, x, weight.t(), beta=0.5)
        return nn.functional.linear(x, weight, bias)

    compiled, programs = settled(function, x)
    assert kept(programs) == (form != "one row")
    assert rl.equal(compiled(x), function(x).detach())


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Conv1d(4, 6, 3, groups=2), nn.BatchNorm1d(6)),
        lambda: nn.Sequential(nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3, eps=0.1)),
        lambda: nn.Sequential(
            nn.Conv2d(4, 4, 3, groups=4, padding=1), nn.BatchNorm2d(4)
        ),
        lambda: nn.Sequential(nn.Conv2d(4, 8, 2, stride=2), nn.BatchNorm2d(8)).double(),
    ],
)
def test_norms_of_all_kinds_of_convolutions_are_folded(make):
    rl.manual_seed(1)
    model = make()
    first = model[0].weight
    sizes = (3, first.shape[1] * model[0].groups, *[6] * (first.ndim - 2))
    model[1].running_mean.add_(0.3)
    model.eval()
    x = drawn(*sizes, dtype=first.dtype)
    compiled, programs = settled(model, x)
    assert kept(programs) == 1
    rl.testing.assert_close(compiled(x), model(x).detach(), rtol=1e-5, atol=1e-5)


def test_norms_without_parameters_or_with_sums_that_are_seen_stay_as_they_are():
    rl.manual_seed(1)
    bare = nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4, affine=False)).eval()
    x = drawn(2, 3, 5, 5)
    compiled, programs = settled(bare, x)
    assert kept(programs) == 0
    assert rl.equal(compiled(x), bare(x).detach())
    full = nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4)).eval()

    def both(x):
        sums = full[0](x)
        return sums, full[1](sums)

    compiled, programs = settled(both, x)
    assert kept(programs) == 0
    for one, other in zip(compiled(x), both(x), strict=True):
        assert rl.equal(one, other.detach())


def test_a_setting_keeps_nothing():
    model, x = two_layers(), drawn(7, 24)
    with rl._inductor.config.patch(keep_prepared=False):
        _, programs = settled(model, x)
    assert kept(programs) == 0


def training_step(model, x):
    """A step whose products read weights across, and which writes to them."""
    update = rl.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        update.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        update.step()
        return loss

    return step


@pytest.mark.parametrize("whole", [True, False], ids=["step", "module"])
def test_programs_that_train_keep_nothing_of_what_learns(whole):
    """The copies would be made again in each step, and be memory beside the parameters."""
    rl.compiler.reset()
    x, model, other = drawn(7, 24), two_layers(), two_layers()
    mixed = rl.nn.Parameter(drawn(24, 24))

    def product(x):
        return model(rl.mm(x, mixed.t()))

    def expected(x):
        return other(rl.mm(x, mixed.detach().t()))

    called = product if whole else rl.compile(product)
    step = training_step(model, x)
    if whole:
        step = rl.compile(step)
    plain = training_step(other, x)
    for _ in range(4):
        assert rl.equal(step(), plain())
        out = called(x)
        out.square().mean().backward()
        assert rl.equal(out, expected(x))
    programs = [g for r in compiled_function._runners for g in r.graphs]
    assert programs and not kept(programs)
