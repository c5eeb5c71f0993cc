"""Checkpoints go to PyTorch and come from it with nothing lost."""

import io
import pickle
import warnings
from collections import OrderedDict

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def sample(library):
    base = library.arange(24.0).view(4, 6)
    state = OrderedDict(
        weight=library.nn.Parameter(library.ones(2, 3)),
        steps=library.tensor(7),
        half=library.ones(3).to(library.bfloat16),
        wide=library.ones(2, dtype=library.complex64),
        unsigned=library.tensor([1, 2]).to(library.uint16),
        flags=library.tensor([True, False]),
        none=library.empty(0, 3),
        base=base,
        view=base.t()[1:3, ::2],
        leaf=library.ones(2, requires_grad=True),
    )
    state._metadata = {"version": 2}
    return {
        "state": state,
        "nested": [1, (2.5, None, {"x": "y", 3: b"z"}), {1, 2}, 1 << 65],
        "dtype": library.float16,
        "size": library.Size([2, 3]),
        "device": library.device("cpu"),
    }


def same(ours, theirs):
    """Whether two values are equal, each in its own library's terms."""
    if isinstance(ours, rl.Tensor):
        return (
            isinstance(theirs, torch.Tensor)
            and str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
            and (tuple(ours.shape), ours.stride())
            == (tuple(theirs.shape), theirs.stride())
            and ours.requires_grad == theirs.requires_grad
            and isinstance(ours, rl.nn.Parameter)
            == isinstance(theirs, torch.nn.Parameter)
            and ours.detach().tolist() == theirs.detach().tolist()
        )
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(
            same(ours[k], theirs[k]) for k in ours
        )
    if isinstance(ours, (list, tuple)) and not isinstance(ours, rl.Size):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return str(ours).split(".")[-1] == str(theirs).split(".")[-1]


@pytest.mark.parametrize(
    "options", [{}, {"mmap": True}, {"weights_only": False}], ids=str
)
def test_pytorch_reads_what_we_write(tmp_path, options):
    rl.save(sample(rl), tmp_path / "ours.pt")
    theirs = torch.load(tmp_path / "ours.pt", **options)
    assert same(sample(rl), theirs)
    assert theirs["state"]._metadata == {"version": 2}
    theirs["state"]["base"][0, 1] = 50
    assert theirs["state"]["view"][0, 0] == 50


@pytest.mark.parametrize(
    "options", [{}, {"mmap": True}, {"weights_only": False}], ids=str
)
def test_we_read_what_pytorch_writes(tmp_path, options):
    torch.save(sample(torch), tmp_path / "theirs.pt")
    ours = rl.load(tmp_path / "theirs.pt", **options)
    assert same(ours, sample(torch))
    assert ours["state"]._metadata == {"version": 2}
    ours["state"]["base"][0, 1] = 50
    assert ours["state"]["view"][0, 0].item() == 50


def test_a_model_and_its_optimizer_move_between_the_libraries(tmp_path):
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(theirs.parameters())
    theirs(torch.ones(2, 3)).square().sum().backward()
    optimizer.step()
    saved = {"model": theirs.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(saved, tmp_path / "theirs.pt")

    ours = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.BatchNorm1d(4))
    state = rl.load(tmp_path / "theirs.pt")
    ours.load_state_dict(state["model"])
    own_optimizer = rl.optim.Adam(ours.parameters())
    own_optimizer.load_state_dict(state["optimizer"])

    rl.save(
        {"model": ours.state_dict(), "optimizer": own_optimizer.state_dict()},
        tmp_path / "ours.pt",
    )
    back = torch.load(tmp_path / "ours.pt")
    theirs.load_state_dict(back["model"])
    optimizer.load_state_dict(back["optimizer"])
    for name, value in saved["model"].items():
        assert torch.equal(back["model"][name], value), name


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("trusted", [True, False])
def test_conjugates_and_negatives_are_the_same_numbers_on_both_sides(archive, trusted):
    def values(module):
        numbers = module.tensor([[1 + 2j, 3 - 4j], [-5j, 6 + 0j]])
        conjugate = numbers.conj()
        pairs = [conjugate, conjugate[1:], numbers]
        return [pairs, conjugate.imag, [conjugate.t().imag]]

    for writer in (rl, torch):
        for number, value in enumerate(values(writer)):  # of one type in each file
            file = io.BytesIO()
            writer.save(value, file, _use_new_zipfile_serialization=archive)
            for reader in (rl, torch):
                file.seek(0)
                read = reader.load(file, weights_only=not trusted)
                expected = values(reader)[number]
                assert str(read) == str(expected)
                if isinstance(expected, list):
                    read, expected = read[0], expected[0]
                assert read.is_conj() == expected.is_conj()
                assert read.is_neg() == expected.is_neg()


@pytest.mark.parametrize("marks", [{"conj": True}, 3, [1]])
def test_marks_that_no_tensor_can_have_are_refused(marks):
    from rushlight.serialization._names import marked

    with pytest.raises(pickle.UnpicklingError):
        marked(rl.ones(2), marks)


@pytest.mark.parametrize("layout", ["coo", "csr", "bsc"])
@pytest.mark.parametrize("trusted", [True, False])
def test_sparse_tensors_come_back_from_old_files(layout, trusted):
    blocks = ((1, 1),) if layout == "bsc" else ()
    value = torch.tensor([[0.0, 1], [2, 0]])
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some layouts are not finished, it says
        sparse = getattr(value, f"to_sparse_{layout}")(*blocks)
    torch.save(sparse, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    found = rl.load(file, weights_only=not trusted)
    assert found.to_dense().tolist() == value.tolist()


@pytest.mark.parametrize("archive", [True, False])
def test_one_memory_of_two_types_is_refused_as_pytorch_would_mistake_it(archive):
    for module in (rl, torch):
        numbers = module.arange(4.0)
        value = [numbers, numbers.view(module.int32)]
        with pytest.raises(RuntimeError, match="view the same data as different types"):
            module.save(value, io.BytesIO(), _use_new_zipfile_serialization=archive)
