"""What a profiler shows is what ran: names, nesting, times, memory and files."""

import importlib
import json
import threading
import time
import warnings

import pytest

import rushlight as rl
from rushlight.core import spans
from rushlight.dispatch.keys import DispatchKey
from rushlight.profiler import (
    ExecutionTraceObserver,
    profile,
    record_function,
    schedule,
)

torch = pytest.importorskip("torch", reason="the oracle is not installed")
SIDES = [(m, importlib.import_module(f"{m.__name__}.profiler")) for m in (rl, torch)]


def step(side, named):
    """A forward and a backward pass of operators that are whole on both sides."""
    x = side.ones(3, 4, requires_grad=True)
    w = side.ones(4, 5, requires_grad=True)
    with named("forward"):
        y = (side.mm(x, w) * 2.0 + 1.0).relu()
    y.sum().backward()
    return x.grad


def recorded(side, module, **options):
    step(side, module.record_function)  # what is compiled or loaded is not measured
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with module.profile(**options) as prof:
            step(side, module.record_function)
    return prof


def top(events):
    """Names outside of any operator, and the nodes of the sweep."""
    return [
        e.name
        for e in events
        if (e.cpu_parent is None or e.cpu_parent.name == "forward")
        and not e.name.startswith(("aten::ones", "[memory]"))
    ]


def test_operators_nodes_and_blocks_are_called_as_in_pytorch():
    ours, theirs = (top(recorded(*side).events()) for side in SIDES)
    assert ours == theirs


def test_sweeps_know_the_forward_call_by_its_number():
    for side in SIDES:
        events = recorded(*side).events()
        calls = {e.sequence_nr: e.name for e in events if e.name == "aten::mm"}
        node = next(e for e in events if e.name == "MmBackward0")
        assert calls[node.sequence_nr] == "aten::mm"
        assert node.fwd_thread is not None


def test_spans_lie_inside_of_those_that_called_them():
    for event in recorded(*SIDES[0]).events():
        for child in event.cpu_children:
            assert child.cpu_parent is event
            assert event.time_range.start <= child.time_range.start
            assert child.time_range.end <= event.time_range.end
        assert event.self_cpu_time_total >= 0


def test_tables_have_pytorchs_columns():
    options = {"record_shapes": True, "profile_memory": True, "with_flops": True}
    heads = []
    for side in SIDES:
        prof = recorded(*side, **options)
        kinds = [{}, {"group_by_input_shape": True}]
        rows = [prof.key_averages(**kind).table(row_limit=2) for kind in kinds]
        heads.append([[r.split("\n")[1].split() for r in rows]])
        assert rows[0].rstrip().split("\n")[-1].startswith("Self CPU time total: ")
    assert heads[0] == heads[1]


def test_rows_are_sorted_cut_and_shown_in_the_unit_asked_for():
    averages = recorded(*SIDES[0]).key_averages()
    text = averages.table(sort_by="cpu_time_total", row_limit=3, time_unit="ms")
    lines = text.split("\n")[3:]
    rows = lines[: next(i for i, line in enumerate(lines) if line.startswith("---"))]
    times = [float(row.split("ms")[1].split()[-1]) for row in rows]
    assert len(rows) == 3 and times == sorted(times, reverse=True)
    with pytest.raises(ValueError, match="to sort by"):
        averages.table(sort_by="beauty")
    with pytest.raises(ValueError, match="time_unit"):
        averages.table(time_unit="weeks")


def test_memory_and_operations_are_counted_as_in_pytorch():
    options = {"record_shapes": True, "profile_memory": True, "with_flops": True}
    found = []
    for side in SIDES:
        averages = recorded(*side, **options).key_averages()
        rows = {e.key: e for e in averages}
        names = ("aten::mm", "aten::mul", "aten::add", "aten::relu")
        found.append({n: (rows[n].cpu_memory_usage, rows[n].flops) for n in names[:1]})
        found[-1] |= {n: rows[n].flops for n in names[1:3]}
        found[-1]["count"] = [rows[n].count for n in names]
    assert found[0]["aten::add"] == found[1]["aten::add"] == 15
    assert found[0]["aten::mm"] == found[1]["aten::mm"]


