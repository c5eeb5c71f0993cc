"""Runs looked into: what ran, where the first NaN was made, where two libraries part."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight.__main__ import main
from rushlight.inspection import (
    Comparison,
    NonFiniteError,
    NonFiniteTrap,
    OperatorRecord,
    RunRecorder,
    compare_runs,
    run_page,
)
from tests.inspection.browser import dumped, needs_browser


def _net():
    nn = rl.nn
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Sequential(nn.Linear(8, 1)))


def _recorded():
    rl.manual_seed(0)
    net = _net()
    with RunRecorder() as run:
        net(rl.ones(3, 4)).square().mean().backward()
    return run


def test_records_have_the_module_the_users_line_and_the_pass():
    records = _recorded().records
    by_name = {record.name: record for record in records}
    assert by_name["aten.tanh.default"].module == "Sequential.1"
    assert by_name["aten.addmm.default"].module == "Sequential.2.0"
    assert "net(rl.ones(3, 4))" in by_name["aten.mean.default"].source
    assert by_name["aten.tanh_backward.default"].backward
    assert not by_name["aten.tanh.default"].backward
    assert [record.number for record in records] == [*range(len(records))]


def test_summaries_count_what_is_not_finite():
    with RunRecorder() as run:
        rl.tensor([[1.0, rl.nan], [rl.inf, -3.0]]).clone()
        rl.empty(0).clone()
        rl.ones(1000, dtype=rl.complex64).clone()
    first, empty, many = (
        record.outputs[0] for record in run.records if "clone" in record.name
    )
    assert (first.nan, first.inf, first.minimum, first.maximum) == (1, 1, -3.0, 1.0)
    assert first.mean == -1.0
    assert empty.values == [] and empty.is_finite
    assert many.dtype == "complex64" and len(many.values) == 250


def test_records_come_back_from_what_is_kept_of_them():
    for record in _recorded().records:
        kept = json.loads(json.dumps(record.to_json()))
        assert repr(OperatorRecord.from_json(kept)) == repr(record)


def test_operators_beyond_the_limit_are_counted():
    with RunRecorder(limit=2) as run:
        rl.ones(2).exp().log().sum()
    assert len(run.records) == 2
    assert run.left_out == 2


def test_the_trap_names_operator_module_line_and_inputs():
    net = rl.nn.Sequential(rl.nn.Softplus(), rl.nn.LogSigmoid())
    net.append(_Broken())
    with pytest.raises(
        NonFiniteError, match=r"aten\.log\.default made 2 nan"
    ) as caught:
        with NonFiniteTrap():
            net(rl.ones(2))
    text = str(caught.value)
    assert "in module Sequential.2" in text
    assert "return x.log()" in text
    assert re.search(r"input 0: float32\[2\] -0", text)
    assert caught.value.record.name == "aten.log.default"


class _Broken(rl.nn.Module):
    def forward(self, x):
        return x.log()


def test_the_trap_watches_backward_passes():
    x = rl.tensor([0.0, 1.0], requires_grad=True)
    y = x.sqrt().sum()
    with pytest.raises(NonFiniteError, match="in the backward pass of"):
        with NonFiniteTrap():
            y.backward()


def test_what_is_infinite_before_the_operator_is_not_held_against_it():
    mask = rl.full((2, 2), -rl.inf).triu(1)
    with NonFiniteTrap():
        assert (rl.ones(2, 2) + mask).softmax(-1).isfinite().all()
        assert rl.empty(3).shape == (3,)
    with NonFiniteTrap(infinities=False):
        assert rl.zeros(1).log().item() == -rl.inf


def test_after_the_trap_nothing_is_watched():
    with pytest.raises(NonFiniteError):
        with NonFiniteTrap():
            rl.zeros(1).log()
    assert rl.zeros(1).log().item() == -rl.inf
    assert not rl.nn.modules.module._global_forward_hooks


PROGRAM = """
import torch
from torch import nn

