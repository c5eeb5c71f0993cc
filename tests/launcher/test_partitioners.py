"""Joint graphs of functions, cut in two and compiled, beside PyTorch's."""

import functorch.compile as theirs
import pytest
import torch

import rushlight as rl
import rushlight.functorch.compile as ours
from rushlight._functorch.aot_autograd import aot_export_joint_simple
from rushlight._functorch.compilers import debug_nop

PARTITIONS = ["default_partition", "min_cut_rematerialization_partition"]


def waves(lib, x, y):
    h = x @ y
    return (h.sin().cos() * 2).sum(), h.tanh()


def gated(lib, x, y):
    return lib.nn.functional.silu(x @ y) * lib.sigmoid(x)


def parts(lib, x, y):
    first, second = (x @ y).exp().chunk(2)
    values, at = first.max(0)
    return values + second.sum(0), at


def normed(lib, x, y):
    return lib.nn.functional.layer_norm(x @ y, (4,)), x.softmax(1)


def unused(lib, x, y):
    return x.sin()


FUNCTIONS = [waves, gated, parts, normed, unused]


def leaves(made):
    return list(made) if isinstance(made, (tuple, list)) else [made]


def trained(lib, function):
    """What a function gives, and the gradients of all results' sum."""
    lib.manual_seed(0)
    x, y = (lib.randn(4, 4).requires_grad_() for _ in range(2))
    made = leaves(function(x, y))
    sum(one.sum() for one in made if one.requires_grad).backward()
    return [*[one.detach() for one in made], x.grad, y.grad]


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_a_cut_function_has_its_results_and_gradients(function, partition):
    graphs = []

    def look(graph, inputs):
        graphs.append(graph)
        return ours.nop(graph, inputs)

    cut = ours.aot_function(
        lambda x, y: function(rl, x, y), look, partition_fn=getattr(ours, partition)
    )
    expected = trained(rl, lambda x, y: function(rl, x, y))
    for got, want in zip(trained(rl, cut), expected, strict=True):
        assert (got is None) == (want is None)
        assert got is None or rl.allclose(got, want)
    assert len(graphs) == 2


def inputs_of_backward(lib, module, function, partition):
    """The names of what the second graph is given."""
    seen = []
    compiler = module.make_boxed_compiler(lambda graph, _: seen.append(graph) or graph)
    trained(
        lib,
        module.aot_function(
            lambda x, y: function(lib, x, y),
            compiler,
            partition_fn=getattr(module, partition),
        ),
    )
    return [node.target for node in seen[1].graph.find_nodes(op="placeholder")]


def test_the_backward_graph_is_given_what_pytorch_saves():
    def wave(lib, x, y):
        return (x @ y).sin().cos().sum()

    for function in wave, unused:
        found = inputs_of_backward(rl, ours, function, PARTITIONS[0])
        assert found == inputs_of_backward(torch, theirs, function, PARTITIONS[0])


def test_the_cut_saves_fewer_bytes_than_all_that_is_used():
    def chain(lib, x, y):
        return (x @ y).sin().cos().exp().tanh().sigmoid()

    whole, cut = (len(inputs_of_backward(rl, ours, chain, one)) for one in PARTITIONS)
    assert (whole, cut) == (8, 4)  # the operands, the product and the tangent
    assert cut <= len(inputs_of_backward(torch, theirs, chain, PARTITIONS[1]))


def test_what_is_drawn_is_not_drawn_again():
    x = rl.ones(1000, requires_grad=True)

    def dropped(x):
        return rl.nn.functional.dropout(x.sin(), 0.5).cos()

    cut = ours.memory_efficient_fusion(
        dropped, fw_compiler=ours.nop, bw_compiler=ours.nop
    )
    made = cut(x)
    made.sum().backward()
    kept = made != 1
    assert 300 < kept.sum() < 700
    assert rl.equal(x.grad != 0, kept)


def test_modules_learn_and_other_sizes_have_graphs_of_their_own():
    net = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.GELU(), rl.nn.Linear(4, 2))
    counted = []
    cut = ours.aot_module(net, lambda graph, _: counted.append(graph) or graph.forward)
    for size in 5, 7, 5:
        x = rl.randn(size, 3)
        expected = rl.autograd.grad(net(x).square().sum(), list(net.parameters()))
        found = rl.autograd.grad(cut(x).square().sum(), list(net.parameters()))
        for got, want in zip(found, expected, strict=True):
            assert rl.allclose(got, want, atol=1e-6)
    assert len(counted) == 4
    with rl.no_grad():
        assert rl.allclose(cut(x), net(x))
    assert len(counted) == 5


def test_functions_that_write_are_followed_call_by_call():
    norm = rl.nn.BatchNorm1d(3)
    cut = ours.aot_module(norm, ours.nop)
    x = rl.randn(8, 3)
    other = rl.nn.BatchNorm1d(3)
    for _ in range(2):
        assert rl.allclose(cut(x), other(x))
    assert rl.allclose(norm.running_mean, other.running_mean)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_compiles_both_graphs():
    x = rl.randn(4, requires_grad=True)
    made = ours.memory_efficient_fusion(lambda x: (x.sin() * x).exp())(x)
    (found,) = rl.autograd.grad(made.sum(), x)
    (expected,) = rl.autograd.grad((x.sin() * x).exp().sum(), x)
    assert rl.allclose(found, expected)


def test_a_graph_that_was_changed_is_found_by_comparing_results():
    def spoiled(graph, inputs):
        start, step, *_ = graph.graph.nodes
        step.args = (start, [4])
        return debug_nop(graph, inputs)

    cut = ours.aot_function(lambda x: x.reshape(2, 2), spoiled)
    with pytest.raises(AssertionError, match=r"output 0 of .*: \(2, 2\) != \(4,\)"):
        cut(rl.ones(4))


def test_a_joint_graph_is_exported_with_its_gradients():
    a, b = rl.randn(3, 3, requires_grad=True), rl.randn(3, 3)

    def wave(x, y):
        return [(x @ y).sin()]

    joint = aot_export_joint_simple(wave, [a, b], trace_joint=True)
    names = [node.target for node in joint.graph.find_nodes(op="placeholder")]
    assert names == ["primals_1", "primals_2", "tangents_1"]
    (expected,) = rl.autograd.grad(wave(a, b)[0].sum(), a)
    made, grad, none = joint([a, b], [rl.ones(3, 3)])
    assert rl.allclose(made, wave(a, b)[0]) and rl.allclose(grad, expected)
    assert none is None
    plain = aot_export_joint_simple(wave, [b, b], trace_joint=False)
    assert rl.allclose(plain(b, b)[0], wave(b, b)[0])
    with pytest.raises(RuntimeError, match="does not support input mutations"):
        aot_export_joint_simple(lambda x: [x.mul_(2)], [b.clone()], trace_joint=False)
