"""Models are cut into stages where PyTorch cuts them, and compute what they did whole."""

from __future__ import annotations

import warnings
from importlib import import_module

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
SIDES = {}
for library in (rl, torch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = f"{library.__name__}.distributed.pipelining"
        SIDES[library] = import_module(place)
OURS = SIDES[rl]


def model(library, ends=1):
    """Three stages by themselves; what the first makes and the batch are wanted later."""
    nn, split = library.nn, SIDES[library].pipe_split

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.norm = nn.BatchNorm1d(4)
            self.shift = nn.Parameter(library.ones(4))

        def forward(self, x, *, scale):
            h = self.layers[0](x * scale) + self.shift
            kept = h.tanh()
            [split() for _ in range(ends)]
            h = self.layers[1](h)
            [split() for _ in range(ends)]
            last = self.norm(self.layers[2](h)).relu() + kept + x * self.shift
            return {"last": last, "middle": h}

    library.manual_seed(0)
    return Model()


def cut(library, made, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SIDES[library].pipeline(made, *args, **options)


def told(pipe):
    """What a pipe looks like from outside."""
    states = [
        dict(pipe.get_stage_module(i).state_dict()) for i in range(pipe.num_stages)
    ]
    graph = [
        (node.op, str(node.name), [str(one) for one in node.all_input_nodes])
        for node in pipe.split_gm.graph.nodes
    ]
    return {
        "stages": pipe.num_stages,
        "states": [
            {
                key: (tuple(t.shape), t.numel() and round(float(t.sum()), 4))
                for key, t in s.items()
            }
            for s in states
        ],
        "order": [list(state) for state in states],
        "graph": graph,
        "shared": pipe.replicated_params,
        "info": (pipe.info().num_stages, pipe.info().has_loss_and_backward),
    }


def test_stages_their_parameters_and_what_goes_between_are_pytorchs():
    found = []
    for library in (rl, torch):
        made = model(library)
        x, scale = library.ones(3, 4), library.full((3, 1), 2.0)
        pipe = cut(library, made, (x,), {"scale": scale})
        results = pipe(x, scale=scale)
        found.append(
            (told(pipe), [[round(v, 3) for v in r.flatten().tolist()] for r in results])
        )
    assert found[0] == found[1]
    assert found[0][0]["stages"] == 3 and len(found[0][0]["shared"]) == 1


def test_modules_end_stages_where_a_spec_says_so_and_are_as_they_were_afterwards():
    found = []
    for library in (rl, torch):
        nn, point = library.nn, SIDES[library].SplitPoint
        library.manual_seed(0)
        net = nn.Sequential(
            *[nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(4)]
        )
        spec = {"1": point.BEGINNING, "2.0": point.END, "3": point.BEGINNING}
        pipe = cut(library, net, (library.ones(3, 2),), split_spec=spec)
        found.append(told(pipe))
    assert found[0] == found[1] and found[0]["stages"] == 4
    made = rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.ReLU())
    pipe = cut(rl, made, (rl.ones(3, 2),), split_spec={"1": OURS.SplitPoint.BEGINNING})
    assert "forward" not in vars(made[1]) and pipe.num_stages == 2
    assert pipe.get_stage_module(0).get_parameter("0.weight") is made[0].weight


def test_a_policy_puts_ends_of_stages_into_the_program():
    def halves(program):
        steps = [n for n in program.graph.nodes if n.op == "call_function"]
        with program.graph.inserting_after(steps[len(steps) // 2 - 1]):
            program.graph.call_function(OURS.pipe_split)
        program.recompile()
        return program

    net = rl.nn.Sequential(*[rl.nn.Linear(2, 2) for _ in range(4)])
    pipe = cut(rl, net, (rl.ones(1, 2),), split_policy=halves)
    assert [list(pipe.get_stage_module(i).state_dict()) for i in range(2)] == [
        ["0.weight", "0.bias", "1.weight", "1.bias"],
        ["2.weight", "2.bias", "3.weight", "3.bias"],
    ]


def test_what_cannot_be_cut_is_refused_as_by_pytorch():
    refusals = []
    for library in (rl, torch):
        nn, side = library.nn, SIDES[library]
        net, x = nn.Sequential(nn.Linear(2, 2)), (library.ones(1, 2),)
        whole = cut(library, net, x)
        for options in (
            {"split_spec": {"1.a": side.SplitPoint.END}},
            {"split_spec": {"0": 3}},
            {"split_spec": {}, "split_policy": lambda p: p},
        ):
            with pytest.raises((ValueError, AttributeError)) as caught:
                cut(library, net, x, **options)
            refusals.append((caught.type, str(caught.value)))
        with pytest.raises(ValueError, match="Invalid stage index 1!"):
            whole.get_stage_module(1)
    assert refusals[:3] == refusals[3:]
    with pytest.raises(RuntimeError, match="cannot capture your model as a full graph"):
        cut(rl, rl.nn.Linear(2, 2), (rl.ones(1, 3),))


@pytest.mark.parametrize(
    "kind", ["ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble"]
)
def test_stages_of_one_process_learn_what_the_whole_model_does(kind):
    dist = rl.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        made, whole = model(rl, ends=2).eval(), model(rl, ends=0).eval()
        x, y = rl.randn(8, 4), rl.randn(8, 4)
        scale = rl.full((8, 1), 2.0)
        pipe = cut(rl, made, (x[:2],), {"scale": scale[:2]})
        stages = [pipe.build_stage(i, rl.device("cpu")) for i in range(3)]
        loss = lambda out, wanted: (out[0] - wanted).square().mean() + out[1].mean()  # noqa: E731
        schedule = getattr(OURS, kind)(stages, 4, loss_fn=loss)
        losses: list = []
        last, middle = schedule.step(x, scale=scale, target=y, losses=losses)
        expected = whole(x, scale=scale)
        loss((expected["last"], expected["middle"]), y).backward()
        rl.testing.assert_close(last, expected["last"])
        rl.testing.assert_close(middle, expected["middle"])
        grads: dict = {}
        for stage in stages:
            for key, parameter in stage.submod.named_parameters():
                grads[key] = grads.get(key, 0) + parameter.grad
        for key, parameter in whole.named_parameters():
            rl.testing.assert_close(grads[key], parameter.grad)
    finally:
        dist.destroy_process_group()
