"""A call is refused where PyTorch refuses it, and gives what PyTorch gives elsewhere.

Each line is an expression that both libraries evaluate, one after the other in one set of
names: the values must be the same, or the classes of the exceptions.
"""

import math
import warnings

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

START = """
from rushlight.nn import functional as F
import numpy as np
inf, nan = float("inf"), float("nan")
"""

PROGRAMS = {
    "complex sums multiply with one": """
        c = rl.tensor([1 + 2j, 0j, -1 - 0j])
        i = rl.tensor([complex(inf, 0), complex(1, -inf), complex(nan, 1)])
        c + inf
        inf - c
        c - inf
        c + nan
        c + i
        i - c
        c - i
        rl.rsub(c, i)
        c.clone().add_(i)
        c.clone().sub_(i)
        c[:, None] - i
        rl.add(c, i, alpha=2)
        rl.sub(c, i, alpha=1j)
        rl.addcmul(c, i, c)
        rl.addcdiv(c, i, c)
        rl.lerp(c, i, 0.3)
        rl._foreach_add([c], [i])
        rl._foreach_sub([c], inf)
        c.index_add(0, rl.tensor([0, 1, 2]), i)
        rl.zeros(3, 1, dtype=c.dtype).index_add(0, rl.tensor([2, 0, 1]), i[:, None])
    """,
    "results of in-place calls over lists": """
        l = [rl.ones(2), rl.zeros(3)]
        rl._foreach_add_(l, 1) is l
        rl._foreach_sqrt_(self=l) is l
        rl._foreach_mul_(tuple(l), l)
        rl._foreach_lerp_(l, l, 0.5) is l
        rl._foreach_zero_(l) is l
        rl.ops.aten._foreach_add_.Scalar(l, 1)
        rl._foreach_copy_(l, l) is l
        rl._foreach_neg(l)
    """,
    "named results": """
        x = rl.tensor([[3.0, 1.0], [2.0, 4.0]])
        places = (rl.empty(0), rl.empty(0, dtype=rl.int64))
        type(rl.sort(x, out=places)).__name__
        type(rl.sort(x)).__name__
        type(rl.max(x, 0, out=places)).__name__
        type(rl.topk(x, 1, out=places)).__name__
        type(rl.linalg.eigh(x, out=(rl.empty(0), rl.empty(0)))).__name__
        type(rl.slogdet(x, out=(rl.empty(0), rl.empty(0)))).__name__
        rl.return_types.sort_out is type(rl.sort(x, out=places))
        rl.return_types.sort.n_fields, rl.return_types.sort.n_unnamed_fields
        "max_out" in dir(rl.return_types)
    """,
    "laws with a shape of their own": """
        D = rl.distributions.Distribution
        D(rl.tensor([2]), validate_args=False).batch_shape
        D(rl.tensor(2), validate_args=False).batch_shape
        D(3, validate_args=False).batch_shape
        D((2,), (3,), validate_args=False).event_shape
    """,
    "data parallel modules without devices": """
        m = rl.nn.DataParallel(rl.nn.Linear(2, 3), device_ids=[0])
        m.device_ids, hasattr(m, "dim"), m(rl.ones(4, 2)).shape
        rl.nn.parallel.data_parallel(rl.nn.Linear(2, 3), rl.ones(1, 2))
    """,
    "short-time transforms": """
        x, w = rl.arange(32.0).sin(), rl.hann_window(8)
        rl.stft(x, 8, window=w, pad_mode=None, center=False, return_complex=True).shape
        x.stft(8, window=w, pad_mode=None, center=False, return_complex=True).shape
        rl.stft(x, 8, window=w, pad_mode=None, return_complex=True)
        rl.stft(x, 8, window=w, pad_mode="foo", return_complex=True)
        rl.functional.stft is rl.stft, rl.functional.istft is rl.istft
        rl.functional.broadcast_shapes((2, 1), (3,))
    """,
    "what gradcheck looks at": """
        x = rl.ones(2, dtype=rl.float64, requires_grad=True)
        calls = [0]
        def counted(): calls[0] += 1; return calls[0]
        check = rl.autograd.gradcheck
        check(lambda x: x.repeat(counted()), (x,))
        check(lambda x: x.repeat(counted()), (x,), fast_mode=True)
        calls[0] = 0
        check(lambda x: x.repeat(min(counted(), 2)), (x,))
        check(lambda x: x.to(rl.float64 if counted() % 2 else rl.float32), (x,))
        check(lambda x: x.sum().item(), (x,))
        check(lambda x: (x * 2).to_sparse(), (x,))
        check(lambda x: x * 2, (x,), check_batched_forward_grad=True)
        check(lambda x: x * 2, (x,), check_batched_forward_grad=True, check_forward_ad=True)
    """,
    "kernels that are not deterministic": """
        rl.use_deterministic_algorithms(True)
        F.max_unpool1d(rl.ones(1, 1, 2), rl.tensor([[[0, 1]]]), 2)
        F.max_unpool2d(rl.ones(1, 1, 1, 1), rl.tensor([[[[0]]]]), 2)
        F.max_unpool3d(rl.ones(1, 1, 1, 1, 1), rl.tensor([[[[[0]]]]]), 1)
        rl.ones(2).put_(rl.tensor([0]), rl.ones(1))
        rl.ones(2).put(rl.tensor([0]), rl.ones(1))
        rl.ones(2).put_(rl.tensor([0]), rl.ones(1), accumulate=True)
        rl.use_deterministic_algorithms(False)
        rl.ones(2).put_(rl.tensor([0]), rl.ones(1))
    """,
    "what may be another tensor's data": """
        x, y = rl.ones(2), rl.ones(2, requires_grad=True)
        setattr(x, "data", rl.ones(3, device="meta"))
        setattr(x, "data", rl.quantize_per_tensor(rl.ones(2), 0.1, 0, rl.quint8))
        setattr(x, "data", rl.ones(2, 2).to_sparse())
        setattr(x, "data", 3)
        setattr(x, "data", None)
        setattr(y, "data", rl.ones(2, dtype=rl.int32))
        setattr(x, "data", rl.ones(3, dtype=rl.float64))
        x.dtype == rl.float64, x.shape
    """,
    "places outside of tensors without elements": """
        a, b = rl.empty(0, 3), rl.empty(3, 0)
        five, none = rl.tensor([5]), rl.tensor([], dtype=rl.int64)
        a.index_select(1, five)
        a.index_select(0, five)
        a.index_select(1, -five)
        b.index_select(0, five)
        a.index_select(0, none)
        b.index_copy(0, five, rl.empty(1, 0))
        b.index_fill(0, five, 1)
        a.index_fill(1, five, 1)
        a.index_fill(0, five, 1)
        b.index_add(0, five, rl.empty(1, 0))
        b.index_reduce(0, five, rl.empty(1, 0), "prod")
        b.index_reduce(0, five - 4, rl.empty(1, 0), "amax")
        b.index_put((five,), rl.ones(1))
        b[five]
        a.take(five)
        rl.empty(0).put(five, rl.ones(1))
        F.embedding(five, b)
        F.embedding(five, a)
    """,
    "devices": """
        rl.device("")
        rl.device("mps"), rl.device("xla:1"), rl.device("hpu"), rl.device("npu")
        rl.Generator("mps")
        rl.Generator("xpu")
        rl.zeros(2, device="xpu")
        rl.zeros(2, device="vulkan")
    """,
    "what packed sequences can do": """
        p = rl.nn.utils.rnn.pack_sequence([rl.ones(2), rl.ones(1)])
        p.long().data
        p.is_pinned()
        p.cuda()
        p.to(rl.float64, non_blocking=True).data
    """,
    "what operators are called": """
        rl.ops.aten.add.Tensor.__name__, rl.ops.aten.add.Tensor.__qualname__
        rl.ops.aten.add.__name__, rl.ops.aten.__name__[-8:]
        rl.ops.aten.add.__module__.partition(".")[2]
        rl.ops.aten.add.Tensor.__module__.partition(".")[2]
        rl.utils.data.DistributedSampler[int] is not None
        rl.utils.data.DataLoader[int] is not None
    """,
}


