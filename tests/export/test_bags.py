"""Programs with bags of rows: PyTorch's steps, and files both ways."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
OFFSETS = [0, 2]
WAYS = {
    "rows": ({}, None),
    "offsets": ({}, OFFSETS),
    "padding": ({"padding_idx": 1}, OFFSETS),
    "last offset": ({"include_last_offset": True}, [0, 2, 5]),
}


def program_of(lib, mode, way, decomposed):
    options, offsets = WAYS[way]
    lib.manual_seed(0)
    model = lib.nn.EmbeddingBag(5, 4, mode=mode, **options)
    given = (lib.tensor([[1, 2, 3], [0, 2, 1]]),)
    if offsets is not None:
        given = lib.tensor([1, 2, 3, 1, 2]), lib.tensor(offsets)
    program = lib.export.export(model, given)
    return program.run_decompositions() if decomposed else program, model(*given), given


def steps(program):
    nodes = program.graph.nodes
    return [str(one.target) for one in nodes if "aten" in str(one.target)]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_have_pytorchs_steps_and_travel_both_ways(mode, way, decomposed, tmp_path):
    made = {lib: program_of(lib, mode, way, decomposed) for lib in (rl, torch)}
    assert steps(made[rl][0]) == steps(made[torch][0])
    for writer, reader in ((rl, torch), (torch, rl)):
        program, wanted, given = made[writer]
        writer.export.save(program, tmp_path / "bag.pt2")
        loaded = reader.export.load(tmp_path / "bag.pt2").module()
        found = loaded(*[reader.tensor(one.tolist()) for one in given])
        assert rl.allclose(rl.tensor(found.tolist()), rl.tensor(wanted.tolist()))


@pytest.mark.parametrize("wants_grad", [False, True])
@pytest.mark.parametrize("padding", [None, 1, -1])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_what_is_known_about_bags_is_pytorchs(mode, last, padding, wants_grad):
    found = []
    for lib in rl, torch:
        table = lib.arange(12.0).reshape(4, 3).requires_grad_(wants_grad)
        offsets = lib.tensor([0, 2, 4] if last else [0, 2])
        factors = lib.tensor([1.0, 2, 3, 4]) if mode == 0 else None
        made = lib.embedding_bag(
            table, lib.tensor([1, 1, 3, 0]), offsets, False, mode, False, factors, last,
            padding,
        )  # fmt: skip
        if wants_grad:
            made[0].square().sum().backward()
        found.append(
            [*[one.tolist() for one in made], wants_grad and table.grad.tolist()]
        )
    assert found[0] == found[1]
