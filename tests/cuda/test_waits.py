"""Who makes the host wait for a card: what follows from elements, and what PyTorch checks."""

from __future__ import annotations

from itertools import islice

import pytest

import rushlight as rl
from tests.cuda.sweep import converted, function_of

op_db = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations", exc_type=ImportError
).op_db

WAITING = ("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize")
# How often operators wait at most, by the reason why they may.
ALLOWED = {
    "a number is the result": {"item": 1, "allclose": 1, "equal": 1},
    "sizes of results follow from elements": {
        "__getitem__": 3, "argwhere": 1, "bincount": 2, "index_put": 1, "nonzero": 1,
        "masked_select": 1, "nn.functional.one_hot": 1, "repeat_interleave": 2,
        "tensor_split": 1, "to_sparse": 1, "unique": 1, "unique_consecutive": 1,
    },
    "a tensor stands for a number": {
        "index_fill": 1, "linspace": 2, "logspace": 2, "masked_fill": 1, "narrow": 1,
    },
    "lengths are the host's": {"nn.functional.ctc_loss": 2},
    "PyTorch looks at elements, too": {
        "cov": 3, "istft": 1, "matrix_exp": 2, "multinomial": 2, "normal": 1,
        "nn.functional.gaussian_nll_loss": 1,
    },
    "a factorization may fail": {
        "cholesky": 1, "cholesky_inverse": 1, "linalg.cholesky": 1, "linalg.cond": 1,
        "linalg.eig": 2, "linalg.eigh": 1, "linalg.eigvals": 2, "linalg.eigvalsh": 1,
        "linalg.inv": 1, "linalg.ldl_factor": 1, "linalg.lstsq": 1, "linalg.lu": 1,
        "linalg.lu_factor": 1, "linalg.matrix_power": 1, "linalg.matrix_rank": 1,
        "linalg.pinv": 1, "linalg.solve": 1, "linalg.svdvals": 1, "linalg.tensorinv": 1,
        "linalg.tensorsolve": 1, "norm": 1, "pinverse": 1,
    },
    "PyTorch's GPUs have no such operator": {"histogram": 2, "histogramdd": 4},
}  # fmt: skip
MOST = {name: most for names in ALLOWED.values() for name, most in names.items()}


def waits(machine, call):
    """How often a call waits, once its kernels are there; None where it is refused."""
    try:
        call()
        machine.fake.calls.clear()
        call()
    except Exception:  # judged by the sweep
        return None
    return len(machine.fake.names(*WAITING))


@pytest.mark.filterwarnings("ignore")  # the database's own
@pytest.mark.parametrize("name", sorted({op.name for op in op_db}))
def test_no_operator_waits_without_a_reason(name, machine):
    import torch

    machine.start(memory=1 << 28)
    counts = []
    for op in (op for op in op_db if op.name == name):
        function = function_of(name)
        if function is None or torch.float32 not in op.dtypes:
            continue
        for sample in islice(op.sample_inputs("cpu", torch.float32), 4):
            args = [converted(v, "cuda") for v in (sample.input, *sample.args)]
            kwargs = {k: converted(v, "cuda") for k, v in sample.kwargs.items()}
            found = waits(machine, lambda f=function, a=args, k=kwargs: f(*a, **k))
            counts += [] if found is None else [found]
    assert max(counts, default=0) <= MOST.get(name, 0), counts


