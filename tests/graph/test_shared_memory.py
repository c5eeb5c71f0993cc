"""Memory that others than operators see, or that two storages share, in compiled functions."""

import numpy as np
import pytest

import rushlight as rl


def from_one_array():
    array = np.arange(8, dtype="f4")
    return rl.from_numpy(array), rl.from_numpy(array)


def from_overlapping_arrays():
    array = np.arange(12, dtype="f4")
    return rl.from_numpy(array[:8]), rl.from_numpy(array[4:])


def from_one_buffer():
    buffer = bytearray(np.arange(8, dtype="f4").tobytes())
    made = [rl.frombuffer(buffer, dtype=rl.float32) for _ in range(2)]
    return tuple(made)


def from_dlpack():
    x = rl.arange(8.0)
    return x, rl.from_dlpack(x)


def through_numpy():
    x = rl.arange(8.0)
    return x, rl.from_numpy(x.numpy())


MAKERS = (
    from_one_array,
    from_overlapping_arrays,
    from_one_buffer,
    from_dlpack,
    through_numpy,
)


def program(x, y):
    x.mul_(0.5)
    y.add_(1)
    z = x * 2
    x.sub_(1)
    return z + y


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_two_storages_on_one_memory_are_one(make):
    compiled = rl.compile(program)
    given, wanted = make(), make()
    for _ in range(5):
        assert rl.equal(compiled(*given), program(*wanted))
        assert all(map(rl.equal, given, wanted))


def test_buffers_of_a_module_may_lie_on_one_array():
    class Shared(rl.nn.Module):
        def __init__(self):
            super().__init__()
            array = np.ones(4, "f4")
            self.register_buffer("one", rl.from_numpy(array))
            self.register_buffer("other", rl.from_numpy(array))

        def forward(self, x):
            self.one.add_(x)
            return self.other * 2

    module, plain = Shared(), Shared()
    compiled = rl.compile(module)
    for _ in range(4):
        x = rl.ones(4)
        assert rl.equal(compiled(x), plain(x))


def test_an_array_written_in_the_middle_is_read_as_written():
    def writes(x, array):
        y = x * 2
        array[0] += 5
        z = x + y
        array[1] = float(z[2])
        return z * x

    given, wanted = [np.arange(8, dtype="f4") for _ in range(2)]
    compiled = rl.compile(writes)
    for _ in range(5):
        got = compiled(rl.from_numpy(given), given)
        assert rl.equal(got, writes(rl.from_numpy(wanted), wanted))


def test_an_array_borrowed_in_the_middle_shows_what_was_written():
    def borrows(x):
        array = x.numpy()
        y = x * 2
        array[0] += 5
        x.add_(1)
        return x + y + float(array[2])

    given, wanted = rl.arange(8.0), rl.arange(8.0)
    compiled = rl.compile(borrows)
    for _ in range(5):
        assert rl.equal(compiled(given), borrows(wanted))


WRITES = {
    "an element": lambda s: s.__setitem__(3, 63),
    "a slice": lambda s: s.__setitem__(slice(0, 4), 63),
    "all": lambda s: s.fill_(60),
    "a copy": lambda s: s.copy_(s.clone().fill_(61)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_folded_weights_follow_what_a_storage_is_written(write):
    rl.manual_seed(0)
    model = rl.nn.Sequential(
        rl.nn.Conv2d(3, 3, 1),
        rl.nn.BatchNorm2d(3),
        rl.nn.Flatten(),
        rl.nn.Linear(48, 4),
    ).eval()
    compiled = rl.compile(model)
    x = rl.randn(2, 3, 4, 4)
    with rl.no_grad():
        for number in range(6):
            rl.testing.assert_close(compiled(x), model(x))
            if number >= 2:
                layer = model[0] if number % 2 else model[3]
                write(layer.weight.untyped_storage())