def told(value):
    """A value in a form that does not hang on the library."""
    if hasattr(value, "untyped_storage"):
        if value.is_complex():
            return ("complex", told(value.real), told(value.imag))
        numbers = np.asarray(value.detach().tolist(), dtype=float)
        spelled = [
            "nan" if math.isnan(n) else f"{n:.4g}" for n in numbers.ravel().tolist()
        ]
        kind = str(value.dtype).rpartition(".")[2]
        return (kind, tuple(value.shape), spelled)
    if isinstance(value, (tuple, list)):
        kind = "list" if isinstance(value, list) else "tuple"
        return (kind, [told(item) for item in value])
    return repr(value)


def outcomes(library, text):
    """What each line of a program gives, or the class of what it raises."""
    names = {"rl": library}
    name = "torch" if library is torch else "rushlight"
    exec(START.replace("rushlight", name), names)
    found = []
    for line in text.strip().splitlines():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                try:
                    code = compile(line.strip(), "<line>", "eval")
                except SyntaxError:
                    exec(line.strip(), names)
                    continue
                found.append((line.strip(), told(eval(code, names))))
            except Exception as error:
                found.append((line.strip(), type(error).__name__))
    return found


@pytest.fixture(autouse=True)
def _modes():
    yield
    for library in (torch, rushlight):
        library.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_lines_have_pytorch_s_outcomes(name):
    ours, theirs = (outcomes(lib, PROGRAMS[name]) for lib in (rushlight, torch))
    assert ours == theirs
