"""What tools of others read in our traces is what they read in PyTorch's."""

from __future__ import annotations

import json
import warnings

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.profiler import profile, schedule

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def trace(lib, path):
    """Two steps of a small network, after one of exercise; the profiler is returned."""
    nn = lib.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    settings = dict(record_shapes=True, with_stack=True, acc_events=True)
    with lib.profiler.profile(
        schedule=lib.profiler.schedule(wait=0, warmup=1, active=3, repeat=1),
        on_trace_ready=lambda prof: prof.export_chrome_trace(str(path)),
        **settings,
    ) as prof:
        for _ in range(4):
            optimizer.zero_grad()
            model(lib.ones(32, 64)).square().mean().backward()
            optimizer.step()
            prof.step()
    return prof


def test_holistic_trace_analysis_reads_steps_operators_and_shapes(tmp_path):
    hta = pytest.importorskip(
        "hta.trace_analysis", reason="HolisticTraceAnalysis is not installed"
    )
    found = {}
    for lib in (rl, torch):
        path = tmp_path / f"{lib.__name__}.json"
        trace(lib, path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package's own, of pandas
            files = {0: str(path)}
            read = hta.TraceAnalysis(trace_files=files, trace_dir=str(tmp_path)).t
        rows = read.get_trace(0)
        names = rows["name"].map(dict(enumerate(read.symbol_table.get_sym_table())))
        rows = rows.assign(text=names)
        products = rows[rows["text"] == "aten::linear"]
        found[lib.__name__] = {
            "steps": [int(step) for step in read.get_iterations(0)],
            "linear": len(products),
            "dims": sorted(set(products["input_dims"].astype(str))),
            "types": sorted(set(products["input_type"].astype(str))),
            "relu": int((rows["text"] == "aten::relu").sum()),
            "sweeps": int(rows["text"].str.contains("evaluate_function: Relu").sum()),
            "times": bool((products["dur"] >= 0).all() and rows["ts"].min() == 0),
        }
    assert found["rushlight"] == found["torch"]
    assert found["rushlight"]["linear"] == 2 * len(found["rushlight"]["steps"])


def test_traces_of_a_rank_name_it_and_its_groups(tmp_path):
    found = []
    for lib in (rl, torch):
        distributed = lib.distributed
        store = distributed.HashStore()
        distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        distributed.new_group([0], group_desc="a part")
        path = tmp_path / f"{lib.__name__}.json"
        with lib.profiler.profile() as prof:
            lib.ones(2)
        prof.export_chrome_trace(str(path))
        distributed.destroy_process_group()
        found.append(json.loads(path.read_text())["distributedInfo"])
    assert found[0] == found[1]
    assert found[0]["rank"] == 0 and len(found[0]["pg_config"]) == 2
    with profile(schedule=schedule(wait=0, warmup=1, active=1)) as prof:
        assert not dist.is_initialized() and prof._get_distributed_info() is None
