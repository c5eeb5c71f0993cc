"""Which modules a program is in is known while it runs."""

import rushlight as rl
from rushlight.utils.module_tracker import ModuleTracker


def test_the_modules_around_a_call_are_known():
    seen = []
    net = rl.nn.Sequential(rl.nn.Sequential(rl.nn.ReLU()))
    with ModuleTracker() as tracker:
        inner = net[0][0]
        inner.register_forward_pre_hook(lambda *rest: seen.append(set(tracker.parents)))
        net(rl.ones(1))
        assert tracker.parents == {"Global"} and not tracker.is_bw
    names = {"Global", "Sequential", "Sequential.0", "Sequential.0.0"}
    assert seen == [names]


def test_the_modules_of_a_gradient_are_known_too():
    seen = []

    class Noted(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append((set(tracker.parents), tracker.is_bw))
            return grad

    class Inner(rl.nn.Module):
        def forward(self, x):
            return Noted.apply(x)

    net = rl.nn.Sequential(Inner())
    with ModuleTracker() as tracker:
        net(rl.ones(1, requires_grad=True)).backward()
    assert seen == [({"Global", "Sequential", "Sequential.0"}, True)]
