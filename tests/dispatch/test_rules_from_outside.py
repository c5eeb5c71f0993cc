"""Rules of forward mode and of batches that live outside, and where built-in ones stand."""

import pytest

import rushlight as rl
from rushlight.autograd import forward_ad
from rushlight.autograd.levels import rules
from rushlight.dispatch import declared
from rushlight.dispatch.library import _scoped_library
from rushlight.dispatch.rules_from_outside import register_jvp, register_vmap
from rushlight.func import jacfwd, jvp, vmap
from rushlight.operators.registry import every_operator


@pytest.fixture
def toy():
    """``toy::turn``, a product of complex numbers by parts, and which rules were asked."""
    asked = []
    with _scoped_library("toy", "DEF") as library:
        library.define("turn(Tensor x, Tensor y, float by) -> (Tensor, Tensor)")
        op = rl.ops.toy.turn

        def turn(x, y, by):
            return x * y, x * by - y

        library.impl("turn", turn, "CompositeExplicitAutograd")

        def moved(tangents, args, result):
            asked.append("forward")
            (tx, ty, none), (x, y, by) = tangents, args
            assert none is None and len(result) == 2
            tx = rl.zeros_like(x) if tx is None else tx
            ty = rl.zeros_like(y) if ty is None else ty
            return tx * y + x * ty, tx * by - ty

        def batched(info, dims, x, y, by):
            asked.append("batch")
            x = x if dims[0] is None else x.movedim(dims[0], 0)
            y = y if dims[1] is None else y.movedim(dims[1], 0)
            return op(x, y, by), (0, 0)

        register_jvp("toy::turn", moved, lib=library)
        register_vmap("toy::turn", batched, lib=library)
        yield op, turn, asked


def test_an_operator_from_outside_moves_by_its_own_rule(toy):
    op, turn, asked = toy
    x, y, tx, ty = (rl.randn(3, dtype=rl.float64) for _ in range(4))
    found = jvp(lambda x, y: op(x, y, 2.0), (x, y), (tx, ty))
    expected = jvp(lambda x, y: turn(x, y, 2.0), (x, y), (tx, ty))
    rl.testing.assert_close(found, expected)
    assert asked == ["forward"]


def test_an_argument_that_stands_still_has_no_tangent(toy):
    op, _, asked = toy
    y = rl.randn(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(rl.ones(3), rl.full((3,), 2.0))
        product, difference = op(dual, y, 3.0)
        rl.testing.assert_close(forward_ad.unpack_dual(product).tangent, 2 * y)
        assert forward_ad.unpack_dual(difference).tangent.tolist() == [6.0] * 3
    assert asked == ["forward"]


def test_rules_from_outside_nest(toy):
    op, turn, asked = toy
    x, y = rl.randn(3, dtype=rl.float64), rl.randn(3, dtype=rl.float64)

    def second(function):
        def total(x):
            a, b = function(x * x, y, 2.0)
            return (a * b).sum()

        return jacfwd(jacfwd(total))(x)

    rl.testing.assert_close(second(op), second(turn))
    rl.testing.assert_close(
        vmap(lambda x: op(x, y, 2.0))(x.expand(4, 3)),
        vmap(lambda x: turn(x, y, 2.0))(x.expand(4, 3)),
    )
    assert set(asked) == {"forward", "batch"}


def test_lists_of_tensors_have_lists_of_tangents():
    with _scoped_library("toy_list", "DEF") as library:
        library.define("total(Tensor[] parts, int[] sizes) -> Tensor")
        library.impl("total", lambda parts, sizes: sum(parts), "CPU")

        @register_jvp("toy_list::total", lib=library)
        def moved(tangents, args, result):
            parts, sizes = tangents
            assert sizes is None and parts[1] is None
            return parts[0].clone()

        op, still = rl.ops.toy_list.total, rl.ones(2)
        found = jvp(lambda x: op([x, still], [1, 2]), (rl.ones(2),), (rl.ones(2),))
        assert found[0].tolist() == [2.0, 2.0] and found[1].tolist() == [1.0, 1.0]


def test_a_rule_goes_away_with_its_library():
    from rushlight.dispatch.rules_from_outside import tangent_rules

    before = len(tangent_rules)
    with _scoped_library("toy_gone", "DEF") as library:
        library.define("same(Tensor x) -> Tensor")
        register_jvp("toy_gone::same", lambda tangents, args, result: None, lib=library)
        assert len(tangent_rules) == before + 1
    assert len(tangent_rules) == before
    with pytest.raises(ValueError, match=r"register_jvp\(op\): got unexpected type"):
        register_jvp(3, lambda *args: None)


def test_a_custom_operator_takes_a_rule_of_forward_mode():
    @rl.library.custom_op("toy_custom::half", mutates_args=())
    def half(x: rl.Tensor) -> rl.Tensor:
        return x / 2

    half.register_jvp(lambda tangents, args, result: tangents[0] / 2)
    primal, tangent = jvp(half, (rl.ones(2),), (rl.full((2,), 4.0),))
    assert primal.tolist() == [0.5, 0.5] and tangent.tolist() == [2.0, 2.0]


def test_a_row_has_a_name_for_each_of_its_places():
    from rushlight._generated.tables import OPERATORS

    assert {len(row) for row in OPERATORS} == {declared.NODE + 1}
    assert {len(row[declared.IMPLEMENTATION]) for row in OPERATORS} == {
        declared.ARGUMENT + 1
    }


def test_every_rule_that_a_declaration_names_is_there():
    for op in every_operator():
        if not op.entry:
            continue
        for place in (declared.BATCHING, declared.FORWARD):
            said = op.entry[place]
            if isinstance(said, tuple):
                module = __import__(said[0], fromlist=["x"])
                assert callable(getattr(module, said[1])), (op.name, said)
    assert callable(rules.elementwise)


def test_bytes_seen_as_another_type_are_batched():
    x = rl.randn(4, 6)
    found = vmap(lambda row: row.view(rl.float64))(x)
    assert rl.equal(found, x.view(rl.float64))
    numbers = rl.randn(4)
    assert rl.equal(vmap(lambda n: n.view(rl.int32))(numbers), numbers.view(rl.int32))
