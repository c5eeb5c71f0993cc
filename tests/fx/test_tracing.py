"""What is recorded where PyTorch's own record cannot be compared with."""

import io
import pickle
import sys

import pytest

import rushlight as rl
from rushlight import fx, nn
from rushlight.fx.passes.utils.matcher_with_name_node_map_utils import (
    SubgraphMatcherWithNameNodeMap,
)


def test_assertions_become_steps_where_a_tracer_asks_for_them():
    class Asserting(fx.Tracer):
        trace_asserts = True

    # as text: the test runner writes the assertions of its own modules anew
    names: dict = {}
    exec("def program(x):\n    assert x.sum() > 0\n    return x", names)
    graph = Asserting().trace(names["program"])
    assert [node.op for node in graph.nodes].count("call_function") == 2
    module = fx.GraphModule(nn.Module(), graph)
    module(rl.ones(2))
    with pytest.raises(AssertionError):
        module(-rl.ones(2))


def test_stack_traces_name_the_line_of_the_program():
    class Noting(fx.Tracer):
        record_stack_traces = True

    def program(x):
        return x.relu() + 1

    graph = Noting().trace(program)
    relu = next(node for node in graph.nodes if node.op == "call_method")
    assert "test_tracing.py" in relu.stack_trace
    assert "return x.relu() + 1" in relu.stack_trace
    text = fx.GraphModule(nn.Module(), graph).print_readable(print_output=False)
    assert "in program, code: return x.relu() + 1" in text


def test_an_error_shows_the_line_of_the_generated_code():
    module = fx.symbolic_trace(lambda x: x.relu() + rl.ones(3, 4))
    before, sys.stderr = sys.stderr, io.StringIO()
    try:
        with pytest.raises(RuntimeError, match="size of tensor a"):
            module(rl.ones(2))
        told = sys.stderr.getvalue()
    finally:
        sys.stderr = before
    assert "Call using an FX-traced Module, line 7 of" in told
    assert "add = relu + _tensor_constant0" in told


def test_a_graph_that_is_no_program_names_the_step():
    graph = fx.Graph()
    graph.placeholder("x", default_value=1)
    graph.placeholder("y")
    with pytest.raises(SyntaxError, match="in the line of the arguments, x, y"):
        fx.GraphModule({}, graph)


def test_a_step_in_other_values_is_told_by_the_interpreter():
    module = fx.symbolic_trace(lambda x: rl.relu(x) @ rl.ones(3))
    with pytest.raises(RuntimeError, match=r"While executing %matmul : .*relu"):
        fx.Interpreter(module).run(rl.ones(2))


def test_a_module_comes_back_from_a_folder(tmp_path, monkeypatch):
    module = fx.symbolic_trace(
        nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    ).eval()
    folder = tmp_path / "saved_graph_module"
    module.to_folder(folder, "Saved")
    monkeypatch.syspath_prepend(str(tmp_path))
    from saved_graph_module import Saved

    x = rl.randn(4, 2)
    assert rl.equal(Saved().eval()(x), module(x))


def test_a_pickled_module_keeps_its_tracer_and_is_named_as_pytorchs():
    module = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    again = pickle.loads(pickle.dumps(module))
    assert type(again).__name__ == "GraphModule"
    assert again.graph._tracer_cls is fx.Tracer
    assert again.code == module.code


def test_names_in_text_do_not_depend_on_the_launcher():
    text = str(fx.symbolic_trace(lambda x: rl.cat([x, x]).to(rl.float16)).graph)
    assert "torch.cat" in text
    assert "torch.float16" in text
    assert "rushlight" not in text


def test_modules_are_themselves_again_after_a_program_is_refused():
    before = nn.Module.__call__, nn.Module.__getattr__
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: 1 if x else 2)
    assert (nn.Module.__call__, nn.Module.__getattr__) == before


@pytest.mark.parametrize("root", [None, abs, 3])
def test_what_is_no_function_in_python_is_refused_with_a_remedy(root):
    with pytest.raises(AttributeError, match="remedy: wrap the call in a function"):
        rl.fx.symbolic_trace(root)


def test_constants_of_a_step_that_is_taken_out_can_be_read_still():
    module = fx.symbolic_trace(lambda x: rl.sum(x, 1, keepdim=True) + 1)
    step = next(node for node in module.graph.nodes if node.target is rl.sum)
    step.replace_all_uses_with(step.args[0])
    module.graph.erase_node(step)
    assert step.args == (None, 1) and step.kwargs == {"keepdim": True}
    assert not step.all_input_nodes


def test_an_exported_graph_runs_from_values_that_are_given_for_its_inputs():
    program = rl.export.export(rl.nn.Linear(2, 1), (rl.ones(1, 2),))
    module = program.module(check_guards=False)
    [x] = [node for node in module.graph.nodes if node.op == "placeholder"]
    found = fx.Interpreter(module).run(initial_env={x: rl.zeros(3, 2)})
    assert rl.equal(found, module.bias.expand(3, 1))


def test_exported_patterns_have_names_for_their_steps():
    class Pattern(rl.nn.Module):
        def forward(self, x):
            y = rl.relu(x)
            return y * 2, {"cut": y, "given": x}

    def exported(model):
        program = rl.export.export(model, (rl.ones(2),))
        return program.module(check_guards=False)

    pattern = SubgraphMatcherWithNameNodeMap(exported(Pattern()), ignore_literals=True)
    graph = exported(rl.nn.Sequential(rl.nn.Tanh(), Times())).graph
    [match] = pattern.match(graph)
    named = {name: str(n.target) for name, n in match.name_node_map.items()}
    assert named == {"cut": "aten.relu.default", "given": "aten.tanh.default"}


class Times(rl.nn.Module):
    def forward(self, x):
        return rl.relu(x) * 3