def test_shapes_and_values_of_arguments_are_those_of_the_call():
    with profile(record_shapes=True) as prof:
        rl.cat([rl.ones(2, 3), rl.ones(4, 3)], 0)
        rl.conv2d(rl.ones(1, 2, 5, 5), rl.ones(3, 2, 3, 3), padding=1)
    rows = {e.name: e for e in prof.events()}
    assert rows["aten::cat"].input_shapes[0] == [[2, 3], [4, 3]]
    assert rows["aten::cat"].concrete_inputs[1] == 0
    assert rows["aten::conv2d"].input_shapes[:2] == [[1, 2, 5, 5], [3, 2, 3, 3]]


@pytest.mark.parametrize("padding", [0, 1])
def test_operations_of_convolutions_are_pytorchs(padding):
    found = []
    for side, module in SIDES:
        x, w = side.ones(2, 3, 8, 9), side.ones(4, 3, 3, 2)
        with module.profile(with_flops=True) as prof:
            side.conv2d(x, w, stride=2, padding=padding)
        found.append([e.flops for e in prof.events() if e.name == "aten::conv2d"])
    assert found[0] == found[1] and found[0][0] > 0


def test_times_add_up_to_the_walls():
    x = rl.randn(400, 400)
    rl.mm(x, x)
    best = 1.0
    for _ in range(20):
        begun = time.perf_counter()
        with profile() as prof:
            with record_function("all"):
                for _ in range(10):
                    rl.mm(x, x)
            wall = (time.perf_counter() - begun) * 1e6
        total = prof.key_averages().self_cpu_time_total
        best = min(best, abs(total - wall) / wall)
    assert best < 0.02


def test_schedules_hand_over_traces_at_pytorchs_steps():
    plans = [
        {"wait": 1, "warmup": 1, "active": 2},
        {"wait": 0, "warmup": 1, "active": 1, "repeat": 2, "skip_first": 2},
        {"wait": 2, "warmup": 1, "active": 3, "skip_first": 1, "skip_first_wait": 1},
    ]
    for plan in plans:
        found = []

        def ready(prof, found=found):
            names = {e.name for e in prof.events()}
            found.append((prof.step_num, {n for n in names if "Step#" in n}))

        with profile(schedule=schedule(**plan), on_trace_ready=ready) as prof:
            for _ in range(9):
                rl.ones(2) + 1
                prof.step()
        expected, kept = [], set()
        for number in range(
            9
        ):  # PyTorch's plan; its recorder may crash in this process
            action = torch.profiler.schedule(**plan)(number).name
            kept |= {f"ProfilerStep#{number}"} if "RECORD" in action else set()
            if action == "RECORD_AND_SAVE":
                expected.append((number + 1, kept))
                kept = set()
        if kept:
            expected.append((9, kept | {"ProfilerStep#9"}))
        assert found == expected


def test_wrong_schedules_and_activities_are_refused():
    for wrong in (
        {"wait": -1, "warmup": 1, "active": 1},
        {"wait": 0, "warmup": 1, "active": 0},
    ):
        with pytest.raises(AssertionError, match="Invalid profiler schedule"):
            schedule(**wrong)
    with pytest.raises(AssertionError):
        profile(activities=[])
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_two_profilers_of_one_thread_are_refused_and_the_first_goes_on():
    with profile() as outer:
        with pytest.raises(RuntimeError, match="another profiler"):
            profile().__enter__()
        rl.ones(2)
    assert [e.name for e in outer.events()][:1] == ["aten::ones"]
    with pytest.raises(RuntimeError, match="didn't finish"):
        rl.autograd.profiler.profile().table()


