"""Drawn programs of views, writes and elementwise operators under forward mode.

The same program runs here and on PyTorch: primal values, tangents, what requires
gradients, which tangents share memory, and what is refused agree.
"""

import random

import pytest

import rushlight as rl
from rushlight.autograd import forward_ad

torch = pytest.importorskip("torch")
# PyTorch's first dual compiles decompositions with what it has deprecated itself
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script")

VIEWS = [
    lambda x, r: x[r.randrange(x.shape[0])] if x.dim() and x.shape[0] else x.view(1),
    lambda x, r: x[r.randrange(2) :: 1 + r.randrange(2)] if x.dim() else x.unsqueeze(0),
    lambda x, r: x.transpose(0, -1) if x.dim() else x.unsqueeze(0),
    lambda x, r: x.unsqueeze(r.randrange(x.dim() + 1)),
    lambda x, r: x.diagonal() if x.dim() == 2 else x.reshape(-1),
    lambda x, r: x.unbind(0)[0] if x.dim() and x.shape[0] else x.reshape(1),
    lambda x, r: x.reshape(-1),
    lambda x, r: x.detach(),
    lambda x, r: x.squeeze(),
]
FRESH = [
    lambda x, y, r: x * 2,
    lambda x, y, r: x * y,
    lambda x, y, r: x.sin() + y,
    lambda x, y, r: (x * 0.5).exp(),
    lambda x, y, r: x.sum() * y,
    lambda x, y, r: x.clone(),
    lambda x, y, r: x.contiguous(),
    lambda x, y, r: (x > 0).to(x.dtype) * x,
    lambda x, y, r: x.new_zeros(x.shape),
]
WRITES = [
    lambda x, y, r: x.mul_(y),
    lambda x, y, r: x.add_(y),
    lambda x, y, r: x.copy_(y),
    lambda x, y, r: x.sin_(),
    lambda x, y, r: x.mul_(3),
    lambda x, y, r: x.zero_(),
    lambda x, y, r: x.fill_(2.0),
    lambda x, y, r: x.sub_(y.detach()),
    lambda x, y, r: x.detach_(),
    lambda x, y, r: x.t_() if x.dim() <= 2 else x,
]


def run(package, fw, seed):
    """What a drawn program says of all its tensors."""
    r = random.Random(seed)
    numbers = [r.uniform(-2, 2) for _ in range(24)]
    x = package.tensor(numbers[:6], dtype=package.float64).view(2, 3)
    w = package.tensor(numbers[6:12], dtype=package.float64).view(2, 3)
    w.requires_grad_(r.random() < 0.5)
    early = package.zeros(2, 3, dtype=package.float64)
    t = package.tensor(numbers[12:18], dtype=package.float64).view(2, 3)
    log = []
    with fw.dual_level():
        made = [fw.make_dual(x * 1, t * 1), w, early, early[1], early.t()]
        if r.random() < 0.5:
            made.append(fw.make_dual(w, t * 2))
        for _ in range(8):
            one, other = r.choice(made), r.choice(made)
            step = r.choice([*VIEWS, *FRESH, *WRITES, *WRITES])
            if step in WRITES and memory(one) == memory(other):
                other = other.clone()  # PyTorch's tangent of x.mul_(x) is 3 x t
            for tensor in made:
                tensor.grad_fn  # noqa: B018 - which refreshes views on both sides
            state = r.getstate()
            arguments = (one, r) if step in VIEWS else (one, other, r)
            try:
                made.append(step(*arguments))
                log.append("done")
            except (RuntimeError, NotImplementedError, IndexError, ValueError) as error:
                log.append(type(error).__name__)
            r.setstate(state)
            r.random()
        log.extend(describe(fw, one) for one in made)
        log.append(shared([fw.unpack_dual(one).tangent for one in made]))
    log.append([fw.unpack_dual(one).tangent is None for one in made])
    return log


def memory(tensor):
    return tensor.untyped_storage().data_ptr()


def describe(fw, tensor):
    primal, tangent = fw.unpack_dual(tensor)
    moved = None if tangent is None else rounded(tangent)
    strides = None if tangent is None else tangent.stride()
    return rounded(primal), moved, strides, tensor.requires_grad


def rounded(tensor):
    flat = tensor.detach().reshape(-1).tolist()
    return tuple(tensor.shape), [float(f"{number:.9g}") + 0.0 for number in flat]


def shared(tangents):
    """Where each tangent's memory was first seen."""
    seen = [None if t is None else memory(t) for t in tangents]
    return [None if place is None else seen.index(place) for place in seen]


@pytest.mark.parametrize("part", range(8))
def test_drawn_programs_have_the_tangents_of_pytorch(part):
    for seed in range(part * 100, part * 100 + 100):
        assert run(rl, forward_ad, seed) == run(
            torch, torch.autograd.forward_ad, seed
        ), seed
