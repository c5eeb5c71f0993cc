"""Programs are what they say: refused as in PyTorch where they are not, whole where they are."""

import copy
import io

import pytest

import rushlight as rl
from rushlight.export import Dim, export
from rushlight.export._verifier import SpecViolationError, Verifier, load_verifier

torch = pytest.importorskip("torch")


def model_of(lib):
    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = lib.nn.Linear(3, 2)
            self.register_buffer("b", lib.zeros(2))
            self.register_buffer("h", lib.zeros(2), persistent=False)
            self.c = lib.ones(2)

        def forward(self, x, n):
            self.b.add_(1)
            return self.fc(x) * self.c + self.b + self.h, n

    return Model()


def step(program, at=2, op="call_function"):
    return [node for node in program.graph.nodes if node.op == op][at]


def with_target(program, name, **changes):
    signature = program.graph_signature
    for one in (*signature.output_specs, *signature.input_specs):
        if one.target == name:
            return vars(one).update(changes)
    return None


def as_method(program):
    node = step(program)
    node.op, node.target = "call_method", "mul"


def out_of_order(program):
    first, last = step(program, 2), step(program, -1)
    first.args = (last, *first.args[1:])


def swapped(program):
    specs = program.graph_signature.input_specs
    specs[0], specs[1] = specs[1], specs[0]


def unknown_module(program):
    signature = program.module_call_graph[0].signature
    signature.inputs.append(type(program.graph_signature.input_specs[0].arg)("zzz"))


def writing(program):
    step(program).target = torch_or_rl(program).ops.aten.add_.Tensor


def torch_or_rl(program):
    return torch if type(program).__module__.startswith("torch") else rl


FAULTS = {
    "no value": lambda p: step(p).meta.pop("val"),
    "a value of another kind": lambda p: step(p).meta.update(val=p),
    "an argument without value": lambda p: step(p, 0, "placeholder").meta.pop("val"),
    "a function": lambda p: setattr(step(p), "target", torch_or_rl(p).mul),
    "a method": as_method,
    "out of order": out_of_order,
    "fewer inputs": lambda p: p.graph_signature.input_specs.pop(),
    "swapped": swapped,
    "no parameter": lambda p: p.state_dict.pop("fc.weight"),
    "a tensor for a parameter": lambda p: p.state_dict.update({"fc.weight": 1}),
    "no buffer": lambda p: p.state_dict.pop("b"),
    "a hidden buffer": lambda p: p.state_dict.update(h=1),
    "no constant": lambda p: p.constants.pop("c"),
    "no flag": lambda p: with_target(p, "h", persistent=None),
    "fewer results": lambda p: p.graph_signature.output_specs.pop(),
    "another result": lambda p: setattr(
        p.graph_signature.output_specs[-2].arg, "name", "x"
    ),
    "a buffer that is not there": lambda p: with_target(p, "b", target="zzz"),
    "a module's input": unknown_module,
    "a write": writing,
}


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_faults_of_programs_are_refused_as_in_pytorch():
    programs = {}
    for lib in (rl, torch):
        whole = lib.export.export(model_of(lib), (lib.ones(4, 3), 3))
        whole = whole.run_decompositions()
        programs[lib] = [copy.deepcopy(whole) for _ in FAULTS]
    for number, (name, fault) in enumerate(FAULTS.items()):
        said = []
        for lib in (rl, torch):
            program = programs[lib][number]
            program.validate()
            fault(program)
            with pytest.raises(Exception) as error:
                program.validate()
            text = str(error.value).splitlines()[0].replace("torch.", "rushlight.")
            said.append((type(error.value).__name__, text.split("<")[0][:60]))
        if name != "a function":  # its name has an address there
            assert said[0] == said[1], name


def test_programs_are_whole_decomposed_saved_and_loaded_in_both():
    class Ints(rl.nn.Module):
        def forward(self, x, n):
            return x * n + x[:2].sum(), n * 2

    class Cond(rl.nn.Module):
        def forward(self, x):
            return rl.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x,))

    class Several(rl.nn.Module):
        def forward(self, x):
            return (*x.split(2, -1), *x.topk(2), *rl.var_mean(x, 1), x.max(1).values)

    models = (
        (model_of(rl), (rl.rand(4, 3), 3), None),
        (Ints(), (rl.rand(5), 3), (None, Dim.DYNAMIC)),
        (Cond(), (rl.rand(3),), None),
        (Several(), (rl.rand(3, 4),), None),
        (rl.nn.Upsample(scale_factor=2), (rl.rand(1, 2, 3, 3),), None),
    )
    for model, args, shapes in models:
        program = export(model, args, dynamic_shapes=shapes)
        for one in (program, program.run_decompositions()):
            one.validate()
            file = io.BytesIO()
            rl.export.save(one, file)
            file.seek(0)
            rl.export.load(file).validate()
            file.seek(0)
            theirs = torch.export.load(file)
            theirs.validate()
            given = [
                torch.from_numpy(one.numpy()) if isinstance(one, rl.Tensor) else one
                for one in args
            ]
            found = torch.utils._pytree.tree_leaves(theirs.module()(*given))
            wanted = rl.utils._pytree.tree_leaves(one.module()(*args))
            for a, b in zip(found, wanted, strict=True):
                if isinstance(a, torch.Tensor):
                    a, b = a.detach().numpy(), b.detach().numpy()
                assert a == pytest.approx(b, rel=1e-5), type(model)


def test_a_backend_has_its_own_checks():
    class Checks(Verifier):
        dialect = "TEST"

        def check_valid_op(self, op):
            if "relu" in str(op):
                raise SpecViolationError("no relu")

    program = export(rl.nn.ReLU(), (rl.ones(2),))
    assert program.verifiers == [load_verifier("TRAINING")]
    own = program._update(
        program.graph_module, program.graph_signature, verifiers=[Checks]
    )
    with pytest.raises(SpecViolationError, match="no relu"):
        own.validate()
    with pytest.raises(AssertionError, match="must define dialect"):
        type("Nameless", (Verifier,), {})
