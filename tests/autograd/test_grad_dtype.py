"""Gradients of another type than their leaf's, beside PyTorch's."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def gradients(m, name):
    x = m.ones(2, requires_grad=True)
    x.grad_dtype = None if name is None else getattr(m, name)
    found = [str(x.grad_dtype).rpartition(".")[2]]
    for _ in range(2):
        (x.double() * 2).sum().backward()
        found.append((str(x.grad.dtype).rpartition(".")[2], x.grad.tolist()))
    return found


@pytest.mark.parametrize("name", ["float64", "float16", "bfloat16", "float32", None])
def test_leaves_keep_gradients_of_the_type_that_was_set(name):
    assert gradients(rl, name) == gradients(torch, name)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: setattr(m.ones(2, requires_grad=True) * 2, "grad_dtype", m.float64),
        lambda m: setattr(m.ones(2), "grad_dtype", 3),
        lambda m: setattr(m.ones(2, requires_grad=True), "grad", m.ones(2).double()),
    ],
)
def test_other_types_are_refused(call):
    found = []
    for module in (rl, torch):
        with pytest.raises(RuntimeError) as error:
            call(module)
        found.append(str(error.value)[:40])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["bool", "int64", "float16", "complex64"])
def test_integers_that_numbers_with_gradients_are_copied_into_want_none(name):
    def wishes(module):
        source = module.ones(3, requires_grad=True)
        whole, part, rows = (
            module.zeros(3, dtype=getattr(module, name)) for _ in range(3)
        )
        whole.copy_(source)
        part[:2].copy_(source[:2])
        rows[:2] = source[:2]
        return [tensor.requires_grad for tensor in (whole, part, rows)]

    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    assert wishes(rl) == wishes(torch)
