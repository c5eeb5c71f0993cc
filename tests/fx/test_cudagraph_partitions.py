"""Steps on a GPU go into modules of their own, others stay."""

import rushlight as rl
from rushlight._subclasses import FakeTensorMode
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.passes.backends.cudagraphs import partition_cudagraphs


def steps(module):
    return [n.op for n in module.graph.nodes if n.op.startswith("call")]


def partitioned(program, mode, *args):
    module = make_fx(program)(*[rl.ones(one.shape) for one in args])
    with mode:
        return partition_cudagraphs(module, args)


def test_steps_of_one_device_are_one_module_on_a_gpu_and_none_on_the_host():
    mode = FakeTensorMode()
    with mode:
        card = rl.empty(3, device="cuda")
        host = rl.empty(3)
    assert steps(partitioned(lambda x: (x + 1).relu(), mode, card)) == ["call_module"]
    kept = partitioned(lambda x: (x + 1).relu(), mode, host)
    assert steps(kept) == ["call_function"] * 2
    assert rl.equal(kept(-rl.ones(3)), rl.zeros(3))


def test_steps_of_another_device_divide_them():
    mode = FakeTensorMode()
    with mode:
        card, host = rl.empty(3, device="cuda"), rl.empty(3)

    def program(x, y):
        return x.sin().cos(), y.neg()

    cut = partitioned(program, mode, card, host)
    assert sorted(steps(cut)) == ["call_function", "call_module"]
    x, y = rl.randn(2, 3)
    for ours, wanted in zip(cut(x, y), program(x, y), strict=True):
        assert rl.equal(ours, wanted)
