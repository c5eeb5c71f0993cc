"""Programs that PyTorch has written: read, run, decomposed and written again."""

import numpy as np
import pytest
import torch

import rushlight as rl

# PyTorch's own decomposition warns of PyTorch's own trees.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def travelled(module, *inputs, decompose=False, **options):
    """Reads a program that PyTorch exports of a module; gives PyTorch's, too."""

    def read(path):
        program = torch.export.export(module, inputs, **options)
        if decompose:
            program = program.run_decompositions()
        torch.export.save(program, path)
        return rl.export.load(path), program

    return read


def here(value):
    return rl.from_numpy(value.numpy())


def same(found, expected):
    found, expected = (
        one if isinstance(one, (tuple, list)) else [one] for one in (found, expected)
    )
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            got.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-6
        )


def test_programs_for_open_sizes_can_be_taken_apart(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    sizes = ({0: torch.export.Dim("n")},)
    read = travelled(module, torch.randn(2, 3), dynamic_shapes=sizes)
    program, _ = read(tmp_path / "p.pt2")
    values = [node.meta.get("val") for node in program.graph.nodes]
    assert {one.device.type for one in values if isinstance(one, rl.Tensor)} == {"cpu"}
    x = torch.randn(5, 3)
    same(program.run_decompositions().module()(here(x)), module(x))


class Windows(torch.nn.Module):
    def forward(self, x):
        return torch.stft(x, 8, window=torch.ones(8), return_complex=True).abs()


class Numbers(torch.nn.Module):
    def forward(self, x):
        return 1 - x, 2 // (x.abs() + 1), 3.0 * x, 2**x


class Overwritten(torch.nn.Module):
    def forward(self, x):
        x[0] = 1
        return x.sum(0)


MODULES = {
    "windows": (Windows(), torch.randn(2, 32)),
    "numbers": (Numbers(), torch.randn(3)),
    "overwritten": (Overwritten(), torch.randn(3, 2)),
    "weight norm": (
        torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3)),
        torch.randn(2, 4),
    ),
}


@pytest.mark.parametrize("decompose", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_steps_mean_what_pytorch_means(name, decompose, tmp_path):
    module, x = MODULES[name]
    expected = module(x.clone())
    program, _ = travelled(module, x.clone(), decompose=decompose)(tmp_path / "p.pt2")
    same(program.module()(here(x.clone())), expected)
    same(program.run_decompositions().module()(here(x.clone())), expected)


def test_an_overload_alone_takes_numbers_for_tensors():
    x = rl.tensor([1.0, 2.0])
    assert rl.ops.aten.sub.Tensor(1, x).tolist() == [0.0, -1.0]
    assert rl.ops.aten.sub.Tensor(1, x.long()).dtype is rl.int64
    with pytest.raises(TypeError):
        rl.ops.aten.relu.default(1)


def test_tensors_that_steps_make_are_constants_of_the_program(tmp_path):
    class Bits(rl.nn.Module):
        def forward(self, x):
            return rl.bitwise_and(3, x), x + rl.tensor([1, 2, 3])

    x = rl.arange(3)
    program = rl.export.export(Bits(), (x,)).run_decompositions()
    assert not program.graph.find_nodes(op="get_attr")
    assert len(program.constants) == len(
        program.graph_signature.lifted_tensor_constants
    )
    rl.export.save(program, tmp_path / "p.pt2")
    for load, given in (torch.export.load, torch.arange(3)), (rl.export.load, x):
        same(load(tmp_path / "p.pt2").module()(given), Bits()(x))


def test_checks_that_pytorch_orders_by_tokens_are_steps(tmp_path):
    """A decomposed program has ``with_effects`` for what checks LAPACK's codes."""

    class Inverse(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.inv(x) * 2, torch.linalg.solve(x, x[:, :1])

    x = torch.randn(3, 3) + 3 * torch.eye(3)
    program, _ = travelled(Inverse(), x, decompose=True)(tmp_path / "p.pt2")
    assert not program.graph_signature.input_tokens
    same(program.module()(here(x)), Inverse()(x))
    with pytest.raises(RuntimeError, match=r"linalg\.inv.*singular"):
        program.module()(rl.zeros(3, 3))
    rl.export.save(program, tmp_path / "q.pt2")
    same(torch.export.load(tmp_path / "q.pt2").module()(x), Inverse()(x))
