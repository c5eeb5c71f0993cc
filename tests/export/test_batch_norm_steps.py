"""Batch normalization in programs that are taken apart: its statistics come back as results."""

import io

import pytest

import rushlight as rl
from rushlight.export.graph_signature import OutputKind
from tests.export.steps import our_steps, their_steps
from tests.export.sweep import quietly

torch = pytest.importorskip("torch")
IN_TRAINING = "aten._native_batch_norm_legit_functional.default"


def models(lib):
    nn = lib.nn

    class Whole(nn.Module):
        def forward(self, x):
            return nn.functional.batch_norm(x, None, None, training=True)

    class EpilogueSpec(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(3)

        def forward(self, x):
            return self.norm(self.linear(x)).relu()

    return {
        "training": nn.BatchNorm1d(3),
        "evaluation": nn.BatchNorm1d(3).eval(),
        "without statistics": nn.BatchNorm1d(3, track_running_stats=False),
        "without parameters": nn.BatchNorm1d(3, affine=False),
        "function": Whole(),
        "behind another layer": EpilogueSpec(),
        "instances": nn.InstanceNorm1d(3),
    }


def programs(name):
    x = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0))
    ours, theirs = models(rl)[name], models(torch)[name]
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    ours.load_state_dict({key: rl.tensor(value) for key, value in state.items()})
    given = rl.tensor(x.numpy())
    return rl.export.export(ours, (given,)), torch.export.export(theirs, (x,)), given, x


def results(program):
    return [(one.kind.name, one.target) for one in program.graph_signature.output_specs]


@pytest.mark.parametrize("name", models(rl))
def test_statistics_come_back_as_pytorchs_do(name):
    ours, theirs, given, x = programs(name)
    with quietly():
        apart, expected = ours.run_decompositions(), theirs.run_decompositions()
    assert set(our_steps(apart.graph)) == set(their_steps(expected.graph))
    assert results(apart) == results(expected)
    module, reference = apart.module(), theirs.module()
    for _ in range(2):
        difference = module(given).detach().numpy() - reference(x).detach().numpy()
        assert abs(difference).max() < 1e-5
    for key, value in reference.state_dict().items():
        assert module.state_dict()[key].numpy() == pytest.approx(value.numpy(), 1e-4)


@pytest.mark.parametrize("name", ["training", "behind another layer"])
def test_a_program_that_keeps_statistics_goes_through_a_file(name, tmp_path):
    ours, theirs, given, x = programs(name)
    path = tmp_path / "program.pt2"
    rl.export.save(ours.run_decompositions(), path)
    there, back = torch.export.load(path).module(), rl.export.load(path).module()
    reference = theirs.module()
    for _ in range(2):
        wanted = reference(x).detach().numpy()
        assert there(x).detach().numpy() == pytest.approx(wanted, 1e-4, 1e-5)
        assert back(given).detach().numpy() == pytest.approx(wanted, 1e-4, 1e-5)
    mean = reference.state_dict()
    for key in [one for one in mean if "running" in one]:
        assert there.state_dict()[key].numpy() == pytest.approx(mean[key].numpy(), 1e-4)
        assert back.state_dict()[key].numpy() == pytest.approx(mean[key].numpy(), 1e-4)


def test_normalizing_learns_through_the_step_without_writes():
    ours, theirs, given, x = programs("training")
    apart = ours.run_decompositions()
    assert IN_TRAINING in [str(node.target) for node in apart.graph.nodes]
    given, x = given.requires_grad_(), x.requires_grad_()
    apart.module()(given).square().mul(given).sum().backward()
    theirs.module()(x).square().mul(x).sum().backward()
    assert given.grad.numpy() == pytest.approx(x.grad.numpy(), 1e-3, 1e-5)


def test_functionalized_functions_give_new_statistics_back():
    mean, var = rl.zeros(2), rl.ones(2)
    plain_mean, plain_var = rl.zeros(2), rl.ones(2)
    x = rl.randn(6, 2)

    def normed(x, mean, var):
        return rl.nn.functional.batch_norm(x, mean, var, training=True)

    got = rl.func.functionalize(normed)(x, mean, var)
    assert rl.equal(got, normed(x, plain_mean, plain_var))
    assert rl.equal(mean, plain_mean) and rl.equal(var, plain_var)
    assert mean.abs().sum() > 0


def test_an_empty_table_leaves_compositions_whole():
    for lib in (rl, torch):
        model = lib.nn.Sequential(
            lib.nn.Linear(4, 3), lib.nn.BatchNorm1d(3), lib.nn.Softmax(1)
        )
        program = lib.export.export(model.eval(), (lib.ones(5, 4),))
        with quietly():
            program = program.run_decompositions({})
        calls = [n for n in program.graph.nodes if n.op == "call_function"]
        assert [str(n.target) for n in calls if "getitem" not in str(n.target)] == [
            "aten.linear.default",
            "aten._native_batch_norm_legit_no_training.default",
            "aten.softmax.int",
        ]


def test_what_is_written_is_said_in_the_signature():
    program = rl.export.export(rl.nn.BatchNorm1d(3), (rl.randn(4, 3),))
    program = program.run_decompositions()
    written = program.graph_signature.buffers_to_mutate
    assert [*written.values()] == ["running_mean", "running_var", "num_batches_tracked"]
    kinds = [one.kind for one in program.graph_signature.output_specs]
    assert kinds.count(OutputKind.BUFFER_MUTATION) == 3
    file = io.BytesIO()
    rl.export.save(program, file)
    file.seek(0)
    assert rl.export.load(file).graph_signature.buffers_to_mutate == written