class Layer(nn.Module):
    def forward(self, x):
        if CHANGED and "rushlight" in torch.__file__:
            x = torch.where(x > 0, x, x * 2)
        return x.tanh()

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), Layer(), nn.Dropout(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters())
for step in range(2):
    optimizer.zero_grad()
    net(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("changed", [False, True])
def test_programs_part_where_an_operator_differs(tmp_path, changed, capsys):
    pytest.importorskip("torch", reason="the oracle is not installed")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("CHANGED", str(changed)))
    status = main(["compare", str(script)])
    text = capsys.readouterr().out
    assert status == int(changed)
    if not changed:
        assert "0 only here, 0 only there\nno results differ" in text
        return
    assert "first difference: #" in text
    assert "aten.tanh.default, Sequential.1, program.py" in text
    assert "before it, only here: #" in text
    assert "aten.where.self" in text


def test_a_difference_within_an_operator_is_told_before_what_it_causes():
    ours, theirs = _recorded().records, _recorded().records
    for record in theirs[5:]:
        for tensor in record.outputs:
            tensor.values = [value + 1 for value in tensor.values]
    for record in theirs[6:]:
        for tensor in record.inputs:
            tensor.values = [value + 1 for value in tensor.values]
    found = Comparison(ours, theirs)
    assert found.first_difference[0].number == 5


def test_a_nan_between_the_kept_values_is_a_difference():
    runs = []
    for place in (0, 1):
        with RunRecorder() as run:
            x = rl.ones(10_000)
            x[5] = rl.nan if place else 1.0
            x.clone()
        runs.append(run.records[-1:])
    first, second = (records[0].outputs[0] for records in runs)
    assert first.values == second.values
    assert Comparison(*runs).first_difference == (*runs[0], *runs[1])


def test_failures_of_programs_are_told(tmp_path):
    pytest.importorskip("torch", reason="the oracle is not installed")
    script = tmp_path / "program.py"
    script.write_text("import torch\ntorch.ones(2) + torch.ones(3)\n")
    found = compare_runs(str(script))
    assert all("must match the size of tensor b" in text for text in found.failures)
    assert "fails here: RuntimeError" in str(found)


def test_missing_programs_and_libraries_are_named(tmp_path, capsys):
    with pytest.raises(FileNotFoundError, match=r"there is no program 'nothing\.py'"):
        compare_runs("nothing.py")
    script = tmp_path / "program.py"
    script.write_text("pass\n")
    with pytest.raises(RuntimeError, match="under no_such_library left no record"):
        compare_runs(str(script), peer="no_such_library")
    assert main(["compare", "nothing.py"]) == 1
    assert "there is no program" in capsys.readouterr().err


def test_a_page_of_a_run_cannot_be_left_by_its_texts(tmp_path):
    run = _recorded()
    run.records[0].source = "x = '</script><b>'"
    page = run_page(run, tmp_path / "run.html", title="<run>")
    assert (tmp_path / "run.html").read_text() == page
    assert "</script><b>" not in page and "&lt;run&gt;" in page
    data = re.search(r'application/json">(.*?)</script>', page).group(1)
    assert json.loads(data)[0]["source"] == "x = '</script><b>'"


CLICKS = """
const said = [];
const title = () => document.querySelector("#call h2").textContent;
said.push(title());
document.getElementById("next").click(); said.push(title());
document.getElementById("back").click(); said.push(title());
document.getElementById("wrong").click(); said.push(title());
const [find, at] = ["find", "at"].map(name => document.getElementById(name));
find.value = "aten.exp"; find.oninput(); at.value = 0; at.oninput();
document.getElementById("next").click(); said.push(title());
const cells = document.querySelectorAll(".values i").length;
document.title = "said " + said.join("|") + " cells " + cells;
"""


@needs_browser
def test_a_browser_steps_through_the_page(tmp_path):
    with RunRecorder() as run:
        rl.zeros(3).log()
        rl.ones(2).exp()
    text = dumped(run_page(run), CLICKS, tmp_path)
    said = re.search(r"<title>said (.*?)</title>", text).group(1)
    assert said == (
        "aten.zeros.default|aten.log.default|aten.zeros.default|aten.log.default"
        "|aten.exp.default cells 4"
    )


def test_importing_the_package_does_not_import_inspection():
    program = "import rushlight, sys; print('rushlight.inspection' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
