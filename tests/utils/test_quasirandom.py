"""Sobol' sequences are PyTorch's, from the first dimension to the last, bit by bit."""

import pytest

import rushlight as rl
from tools.direction_numbers import TARGET, packed

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def engines(*given, **options):
    return [m.quasirandom.SobolEngine(*given, **options) for m in (rl, torch)]


def equal(ours, theirs):
    return (
        ours.tolist() == theirs.tolist()
        and str(ours.dtype)[10:] == str(theirs.dtype)[6:]
    )


@pytest.mark.parametrize("dimension", [1, 2, 3, 40, 21201])
def test_direction_numbers_are_pytorchs(dimension):
    ours, theirs = engines(dimension)
    assert (ours.sobolstate.numpy() == theirs.sobolstate.numpy()).all()


@pytest.mark.parametrize("options", [{}, {"scramble": True, "seed": 3}], ids=str)
@pytest.mark.parametrize("dimension", [1, 5, 300])
def test_points_come_in_pytorchs_order(dimension, options):
    ours, theirs = engines(dimension, **options)
    for n in (1, 2, 3, 8, 1, 130):
        assert equal(ours.draw(n), theirs.draw(n))
    ours.fast_forward(37), theirs.fast_forward(37)
    assert equal(ours.draw(4, dtype=rl.float64), theirs.draw(4, dtype=torch.float64))
    ours.reset(), theirs.reset()
    ours.fast_forward(5), theirs.fast_forward(5)
    assert equal(ours.draw(3), theirs.draw(3))
    assert equal(ours.quasi, theirs.quasi) and equal(ours.shift, theirs.shift)
    assert ours.num_generated == theirs.num_generated and repr(ours) == repr(theirs)


def test_scrambling_draws_from_the_default_generator():
    rl.manual_seed(5), torch.manual_seed(5)
    ours, theirs = engines(4, scramble=True)
    assert equal(ours.draw(6), theirs.draw(6)) and equal(rl.rand(2), torch.rand(2))


PROGRAMS = {
    "no dimension": lambda m, s: s(0),
    "too many": lambda m, s: s(21202),
    "half precision": lambda m, s: s(2).draw(2, dtype=m.float16),
    "one point in half precision": lambda m, s: s(2).draw(1, dtype=m.float16),
    "integers": lambda m, s: s(2).draw(2, dtype=m.int64),
    "no point": lambda m, s: s(2).draw(0),
    "fewer than none": lambda m, s: s(2).draw(-1),
    "a power of two": lambda m, s: s(2).draw_base2(3),
    "out of balance": lambda m, s: s(2).fast_forward(3).draw_base2(3),
    "into a result": lambda m, s: s(2).draw(3, out=m.zeros(1)),
    "none left out": lambda m, s: s(2).fast_forward(0).draw(3),
    "a state of floats": lambda m, s: m._sobol_engine_draw(
        m.zeros(2), 3, m.zeros(2, 30).long(), 2, 0, dtype=m.float32
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_engine_answers_as_pytorchs(name):
    answers = []
    for m in rl, torch:
        try:
            answers.append(PROGRAMS[name](m, m.quasirandom.SobolEngine).tolist())
        except (RuntimeError, ValueError, TypeError) as error:
            words = str(error).splitlines()[0]
            answers.append((type(error).__name__, words))
    assert answers[0] == answers[1]


def test_engines_start_where_the_default_type_says():
    before = rl.get_default_dtype()
    rl.set_default_dtype(rl.float64)
    try:
        assert rl.quasirandom.SobolEngine(2).draw(2).dtype == rl.float64
    finally:
        rl.set_default_dtype(before)


def test_the_table_is_the_published_one(tmp_path):
    path = "stats/_sobol_direction_numbers.npz"
    scipy = pytest.importorskip("scipy", reason="it has a copy of the table")
    from pathlib import Path

    from tools.direction_numbers import published

    table = Path(scipy.__file__).parent / path
    assert packed(published(table)) == TARGET.read_bytes()
    text = tmp_path / "table"
    text.write_text("d s a m_i\n2 1 0 1\n3 2 1 1 3\n4 3 1 1 3 1\n")
    assert packed(published(text))[:3] == TARGET.read_bytes()[:3]
