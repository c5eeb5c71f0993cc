"""Patterns are found in graphs, and replaced, as PyTorch's matcher does it."""

import pytest

import rushlight as rl
from rushlight._inductor import config, pattern_matcher

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")


def names(graph):
    return [str(node.target) for node in graph.graph.nodes]


def traced(lib, function, *args):
    make_fx = lib.fx.experimental.proxy_tensor.make_fx
    return make_fx(function, tracing_mode="fake")(*args)


def products(lib, pm):
    """A product and a sum, alone and where the product has another user."""
    aten, own = lib.ops.aten, pm.PatternMatcherPass()
    product = pm.CallFunction(aten.mul, pm.KeywordArg("a"), pm.KeywordArg("b"))

    @pm.register_graph_pattern(
        pm.CallFunction(aten.add, product, pm.KeywordArg("c")), pass_dict=own
    )
    def handler(match, a, b, c):
        match.replace_by_example(lambda a, b, c: lib.addcmul(c, a, b), [a, b, c])

    x = lib.rand(3, 4)
    yield own, traced(lib, lambda x, y, z: (x * y + z).sin(), x, x, x), 3
    yield own, traced(lib, lambda x, y, z: (x * y + z) * (x * y), x, x, x), 3
    yield own, traced(lib, lambda x, y, z: (lambda t: (t + z) * t)(x * y), x, x, x), 3


def functions(lib, pm):
    """What a function does, with other sizes, and with another constant."""
    own = pm.PatternMatcherPass()

    def search(x, w):
        return lib.mm(x, w).relu() * 2

    def replace(x, w):
        return lib.mm(x, w * 2).relu()

    example = [lib.ones(2, 3), lib.ones(3, 2)]
    pm.register_replacement(search, replace, example, pm.fwd_only, own)
    x = lib.rand(4, 4)
    yield own, traced(lib, lambda x, w: search(x, w) + 1, x, x), 2
    yield own, traced(lib, lambda x, w: lib.mm(x, w).relu() * 3, x, x), 2


def sizes(lib, pm):
    """Sizes that a pattern was made with may be others, if they follow in the same way."""
    own = pm.PatternMatcherPass()

    def search(x):
        return x.reshape(x.shape[0] * x.shape[1]).exp()

    def replace(x):
        return x.exp().reshape(x.shape[0] * x.shape[1])

    pm.register_replacement(search, replace, [lib.ones(2, 3)], pm.fwd_only, own)
    x = lib.rand(4, 5)
    yield own, traced(lib, lambda x: x.reshape(20).exp(), x), 1
    yield own, traced(lib, lambda x: x.reshape(2, 10).exp(), x), 1


def several(lib, pm):
    """A pattern of two results."""
    own = pm.PatternMatcherPass()

    def search(x, y):
        return x + y, (x + y).sin()

    def shared(x, y):
        both = x + y
        return both, both.sin()

    def replace(x, y):
        both = x - y
        return both, both.cos()

    example = [lib.ones(2), lib.zeros(2)]
    pm.register_replacement(shared, replace, example, pm.fwd_only, own)
    x = lib.rand(3)
    yield own, traced(lib, lambda x, y: (lambda t: t.exp() + t.sin())(x + y), x, x), 2
    yield own, traced(lib, lambda x, y: sum(search(x, y)), x, x), 2


def numbers(lib, pm):
    """A number that stands for any."""
    own = pm.PatternMatcherPass()
    pm.register_replacement(
        lambda x, k: x * k + 1,
        lambda x, k: (x + 1) * k,
        [lib.ones(2)],
        pm.fwd_only,
        own,
        scalar_workaround={"k": 0.113377},
    )
    yield own, traced(lib, lambda x: x * 7.5 + 1, lib.rand(3)), 1


def lists(lib, pm):
    """Lists, arguments that are two things, and writes in between."""
    aten = lib.ops.aten
    product = pm.CallFunction(aten.mul.Tensor, pm.Arg(), pm.Arg())
    for pattern, program in (
        (
            pm.CallFunction(aten.cat, pm.ListOf(product), pm.Ignored()),
            lambda x: lib.cat([x * 2, x * 3], 1),
        ),
        (
            pm.CallFunction(
                aten.add.Tensor,
                pm.ExclusiveKeywordArg("a"),
                pm.ExclusiveKeywordArg("b"),
            ),
            lambda x: x + x,
        ),
        (
            pm.CallFunction(aten.add.Tensor, product, 1),
            lambda x: (lambda t: (x.add_(1), t + 1)[1])(x * 2),
        ),
        (pm.CallFunctionVarArgs(aten.exp.default), lambda x: x.exp().sin()),
    ):
        own = pm.PatternMatcherPass()
        pm.register_graph_pattern(pattern, pass_dict=own)(
            lambda match, *args, **k: None
        )
        yield own, traced(lib, program, lib.rand(2, 2)), 1


@pytest.mark.parametrize(
    "cases",
    [products, functions, sizes, several, numbers, lists],
    ids=lambda f: f.__name__,
)
def test_patterns_are_found_and_replaced_as_in_pytorch(cases):
    import torch._inductor.pattern_matcher as theirs

    pairs = zip(cases(rl, pattern_matcher), cases(torch, theirs), strict=True)
    for (own, graph, count), (other, like, _) in pairs:
        assert own.apply(graph) == other.apply(like)
        assert names(graph) == names(like)
        graph.graph.lint()
        x = rl.rand(4, 4) if count == 2 and cases is functions else rl.rand(4, 5)
        args = [x + number for number in range(count)]
        if cases in (products, functions):
            found = like(*[torch.from_numpy(one.numpy()) for one in args])
            assert graph(*args).numpy() == pytest.approx(found.numpy(), rel=1e-5)


def test_a_pass_changes_compiled_programs():
    own = pattern_matcher.PatternMatcherPass()

    def search(x):
        return (x * 2).sum(0)

    pattern_matcher.register_replacement(
        search, lambda x: x.sum(0) * 3, [rl.ones(2, 2)], pattern_matcher.fwd_only, own
    )
    with config.patch(post_grad_custom_post_pass=own):
        compiled = rl.compile(lambda x: search(x).exp())
    for rows in (2, 3, 5, 5):
        x = rl.rand(rows, 2)
        compiled(x)  # the call that is noted runs as it is
        assert rl.allclose(compiled(x), (x.sum(0) * 3).exp())


def test_what_has_no_form_here_says_the_remedy():
    with pytest.raises(NotImplementedError, match="remedy: register_graph_pattern"):
        pattern_matcher.register_lowering_pattern(None)
    with pytest.raises(NotImplementedError, match="remedy: fwd_only"):
        pattern_matcher.joint_fwd_bwd(None, [])
    graph = rl.fx.symbolic_trace(lambda x: x.relu())
    with pytest.raises(ValueError, match="nothing is known of what x gives"):
        pattern_matcher.values_of([next(iter(graph.graph.nodes))])


def test_steps_are_put_behind_what_they_need():
    graph = rl.fx.symbolic_trace(lambda x: (x + 1) * (x + 2)).graph
    first, second = [node for node in graph.nodes if "add" in node.name]
    first.prepend(graph.output_node().args[0])
    second.prepend(first)
    pattern_matcher.stable_topological_sort(graph)
    graph.lint()
