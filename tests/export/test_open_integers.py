"""Integers among a program's arguments stay open, and guards live on in files."""

import io

import pytest

import rushlight as rl
from rushlight.export import Dim, export

torch = pytest.importorskip("torch")
OPEN, AUTO = "DYNAMIC", "AUTO"


def add(lib, x, n):
    return x + n, n * 2


def made(lib, x, n):
    return lib.zeros(n, 2) + x.sum()


def larger(lib, x, n):
    return x * 2 if n > 4 else x * 3


def as_long(lib, x, n):
    return x + lib.ones(n)


def inside(lib, x, d):
    return x * d["a"] + d["b"][0]


def halved(lib, x, n):
    return x * (n / 2) - n // 2 + n % 3


def even(lib, x, n):
    return x.view(2, -1) if x.shape[0] % 2 == 0 else x * n


def longer(lib, x, n):
    return x[:2] if x.shape[0] > 2 * n else x


def several(lib, x, n, m):
    return lib.full((n, m), 2.0).matmul(lib.ones(m, 3)) + x[:1]


CASES = {
    "a summand": (add, (5, 3), (None, OPEN), (6, 5, 1, -2)),
    "a size": (made, (5, 3), ({0: OPEN}, OPEN), (6, 5)),
    "a branch": (larger, (5, 7), (None, OPEN), (6, 5, 3)),
    "the argument's size": (as_long, (5, 5), ({0: AUTO}, AUTO), (5, 6)),
    "in containers": (inside, (5, {"a": 2, "b": [4]}), None, (3,)),
    "halves": (halved, (5, 3), (None, OPEN), (4, 7)),
    "a rest of a size": (even, (6, 4), ({0: AUTO}, AUTO), (4,)),
    "compared with a size": (longer, (9, 4), ({0: AUTO}, AUTO), (3, 6)),
    "two": (several, (5, 3, 4), (None, OPEN, OPEN), (6,)),
    "nothing": (add, (5, 0), (None, AUTO), (3,)),
    "bounded": (add, (5, 3), (None, "bounded"), (2, 9)),
    "specialized": (as_long, (5, 5), (None, OPEN), ()),
}


def spec_in(lib, one):
    if isinstance(one, dict):
        return {key: spec_in(lib, value) for key, value in one.items()}
    if isinstance(one, (tuple, list)):
        return type(one)(spec_in(lib, value) for value in one)
    ours = lib.export.Dim
    if one == "bounded":
        return ours.DYNAMIC(min=2, max=9)
    return ours("n") if one == "named" else one and getattr(ours, one)


def program_of(lib, function, args, spec):
    class Model(lib.nn.Module):
        def forward(self, x, n, *more):
            return function(lib, x, n, *more)

    if spec is None:
        spec = (None, {"a": OPEN, "b": [OPEN]})
    given = (lib.arange(float(args[0])), *args[1:])
    spec = spec_in(lib, spec)
    spec = (*spec[:2], spec[2:]) if len(spec) > 2 else spec
    spec = (*spec, ()) if len(spec) == 2 and function is not several else spec
    return export_in(lib, Model(), given, spec)


def export_in(lib, model, given, spec):
    names = ("x", "n", "more")[: len(given)]
    return lib.export.export(
        model, given, dynamic_shapes=dict(zip(names, spec, strict=False))
    )


def outcome(module, lib, function, x, n, args):
    """What a program gives for an integer, or that it refuses it."""
    given = {"a": n, "b": [n]} if isinstance(args[1], dict) else n
    more = args[2:]
    try:
        found = module(x, given, *more)
    except (AssertionError, ValueError, RuntimeError):
        return "refused"
    found = found if isinstance(found, tuple) else (found,)
    return [one.tolist() if hasattr(one, "tolist") else one for one in found]


@pytest.mark.parametrize("name", CASES)
def test_an_integer_is_open_refused_or_fixed_as_in_pytorch(name):
    function, args, spec, numbers = CASES[name]
    results = []
    for lib in (rl, torch):
        try:
            program = program_of(lib, function, args, spec)
        except Exception as error:
            results.append(type(error).__name__)
            continue
        file = io.BytesIO()
        lib.export.save(program, file)
        file.seek(0)
        again = lib.export.load(file).module()
        x = lib.arange(float(args[0]))
        modules = program.module(), again
        results.append(
            [outcome(m, lib, function, x, n, args) for n in numbers for m in modules]
        )
    ours, theirs = results
    assert ours == theirs, (ours, theirs)


def test_guards_go_to_pytorch_and_come_from_it():
    x, short = [1.0] * 9, [1.0] * 6
    for writer, reader in ((rl, torch), (torch, rl), (rl, rl)):
        program = program_of(writer, longer, (9, 4), ({0: AUTO}, AUTO))
        file = io.BytesIO()
        writer.export.save(program, file)
        file.seek(0)
        module = reader.export.load(file).module()
        assert module(reader.tensor(x), 4).shape == (2,)
        with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] > "):
            module(reader.tensor(short), 4)


def test_a_guard_that_a_file_has_is_parsed_and_never_run():
    from rushlight.export._guards import guard_from

    program = program_of(rl, longer, (9, 4), ({0: AUTO}, AUTO))
    code, holds = guard_from("L['x'].size()[0] >= 2 and not L['n'] * 2 == 8", program)
    assert [holds((rl.ones(k), n)) for k, n in ((2, 1), (1, 1), (2, 4))] == [1, 0, 0]
    for code in ("__import__('os')", "L['x'].sum()[0] > 1", "x[0]", "(", "2 ** L['n']"):
        with pytest.warns(UserWarning, match="is not understood, and not checked"):
            assert guard_from(code, program) is None


def test_an_integer_that_may_decide_a_size_unseen_is_fixed_or_refused():
    class Model(rl.nn.Module):
        def forward(self, x, n):
            y = x[n:]
            return y * 2 if y.shape[0] > 2 else y

    x = rl.arange(9.0)
    module = export(Model(), (x, 3), dynamic_shapes=(None, Dim.AUTO)).module()
    assert rl.equal(module(x, 3), x[3:] * 2)
    with pytest.raises(AssertionError, match="Guard failed: n == 3"):
        module(x, 8)
    with pytest.raises(
        Exception, match="how that follows from the integer is not known"
    ):
        export(Model(), (x, 3), dynamic_shapes=(None, Dim.DYNAMIC))
