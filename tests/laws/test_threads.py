"""What one thread switches on, no other thread sees."""

import threading

import pytest

import rushlight
from rushlight.overrides import TorchFunctionMode

FACTORIES = {
    "arange": (3,),
    "as_tensor": ([1, 2],),
    "asarray": ([1, 2],),
    "bartlett_window": (3,),
    "blackman_window": (3,),
    "empty": (2,),
    "empty_permuted": ((2, 3), (1, 0)),
    "empty_strided": ((2, 3), (1, 2)),
    "eye": (3,),
    "full": ((2,), 7),
    "hamming_window": (3,),
    "hann_window": (3,),
    "kaiser_window": (3,),
    "linspace": (0, 1, 3),
    "logspace": (0, 1, 3),
    "ones": (2,),
    "rand": (2,),
    "randint": (5, (2,)),
    "randn": (2,),
    "randperm": (4,),
    "scalar_tensor": (2,),
    "sparse_bsc_tensor": ([0, 1], [0], [[[1.0]]], (1, 1)),
    "sparse_bsr_tensor": ([0, 1], [0], [[[1.0]]], (1, 1)),
    "sparse_coo_tensor": ([[0], [0]], [1.0], (2, 2)),
    "sparse_csc_tensor": ([0, 1, 1], [0], [1.0], (2, 2)),
    "sparse_csr_tensor": ([0, 1, 1], [0], [1.0], (2, 2)),
    "tensor": ([1.0],),
    "tril_indices": (3, 3),
    "triu_indices": (3, 3),
    "zeros": (2,),
}


class Counter(TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def in_thread(function):
    """What a function returns in a thread of its own."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


def test_a_function_mode_sees_the_calls_of_its_own_thread_only():
    with Counter() as outer:
        in_thread(lambda: rushlight.ones(2) + 1)
        assert outer.seen == []
        with Counter() as inner:
            rushlight.ones(2)
    assert (outer.seen, inner.seen) == (["ones"], ["ones"])


def test_modes_of_threads_that_overlap_do_not_mix():
    gate = threading.Barrier(2)
    seen = {}

    def work(name, function):
        with Counter() as mode:
            gate.wait()
            for _ in range(200):
                function()
            gate.wait()
        seen[name] = set(mode.seen)

    x = rushlight.ones(2)
    threads = [
        threading.Thread(target=work, args=("sin", x.sin)),
        threading.Thread(target=work, args=("cos", x.cos)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"sin": {"sin"}, "cos": {"cos"}}


@pytest.mark.parametrize("name", FACTORIES)
def test_a_factory_follows_the_default_device_of_its_thread(name):
    make = getattr(rushlight, name)
    with rushlight.device("meta"):
        assert make(*FACTORIES[name]).device.type == "meta"
        assert make(*FACTORIES[name], device="cpu").device.type == "cpu"
        assert in_thread(lambda: make(*FACTORIES[name])).device.type == "cpu"
    assert make(*FACTORIES[name]).device.type == "cpu"


def test_every_factory_of_the_oracle_follows_the_default_device():
    torch = pytest.importorskip("torch")
    from torch.utils._device import _device_constructors

    ours = {
        function.__name__
        for function in _device_constructors()
        if getattr(torch, function.__name__, None) is function
        and hasattr(rushlight, function.__name__)
    }
    # one is out of use, one needs a layout by name, one has no numbers on `meta`
    apart = {"range", "sparse_compressed_tensor", "empty_quantized"}
    assert ours - apart <= set(FACTORIES)


def test_set_default_device_is_of_one_thread_and_can_be_taken_back():
    rushlight.set_default_device("meta")
    try:
        assert rushlight.get_default_device() == rushlight.device("meta")
        assert rushlight.nn.Linear(2, 3).weight.device.type == "meta"
        assert in_thread(rushlight.get_default_device).type == "cpu"
        with rushlight.device("cpu"):
            assert rushlight.zeros(1).device.type == "cpu"
        assert rushlight.zeros(1).device.type == "meta"
    finally:
        rushlight.set_default_device(None)
    assert rushlight.zeros(1).device.type == "cpu"


def test_a_block_that_fails_gives_its_device_back():
    with pytest.raises(KeyError), rushlight.device("meta"), rushlight.device("cpu"):
        raise KeyError
    assert rushlight.zeros(1).device.type == "cpu"


def test_a_device_decorates_a_function():
    @rushlight.device("meta")
    def make(n):
        return rushlight.ones(n)

    assert make(3).device.type == "meta"
    assert rushlight.ones(3).device.type == "cpu"


def test_operators_on_tensors_do_not_see_the_default_device():
    x = rushlight.randn(4, 3, requires_grad=True)
    target = rushlight.tensor([0, 2, 1, 1])

    def results():
        x.grad = None
        loss = rushlight.nn.functional.cross_entropy(x.tanh() @ x.T @ x, target)
        loss.backward()
        parts = [x.sort(0).indices, x.quantile(0.3, 1), x.unique(), x.cov(), x[x > 0]]
        return [loss, x.grad, *parts], repr(x), x.tolist(), rushlight.allclose(x, x)

    expected = results()
    with rushlight.device("meta"):
        found = results()
    assert [t.device.type for t in found[0]] == ["cpu"] * len(found[0])
    for a, b in zip(expected[0], found[0], strict=True):
        assert rushlight.equal(a, b)
    assert expected[1:] == found[1:]
