"""A method's own tensor is none of the arguments that its refusals count."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


class Other:
    pass


CALLS = {
    "add": lambda m, x: x.add(Other()),
    "matmul": lambda m, x: x.matmul(Other()),
    "mm": lambda m, x: x.mm(3),
    "as a function": lambda m, x: m.mm(x, 3),
    "unbound": lambda m, x: m.Tensor.mm(x, 3),
    "by name": lambda m, x: x.mm(mat2=3),
    "reshape": lambda m, x: x.reshape("a"),
    "transpose": lambda m, x: x.transpose("a", 0),
    "softmax": lambda m, x: x.softmax("a"),
    "index_select": lambda m, x: x.index_select(0, "a"),
    "gather": lambda m, x: x.gather(0, 3),
    "addmm": lambda m, x: x.addmm(3, x),
    "amax": lambda m, x: x.amax("a"),
    "equal": lambda m, x: x.equal(3),
    "too many": lambda m, x: x.mm(x, x),
    "too many for a function": lambda m, x: m.matmul(x, x, x),
}


@pytest.mark.parametrize("name", CALLS)
def test_places_are_pytorch_s(name):
    def words(m):
        with pytest.raises(TypeError) as refused:
            CALLS[name](m, m.ones(2, 3))
        return str(refused.value)

    assert words(rl) == words(torch)


@pytest.mark.parametrize("call", [lambda x: x.sum("a"), lambda x: x.pow("a")])
def test_what_was_given_is_without_the_method_s_tensor(call):
    with pytest.raises(TypeError, match=r"got \(str\), but expected one of") as refused:
        call(rl.ones(2))
    assert "self" not in str(refused.value)


def test_a_method_of_something_else_is_refused():
    for m in (rl, torch):
        with pytest.raises(TypeError, match="descriptor 'mm' for .* doesn't apply to"):
            m.Tensor.mm(3, m.ones(2, 2))