def test_a_recording_ends_with_its_block_however_that_ends():
    with pytest.raises(RuntimeError, match="inconsistent|size|shape"):
        with profile() as prof:
            with record_function("block"):
                rl.ones(2) + rl.ones(3)
    assert not spans.is_recording()
    assert not rl.core.state.included_keys() >> DispatchKey.Profiling & 1
    names = [e.name for e in prof.events()]
    assert names[0] == "block" and "aten::add" in names


def test_other_threads_are_left_out():
    def work():
        rl.ones(3).cos()

    with profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        rl.ones(2).sin()
    names = [e.name for e in prof.events()]
    assert "aten::sin" in names and "aten::cos" not in names


def test_optimizers_loaders_and_modules_are_named_blocks():
    model = rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.ReLU(), rl.nn.Linear(2, 1))
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    data = rl.utils.data.DataLoader(rl.ones(4, 2), batch_size=2)
    with profile(with_modules=True) as prof:
        for batch in data:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    counts = {e.key: e.count for e in prof.key_averages() if e.is_user_annotation}
    assert counts["Optimizer.step#SGD.step"] == 2
    assert counts["Optimizer.zero_grad#SGD.zero_grad"] == 2
    assert counts["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] == 3
    assert counts["nn.Module: Linear_0"] == counts["nn.Module: Linear_1"] == 2


def test_a_profile_changes_no_bit_and_no_memory_of_a_step():
    def train(listen):
        rl.manual_seed(3)
        model = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.Tanh(), rl.nn.Linear(8, 2))
        for _ in range(3):
            with profile(record_shapes=True) if listen else record_function("x"):
                model(rl.randn(5, 4)).square().sum().backward()
        return [p.grad.tolist() for p in model.parameters()]

    assert train(True) == train(False)


def test_compiled_programs_and_their_kernels_are_spans():
    f = rl.compile(lambda x: (x.sin() + 1).relu() * 2)
    x = rl.randn(64)
    expected = f(x).tolist()
    for _ in range(3):
        f(x)
    with profile() as prof:
        assert f(x).tolist() == expected
    programs = [e for e in prof.events() if e.name == "## Call CompiledFxGraph"]
    assert len(programs) == 1 and programs[0].cpu_children


def test_traces_are_json_that_viewers_read(tmp_path):
    prof = recorded(*SIDES[0], record_shapes=True, profile_memory=True, with_stack=True)
    for name in ("trace.json", "trace.json.gz"):
        prof.export_chrome_trace(str(tmp_path / name))
    trace = json.loads((tmp_path / "trace.json").read_text())
    rows = trace["traceEvents"]
    assert {"cpu_op", "user_annotation"} <= {r.get("cat") for r in rows}
    flows = [(r["ph"], r["id"]) for r in rows if r.get("cat") == "fwdbwd"]
    assert len(flows) > 2 and {i for p, i in flows if p == "s"} == {
        i for p, i in flows if p == "f"
    }
    mm = next(r for r in rows if r["name"] == "aten::mm")
    assert mm["args"]["Input Dims"][:2] == [[3, 4], [4, 5]]
    assert mm["args"]["Input type"][:2] == ["float", "float"]
    assert abs(mm["ts"] / 1e6 - time.time()) < 600 and mm["dur"] > 0
    taken = [r["args"]["Bytes"] for r in rows if r["name"] == "[memory]"]
    assert 60 in taken and -60 in taken
    with pytest.raises(FileNotFoundError):
        prof.export_chrome_trace(str(tmp_path / "no" / "folder.json"))


