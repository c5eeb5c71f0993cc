"""Functions as backends of ``compile``: in training, after breaks, and printing what they get."""

import pytest

import rushlight as rl


def gives_itself(module, examples):
    return module


def gives_forward(module, examples):
    return module.forward


def gives_its_own(module, examples):
    def run(*args):
        return module(*args)

    return run


def prints(module, examples):
    assert [str(one) for one in examples]
    assert (
        module.code
        and repr(examples)
        and sum(one.sum().item() for one in examples) != ""
    )
    return module


BACKENDS = [gives_itself, gives_forward, gives_its_own, prints]


def losses(backend):
    rl.manual_seed(0)
    model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.Tanh(), rl.nn.Linear(4, 1))
    called = model if backend is None else rl.compile(model, backend=backend)
    optimizer = rl.optim.SGD(model.parameters(), 0.1)
    found = []
    for number in range(5):
        optimizer.zero_grad()
        loss = (called(rl.ones(4, 3) * number) - 1).pow(2).sum()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.__name__)
def test_models_train_through_a_users_backend(backend):
    assert losses(backend) == pytest.approx(losses(None), rel=1e-6)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.__name__)
def test_a_users_backend_goes_on_after_a_break(backend):
    def program(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return y.sin()

    compiled = rl.compile(program, backend=backend)
    for value in (1.0, 1.0, -1.0, 1.0, -1.0):
        x = rl.full((3,), value)
        assert rl.equal(compiled(x), program(x))


def test_a_backend_prints_its_graph_with_the_programs_lines():
    shown = []

    def backend(graph, inputs):
        shown.append(graph.print_readable(print_output=False))
        return graph.forward

    recorded = rl.compile(lambda x: (x * 2).sin(), backend=backend)
    for _ in range(3):
        recorded(rl.ones(2))
    assert shown and f"# File: {__file__}:" in shown[0]
