"""Checkpoints go to PyTorch and come from it with nothing lost."""

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
