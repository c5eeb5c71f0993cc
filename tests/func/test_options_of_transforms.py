"""Options of the transformations that leave values as they are, or change what is refused."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def plain(tree):
    """A nest of tensors as lists."""
    if isinstance(tree, (tuple, list)):
        return [plain(one) for one in tree]
    if isinstance(tree, float):
        return round(tree, 5)
    return plain(tree.tolist()) if hasattr(tree, "tolist") else tree


def outcome(m, program):
    try:
        return plain(program(m))
    except Exception as error:
        return type(error).__name__, str(error).partition("(<")[0].partition(",")[0][
            -60:
        ]


def counted(m, chunk):
    """How often the gradient's own function runs for six rows."""
    seen = []

    class Double(m.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            seen.append(1)
            return grad * 2

    found = m.func.jacrev(Double.apply, chunk_size=chunk)(m.ones(6))
    return found, len(seen)


def two_leaves(m, transform):
    def f(x, y):
        return {"product": x.sum() * y, "sum": x + y.sum()}

    found = transform(f, argnums=(0, 1))(m.arange(3.0), m.arange(2.0) + 4)
    return [plain(found[key]) for key in ("product", "sum")]


def ragged(m, dims):
    nested = m.nested.nested_tensor([m.ones(2, 2), m.ones(3, 2)], layout=m.strided)
    other = m.arange(2.0) if dims[1] is None else m.arange(4.0).reshape(2, 2)
    return m.func.vmap(lambda a, b: (a * b).sum(), in_dims=dims)(nested, other)


def strict(m, f):
    x = m.arange(3.0)
    return m.func.jvp(f, (x,), (m.ones(3),), strict=True)


PROGRAMS = {
    "rows in chunks": lambda m: counted(m, 2),
    "rows in chunks of four": lambda m: counted(m, 4),
    "rows together": lambda m: counted(m, None),
    "jacfwd of two": lambda m: two_leaves(m, m.func.jacfwd),
    "jacrev of two": lambda m: two_leaves(m, m.func.jacrev),
    "a truth value for a dimension": lambda m: m.func.vmap(m.sin, in_dims=True)(
        m.ones(2)
    ),
    "a list of dimensions": lambda m: m.func.vmap(m.sin, in_dims=[0])(m.ones(2)),
    "text for dimensions": lambda m: m.func.vmap(m.sin, in_dims="0")(m.ones(2)),
    "chunks larger than all": lambda m: m.func.vmap(m.sin, chunk_size=9)(m.ones(2)),
    "chunks that leave one": lambda m: m.func.vmap(m.sin, chunk_size=2)(m.arange(5.0)),
    "chunks, put elsewhere": lambda m: m.func.vmap(m.sin, out_dims=1, chunk_size=2)(
        m.arange(15.0).reshape(5, 3)
    ),
    "strict, of its input": lambda m: strict(m, m.sin),
    "strict, of no input": lambda m: strict(m, lambda x: m.ones(3)),
    "strict, one of two": lambda m: strict(m, lambda x: (x * 2, m.ones(3))),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_options_do_what_they_do_in_pytorch(name):
    assert outcome(rl, PROGRAMS[name]) == outcome(torch, PROGRAMS[name])


@pytest.mark.parametrize("dims", [(0, None), (0, 0)])
def test_what_has_no_examples_goes_along_with_each_part_of_a_nested_tensor(dims):
    assert [one.item() for one in ragged(rl, dims).unbind()] == (
        [2.0, 3.0] if dims[1] is None else [2.0, 15.0]
    )
