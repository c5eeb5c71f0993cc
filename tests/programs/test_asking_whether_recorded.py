"""What a program is told of being recorded, and the default type that it changes meanwhile."""

import rushlight as rl


def asks(x):
    if rl.compiler.is_exporting():
        return x + 3
    if rl.compiler.is_compiling():
        return x + 2
    return x + 1


def test_a_program_knows_whether_it_is_compiled_or_exported():
    x = rl.zeros(2)
    compiled = rl.compile(asks)
    for _ in range(3):
        assert compiled(x).tolist() == [2, 2]
        assert asks(x).tolist() == [1, 1]

    class Model(rl.nn.Module):
        def forward(self, x):
            return asks(x)

    assert rl.export.export(Model(), (x,)).module()(x).tolist() == [3, 3]
    assert not rl.compiler.is_exporting()


def test_the_default_type_may_change_in_a_compiled_function():
    def changes(x):
        rl.set_default_dtype(rl.float64)
        try:
            wide = rl.ones(3) * x
        finally:
            rl.set_default_dtype(rl.float32)
        return wide + rl.ones(3), rl.ones(3)

    compiled = rl.compile(changes)
    x = rl.ones(3, dtype=rl.float32)
    for _ in range(4):
        for got, wanted in zip(compiled(x), changes(x), strict=True):
            assert got.dtype is wanted.dtype
            assert rl.equal(got, wanted)
        assert rl.get_default_dtype() is rl.float32