def test_traces_go_where_tensorboard_looks(tmp_path):
    handler = rl.profiler.tensorboard_trace_handler(str(tmp_path / "log"), "worker")
    with profile(on_trace_ready=handler):
        rl.ones(2)
    (file,) = (tmp_path / "log").iterdir()
    assert file.name.startswith("worker.") and file.name.endswith(".pt.trace.json")
    (tmp_path / "plain").touch()  # others may read it where they may read any file
    assert file.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_stacks_are_weighed_lines_of_the_program(tmp_path):
    prof = recorded(*SIDES[0], with_stack=True)
    prof.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert any("test_profiler.py" in line and "step" in line for line in lines)
    assert all(int(line.rsplit(" ", 1)[1]) > 0 for line in lines)
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.events().export_stacks("x", "fame")


def test_memory_over_time_is_shown_by_what_it_is_for(tmp_path):
    model = rl.nn.Linear(100, 100)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    options = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    with profile(**options) as prof:
        model(rl.ones(7, 100)).sigmoid().sum().backward()
        optimizer.step()
    timeline = prof._memory_profile().timeline
    most = {}
    for _, action, category, n_bytes in timeline:
        if action.name == "CREATE" and category:
            most[category.name] = most.get(category.name, 0) + n_bytes
    assert most["GRADIENT"] >= 40_400 and most["OPTIMIZER_STATE"] >= 40_400
    assert most["ACTIVATION"] >= 2_800
    for name in ("m.html", "m.json", "m.raw.json.gz"):
        prof.export_memory_timeline(str(tmp_path / name))
    assert "<svg" in (tmp_path / "m.html").read_text()
    times, sizes = json.loads((tmp_path / "m.json").read_text())
    assert len(times) == len(sizes) == len(timeline)
    with pytest.raises(ValueError, match="required for memory"):
        recorded(*SIDES[0]).export_memory_timeline("x.html")


def test_execution_traces_say_what_called_what(tmp_path):
    path = str(tmp_path / "trace.json")
    observer = ExecutionTraceObserver().register_callback(path)
    with profile(execution_trace_observer=observer):
        x = rl.ones(2, 3)
        rl.softmax(x @ x.t(), 1)
    nodes = json.loads((tmp_path / "trace.json").read_text())["nodes"]
    rows = {node["name"]: node for node in nodes}
    assert rows["aten::_softmax"]["ctrl_deps"] == rows["aten::softmax"]["id"]
    made = rows["aten::ones"]["outputs"]
    assert made["shapes"] == [[2, 3]] and made["types"] == ["Tensor(float32)"]
    taken = rows["aten::matmul"]["inputs"]["values"][0]
    assert taken == made["values"][0]
    observer.unregister_callback()
    assert not observer.is_registered


def test_what_is_switched_off_meanwhile_is_left_out():
    with profile() as prof:
        rl.ones(2).sin()
        prof.toggle_collection_dynamic(False, [])
        rl.ones(2).cos()
        prof.toggle_collection_dynamic(True, [])
        rl.ones(2).tan()
    names = [e.name for e in prof.events()]
    assert "aten::sin" in names and "aten::tan" in names and "aten::cos" not in names


def test_further_settings_have_pytorchs_names():
    from rushlight._C import _profiler

    for side in (_profiler, torch._C._profiler):
        config = side._ExperimentalConfig(verbose=True, custom_profiler_config="x")
        assert config.custom_profiler_config == "x" and config.trace_only is False
        for wrong in ({"beauty": 1}, {"verbose": "x"}):
            with pytest.raises(TypeError, match="incompatible constructor arguments"):
                side._ExperimentalConfig(**wrong)
    members = torch._C._profiler.RecordScope.__members__
    assert {k: int(v) for k, v in members.items()} == dict(
        _profiler.RecordScope.__members__
    )
    config = rl.profiler._ExperimentalConfig(["a"], True, True)
    with profile(experimental_config=config) as prof:
        with _profiler._RecordFunctionFast("block", (1,)):
            rl.ones(2)
    assert [e.name for e in prof.events()] == ["block", "aten::ones"]
    assert rl.autograd.DeviceType is rl.profiler.DeviceType
