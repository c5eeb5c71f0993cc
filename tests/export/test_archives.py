"""Programs out of files that somebody else has written: read, or refused, never run."""

import io
import json
import random
import zipfile

import pytest

import rushlight as rl
from rushlight.export import Dim, export, load, save
from rushlight.export._deserialize import SerializeError
from tests.export.programs import programs

HOSTILE = (
    None, -1, 0, 3, 1 << 70, 1e308, "", "x", "a b", "__import__('os').abort()",
    "torch.ops.aten.add.Tensor", "os.system", [], {}, [None], {"as_int": -1},
    {"as_tensor": {"name": "x"}}, True, "s0", ["x"] * 3, float("nan"),
)  # fmt: skip


def written(name="nested"):
    module, args, kwargs = programs(rl)[name]
    file = io.BytesIO()
    save(export(module, args, kwargs), file)
    return file.getvalue()


def changed(data, name, change):
    """The archive with one record changed."""
    given, made = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for info in given.infolist():
            content = given.read(info)
            if info.filename.endswith(name):
                content = change(content)
            archive.writestr(info.filename, content)
    made.seek(0)
    return made


def places(plain, path=()):
    """Each place in a nest of JSON."""
    yield path
    children = plain.items() if isinstance(plain, dict) else ()
    children = enumerate(plain) if isinstance(plain, list) else children
    for key, value in children:
        yield from places(value, (*path, key))


def with_value(plain, path, value):
    if not path:
        return value
    home = plain
    for key in path[:-1]:
        home = home[key]
    home[path[-1]] = value
    return plain


def read(file):
    try:
        return load(file)
    except SerializeError:
        return None


@pytest.mark.parametrize(
    "record",
    ["models/model.json", "model_weights_config.json", "constants_config.json"],
)
@pytest.mark.parametrize("name", ["nested", "branch", "numbers"])
def test_any_value_of_a_file_may_be_anything(name, record):
    data = written(name)
    generator = random.Random(f"{name} {record}")
    plain = None

    def keep(content):
        nonlocal plain
        plain = json.loads(content)
        return content

    changed(data, record, keep)
    assert plain is not None, "every program has the record"
    for path in generator.choices(list(places(plain)), k=250):
        value = generator.choice(HOSTILE)
        made = with_value(json.loads(json.dumps(plain)), path, value)
        read(changed(data, record, lambda _, made=made: json.dumps(made).encode()))


def test_any_byte_of_a_file_may_be_another():
    data, generator = written(), random.Random(4)
    for _ in range(150):
        made = bytearray(data)
        for _ in range(generator.choice((1, 1, 4))):
            made[generator.randrange(len(made))] = generator.randrange(256)
        read(io.BytesIO(made[: generator.choice((None, None, len(made) // 2))]))


NAMES = (
    "a\nimport os",
    "x=1",
    "self",
    "class",
    'a"]; os.abort(); ["',
    "é" * 3 + ".",
    "0x",
)


@pytest.mark.parametrize("name", NAMES[:3] + NAMES[4:])
def test_names_that_would_be_code_are_refused(name):
    """Names of steps become Python, paths of tensors strings of it."""
    data = written()
    for old in (b'"x"', b'"fc.weight"', b'"p_fc_weight"'):
        new = json.dumps(name).encode()
        file = changed(
            data, "model.json", lambda text, o=old, n=new: text.replace(o, n)
        )
        if name != "self":
            assert read(file) is None


@pytest.mark.parametrize(
    "target",
    ["os.system", "torch.load", "torch.ops.os.system.default", "_operator.methodcaller",
     "torch.ops.aten.no_such.default", "builtins.eval"],
)  # fmt: skip
def test_only_operators_are_called(target):
    data = written()

    def change(text):
        plain = json.loads(text)
        plain["graph_module"]["graph"]["nodes"][1]["target"] = target
        return json.dumps(plain).encode()

    with pytest.raises(SerializeError, match="may not call"):
        load(changed(data, "model.json", change))


def test_nests_are_of_classes_that_are_there():
    data = written()
    spec = [1, {"type": "collections.namedtuple", "context": "no_such_module.Pair",
                "children_spec": []}]  # fmt: skip

    def change(text):
        plain = json.loads(text)
        signature = plain["graph_module"]["module_call_graph"][0]["signature"]
        signature["out_spec"] = json.dumps(spec)
        return json.dumps(plain).encode()

    with pytest.raises(SerializeError, match="no named tuple"):
        load(changed(data, "model.json", change))


def test_tensors_lie_inside_of_their_records():
    data = written()

    def change(text):
        plain = json.loads(text)
        plain["config"]["fc.weight"]["tensor_meta"]["sizes"] = [{"as_int": 4000}] * 2
        return json.dumps(plain).encode()

    with pytest.raises(SerializeError):
        load(changed(data, "model_weights_config.json", change))


def test_a_file_has_all_of_a_program(tmp_path):
    module, args, kwargs = programs(rl)["tied"]
    program = export(module, args, kwargs)
    path = tmp_path / "program.pt2"
    save(program, path, extra_files={"notes": "mine"})
    extra = {"notes": ""}
    found = load(path, extra_files=extra)
    assert extra == {"notes": "mine"}
    assert str(found.graph_signature) == str(program.graph_signature)
    assert found.graph_module.code == program.graph_module.code
    assert [one.fqn for one in found.module_call_graph] == [
        one.fqn for one in program.module_call_graph
    ]
    weights = found.state_dict["a.weight"], found.state_dict["b.weight"]
    assert weights[0] is weights[1]
    assert isinstance(weights[0], rl.nn.Parameter)
    assert rl.equal(found.example_inputs[0][0], args[0])


def test_open_sizes_stay_open_and_bounded_in_a_file():
    shapes = ({0: Dim("n", max=9)},)
    file = io.BytesIO()
    save(export(rl.nn.Linear(2, 1), (rl.ones(3, 2),), dynamic_shapes=shapes), file)
    found = load(file)
    assert [str(one) for one in found.range_constraints.values()] == ["VR[0, 9]"]
    assert found.module()(rl.ones(5, 2)).shape == (5, 1)
    with pytest.raises(AssertionError, match="<= 9"):
        found.module()(rl.ones(10, 2))
    with pytest.raises(AssertionError, match="== 2"):
        found.module()(rl.ones(5, 3))


def test_only_programs_are_saved():
    with pytest.raises(TypeError, match="ExportedProgram"):
        save(rl.nn.ReLU(), io.BytesIO())
