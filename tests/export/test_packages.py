"""Files of several programs, and programs that are moved to other devices."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export.passes import move_to_device_pass
from rushlight.export.pt2_archive._package import is_pt2_package, load_pt2, package_pt2

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.export.pt2_archive._package")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x) + rl.zeros(3) + rl.arange(3, device=x.device)


X = rl.ones(5, 4)


def test_programs_go_through_one_file_both_ways(tmp_path):
    model = Net()
    program = rl.export.export(model, (X,))
    both = {"one": program, "apart": program.run_decompositions()}
    ours, there = tmp_path / "ours.pt2", tmp_path / "theirs.pt2"
    package_pt2(ours, exported_programs=both, extra_files={"note": "read me"})
    read = theirs.load_pt2(ours)
    theirs.package_pt2(there, exported_programs=read.exported_programs)
    for found in (load_pt2(ours), load_pt2(there)):
        assert list(found.exported_programs) == ["one", "apart"]
        for one in found.exported_programs.values():
            assert rl.allclose(one.module()(X), model(X))
    assert load_pt2(ours).extra_files == read.extra_files == {"note": "read me"}
    assert is_pt2_package(ours) and not is_pt2_package(b"nothing")
    for one in read.exported_programs.values():
        got = one.module()(torch.ones(5, 4)).detach().numpy()
        assert got == pytest.approx(model(X).detach().numpy(), 1e-5)


def test_tensors_that_programs_share_are_written_once(tmp_path):
    program = rl.export.export(nn.Linear(300, 300), (rl.ones(1, 300),))
    sizes = []
    for count in (1, 2):
        path = tmp_path / f"{count}.pt2"
        names = {f"p{at}": program for at in range(count)}
        package_pt2(path, exported_programs=names)
        sizes.append(path.stat().st_size)
    assert sizes[1] < 1.2 * sizes[0]


def test_what_is_no_program_is_refused(tmp_path):
    with pytest.raises(AssertionError, match="No value passed in"):
        package_pt2(tmp_path / "a.pt2")
    with pytest.raises(TypeError, match="'x' must be an instance of"):
        package_pt2(tmp_path / "a.pt2", exported_programs={"x": 3})
    with pytest.raises(NotImplementedError, match="aot_compile"):
        package_pt2(tmp_path / "a.pt2", aoti_files=["lib.so"])


def test_a_moved_program_is_another_one_on_its_device():
    program = rl.export.export(Net(), (X,))
    moved = move_to_device_pass(program, "meta")
    assert moved.module()(X.to("meta")).device.type == "meta"
    assert {one.device.type for one in moved.parameters()} == {"meta"}
    apart = moved.run_decompositions().module()(X.to("meta"))
    assert apart.device.type == "meta"
    assert program.module()(X).device.type == "cpu"
    back = move_to_device_pass(program, {"cpu": "cpu"})
    assert rl.equal(back.module()(X), program.module()(X))
