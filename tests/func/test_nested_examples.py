"""``vmap`` over nested tensors: their parts are the examples, of any sizes."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]

FUNCTIONS = {
    "sine": lambda lib: lib.sin,
    "a product": lambda lib: lambda x: x @ lib.ones(3, 5),
    "a sum": lambda lib: lib.sum,
    "sums of rows": lambda lib: lambda x: x.sum(-1),
    "softmax": lambda lib: lambda x: lib.softmax(x, -1),
    "a layer": lambda lib: lambda x: lib.nn.functional.linear(x, lib.ones(4, 3)),
    "a norm": lambda lib: lambda x: lib.nn.functional.layer_norm(x, (3,)),
    "itself": lambda lib: lambda x: x,
    "a copy": lambda lib: lib.clone,
    "no number of it": lambda lib: lambda x: lib.tensor(x.dim()),
    "two outputs": lambda lib: lambda x: (x + 1, [x.sum()]),
}


def nested(lib, layout):
    parts = [lib.arange(6.0).view(2, 3), lib.arange(12.0).view(4, 3)]
    return lib.nested.nested_tensor(parts, layout=getattr(lib, layout))


def described(lib, value):
    if isinstance(value, (tuple, list)):
        return [described(lib, each) for each in value]
    parts = value.unbind() if value.is_nested else [value]
    layout = str(value.layout).rpartition(".")[2]
    return value.is_nested, layout, [(tuple(p.shape), p.tolist()) for p in parts]


@pytest.mark.parametrize("layout", ("jagged", "strided"))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_part_is_an_example(name, layout):
    found = []
    for lib in (rl, torch):
        result = lib.vmap(FUNCTIONS[name](lib))(nested(lib, layout))
        found.append(described(lib, result))
    close(*found)


def close(ours, theirs):
    if isinstance(ours, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            close(one, other)
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    else:
        assert ours == theirs


WRONG = {
    "another dimension": lambda lib, x: lib.vmap(lib.sin, in_dims=1)(x),
    "the last dimension": lambda lib, x: lib.vmap(lib.sin, in_dims=-1)(x),
    "examples in another place": lambda lib, x: lib.vmap(lib.sin, out_dims=1)(x),
    "other numbers of examples": lambda lib, x: lib.vmap(lib.mul)(x, lib.ones(3)),
    "a draw": lambda lib, x: lib.vmap(lambda e: e + lib.rand(()))(x),
}


@pytest.mark.parametrize("layout", ("jagged", "strided"))
@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused_is_refused_in_the_same_words(name, layout):
    words = []
    for lib in (rl, torch):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            WRONG[name](lib, nested(lib, layout))
        words.append((caught.type, str(caught.value).splitlines()[0][:60]))
    assert words[0] == words[1]


def test_dense_examples_go_with_parts_and_gradients_flow_to_them():
    grads = []
    for lib in (rl, torch):
        x = nested(lib, "strided")
        scale = lib.tensor([2.0, 3.0], requires_grad=True)
        out = lib.vmap(lambda part, s: (part * s).sum())(x, scale)
        sum(out.unbind()).backward()
        grads.append(scale.grad.tolist())
    assert grads[0] == grads[1] == [15.0, 66.0]


def test_the_same_draw_is_made_for_all_parts():
    rl.manual_seed(0)
    x = nested(rl, "strided") * 0
    out = rl.vmap(lambda e: e.sum() + rl.rand(()), randomness="same")(x)
    first, second = out.unbind()
    assert first == second
