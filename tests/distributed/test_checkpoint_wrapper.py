"""Modules around modules that are computed again: states, gradients and names."""

import copy
import importlib

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
# of parts that run once more inside of others that do
pytestmark = pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
PLACE = "distributed.algorithms._checkpoint.checkpoint_wrapper"


def wrappers(lib):
    return importlib.import_module(f"{lib.__name__}.{PLACE}")


def model(lib):
    lib.manual_seed(0)
    nn = lib.nn
    inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    return nn.Sequential(nn.Linear(3, 3), inner, nn.Dropout(0.5), nn.Linear(3, 1))


def outcome(lib, impl, check):
    """Loss, gradients, names and states of a model that is wrapped and trained."""
    place, net = wrappers(lib), model(lib)
    plain = copy.deepcopy(net)
    kind = getattr(place.CheckpointImpl, impl)

    def wrap(module):
        return place.checkpoint_wrapper(module, checkpoint_impl=kind)

    place.apply_activation_checkpointing(
        net, checkpoint_wrapper_fn=wrap, check_fn=lambda m: check(lib, m)
    )
    x = lib.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
    lib.manual_seed(1)
    net(x).sum().backward()
    yield [type(m).__name__ for m in net.modules()]
    yield list(net.state_dict())
    yield [name for name, _ in net.named_parameters()]
    yield [one.grad.numpy().round(4).tolist() for one in net.parameters()]
    yield x.grad.numpy().round(4).tolist()
    yield str(net.load_state_dict(plain.state_dict()))
    yield plain.load_state_dict(net.state_dict()).missing_keys


@pytest.mark.parametrize("impl", ["REENTRANT", "NO_REENTRANT"])
@pytest.mark.parametrize("kind", ["Linear", "Sequential", "every"])
def test_wrapped_models_are_those_of_pytorch(impl, kind):
    def check(lib, module):
        return kind == "every" or type(module) is getattr(lib.nn, kind)

    ours, theirs = (list(outcome(lib, impl, check)) for lib in (rl, torch))
    assert ours == theirs


def test_wrappers_hand_on_attributes_items_keywords_and_functions():
    def answers(lib):
        place = wrappers(lib)

        class Scaled(lib.nn.Module):
            factor = 3

            def forward(self, x, *, by=1):
                return x * by * self.factor

        for kind in place.CheckpointImpl:
            wrapped = place.checkpoint_wrapper(Scaled(), checkpoint_impl=kind)
            x = lib.ones(2, requires_grad=True)
            wrapped(x, by=lib.tensor(2.0)).sum().backward()
            yield wrapped.factor, x.grad.tolist()
        several = place.offload_wrapper(lib.nn.Sequential(lib.nn.ReLU()))
        yield type(several[0]).__name__, list(several.state_dict())
        seen = []

        def own(function, *args, word):
            seen.append(word)
            return function(*args)

        mine = place.checkpoint_wrapper(Scaled(), checkpoint_fn=own, word="again")
        yield mine(lib.ones(1)).tolist(), seen

    assert list(answers(rl)) == list(answers(torch))