def test_what_moves_without_blocking_is_not_waited_for(machine, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    machine.start(memory=1 << 26)
    plain, locked = rl.arange(40.0), rl.arange(40.0).pin_memory()
    plain.to("cuda").double()
    machine.fake.calls.clear()
    moved = [
        plain.to("cuda", non_blocking=True),
        locked.cuda(non_blocking=True),
        rl.empty(40, device="cuda").copy_(locked, non_blocking=True),
        rl.tensor(list(range(40)), device="cuda"),
        plain.to("cuda", rl.float64, non_blocking=True),
    ]
    back = rl.empty(40).pin_memory().copy_(moved[0], non_blocking=True)
    assert machine.fake.names(*WAITING) == []
    rl.cuda.synchronize()
    assert back.tolist() == plain.tolist()
    for tensor in moved:
        assert tensor.tolist() == plain.tolist()
    plain.cuda(), moved[0].cpu()
    assert len(machine.fake.names(*WAITING)) >= 2


REFUSED = {
    "binary_cross_entropy": lambda t: rl.nn.functional.binary_cross_entropy(
        t([0.5, 1.5]), t([0.0, 1.0])
    ),
    "quantile": lambda t: t([1.0, 2.0]).quantile(t([1.5])),
    "one_hot": lambda t: rl.nn.functional.one_hot(t([0, 4]), 3),
    "searchsorted": lambda t: rl.searchsorted(
        t([1.0, 2.0]), t([1.5]), sorter=t([0, 2])
    ),
    "segment_reduce": lambda t: rl.segment_reduce(
        t([1.0, 2.0]), "sum", offsets=t([0, 3]), axis=0, unsafe=True
    ),
    "embedding_bag": lambda t: rl.nn.functional.embedding_bag(
        t([0, 1]), t([[1.0], [2.0]]), t([0, 3])
    ),
    "masked_scatter": lambda t: t([1.0, 2.0]).masked_scatter(t([True, True]), t([3.0])),
    "lu_unpack": lambda t: rl.lu_unpack(
        t([[1.0, 2.0], [3.0, 4.0]]), t([3, 2]).to(rl.int32)
    ),
    "ctc_loss": lambda t: rl.nn.functional.ctc_loss(
        t([[[-1.0, -1.0]], [[-1.0, -1.0]]]), t([[5]]), [2], [1]
    ),
    "_assert_async": lambda t: rl._assert_async(t([0.0])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_told_at_once_on_the_host_and_later_of_a_card(name, machine):
    machine.start(memory=1 << 26)
    with pytest.raises(RuntimeError):
        REFUSED[name](rl.tensor)
    rl.zeros(1, device="cuda")  # the first launch of a card finds its fault word
    machine.fake.calls.clear()
    REFUSED[name](lambda data: rl.tensor(data, device="cuda"))
    assert machine.fake.names(*WAITING) == []
    with pytest.raises(RuntimeError, match=f"operator: {name}"):
        rl.cuda.synchronize()
    rl.cuda.synchronize()


def test_tables_of_interpolation_are_copied_once_and_captured(machine, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    machine.start(memory=1 << 26)
    here = rl.rand(1, 2, 5, 7, requires_grad=True)
    there = here.detach().to("cuda").requires_grad_()

    def resized(x):
        found = rl.nn.functional.interpolate(x, size=(9, 4), mode="bilinear")
        (grad,) = rl.autograd.grad(found.square().sum(), x)
        return found, grad

    wanted = resized(here)
    resized(there)
    rl.cuda.synchronize()
    machine.fake.calls.clear()
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        found = resized(there)
    assert "cuMemcpyAsync" not in machine.fake.names()
    graph.replay()
    for ours, host in zip(found, wanted, strict=True):
        assert rl.allclose(ours.cpu(), host)


FACTORIES = {
    "empty": lambda **how: rl.empty(3, 2, **how),
    "zeros_like": lambda **how: rl.zeros_like(rl.ones(3), **how),
    "new_full": lambda **how: rl.ones(3).new_full((4,), 2.0, **how),
    "arange": lambda **how: rl.arange(5, **how),
    "rand": lambda **how: rl.rand(4, **how),
    "tensor": lambda **how: rl.tensor([1.0, 2.0], **how),
    "eye": lambda **how: rl.eye(3, **how),
    "hann_window": lambda **how: rl.hann_window(6, **how),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_what_is_made_with_pin_memory_is_pinned(name, machine, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    machine.start(memory=1 << 26)
    make = FACTORIES[name]
    rl.manual_seed(0)
    plain = make(pin_memory=False)
    rl.manual_seed(0)
    made = make(pin_memory=True, requires_grad=plain.dtype.is_floating_point)
    assert made.is_pinned() and not plain.is_pinned()
    assert made.is_leaf and made.requires_grad == plain.dtype.is_floating_point
    assert name == "empty" or made.detach().equal(plain)
    assert not make(device="meta", pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        make(device="cuda", pin_memory=True)


def test_without_a_gpu_nothing_can_be_pinned(monkeypatch):
    monkeypatch.delenv("RUSHLIGHT_CUDA", raising=False)
    for make in FACTORIES.values():
        with pytest.raises(
            RuntimeError, match="pin_memory=True requires a CUDA or oth"
        ):
            make(pin_memory=True)
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when"):
        rl.ones(2).pin_memory()


def test_waits_are_told_of_where_a_program_asks_for_that(machine, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    x = rl.ones(3, device="cuda")
    calls = (
        lambda: x.sum().item(),
        lambda: x.cpu(),
        lambda: rl.ones(3).cuda(),
        lambda: x.nonzero(),
        lambda: bool((x > 0).all()),
    )
    words = "called a synchronizing CUDA operation"
    try:
        for call in calls:
            rl.cuda.set_sync_debug_mode("warn")
            with pytest.warns(UserWarning, match=words):
                call()
            rl.cuda.set_sync_debug_mode("error")
            with pytest.raises(RuntimeError, match=words):
                call()
        (x + x).sum()  # waits for nothing
        rl.ones(3).pin_memory().to("cuda", non_blocking=True)
        rl.cuda.synchronize()  # is meant
    finally:
        rl.cuda.set_sync_debug_mode(0)
    assert x.sum().item() == 3.0
