"""Copies that turn tensors round on a card, beside the host's."""

import pytest

import rushlight as rl

KINDS = [rl.float32, rl.bfloat16, rl.float64, rl.bool, rl.complex64]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_flips_and_rolls_are_the_host_s(kind, machine):
    machine.start(memory=1 << 28)
    x = (rl.arange(2 * 3 * 5 * 7).view(2, 3, 5, 7) % 11 - 3).to(kind)
    views = [lambda t: t, lambda t: t.transpose(1, 3), lambda t: t[:, 1:, ::2]]
    if kind.is_complex:
        views.append(lambda t: t.conj())
    calls = [
        lambda t: t.flip(3),
        lambda t: t.flip(0, 1),
        lambda t: t.flip(-1, 1),
        lambda t: t.flip(0, 1, 2, 3),
        lambda t: t.roll(2, 3),
        lambda t: t.roll((1, -1), (0, 2)),
        lambda t: t.roll(5),
        lambda t: t[:, :0].flip(1),
        lambda t: t[0, 0, 0, 0].flip([]),
    ]
    for view in views:
        for call in calls:
            found, wanted = call(view(x.to("cuda"))), call(view(x))
            assert found.is_cuda and found.stride() == wanted.stride()
            assert rl.equal(found.cpu(), wanted)


def test_a_flip_is_one_launch_and_a_roll_two(machine):
    machine.start(memory=1 << 28)
    x = rl.ones(4, 6, device="cuda")
    for call, count in ((lambda: x.flip(0, 1), 1), (lambda: x.roll(1, 1), 2)):
        before = len(machine.fake.names("cuLaunchKernel"))
        call()
        assert len(machine.fake.names("cuLaunchKernel")) - before == count
