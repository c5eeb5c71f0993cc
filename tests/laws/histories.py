"""What may be done to tensors, and what a user sees of them afterwards."""

from __future__ import annotations

import importlib

import numpy as np

VALUES = {
    "sin": lambda x, c: x.sin(),
    "tanh": lambda x, c: x.tanh(),
    "square": lambda x, c: x.square(),
    "sigmoid": lambda x, c: x.sigmoid(),
    "clone": lambda x, c: x.clone(),
    "sum": lambda x, c: x.sum(0),
    "mean": lambda x, c: x.mean(-1),
    "cumsum": lambda x, c: x.cumsum(0),
    "cumprod": lambda x, c: x.cumprod(-1),
    "flip": lambda x, c: x.flip(0),
    "conj_physical": lambda x, c: x.conj_physical(),
    "abs": lambda x, c: x.abs(),
    "angle": lambda x, c: x.angle(),
    "norm": lambda x, c: x.norm(),
    "sort": lambda x, c: x.sort(0)[0],
    "cummax": lambda x, c: x.abs().cummax(0)[0],
    "softmax": lambda x, c: x.softmax(-1),
    "logsumexp": lambda x, c: x.logsumexp(0),
    "relu": lambda x, c: x.relu(),
    "twice": lambda x, c: x.repeat(2, *[1] * (x.dim() - 1)),
    "picked": lambda x, c: x[[0, -1, 0]],
    "masked": lambda x, c: x.masked_fill(x.abs() > 1, 0.5),
}
VIEWS = {
    "transpose": lambda x, c: x.transpose(0, -1),
    "mT": lambda x, c: x.mT,
    "select": lambda x, c: x.select(0, c % max(x.shape[0], 1)),
    "narrow": lambda x, c: x.narrow(0, c % 2, x.shape[0] - c % 2),
    "step": lambda x, c: x[c % 2 :: 2],
    "ellipsis": lambda x, c: x[..., -1],
    "unsqueeze": lambda x, c: x.unsqueeze(c % 2),
    "squeeze": lambda x, c: x.squeeze(),
    "expand": lambda x, c: x.unsqueeze(0).expand(2, *x.shape),
    "view": lambda x, c: x.view(-1),
    "reshape": lambda x, c: x.reshape(-1),
    "flatten": lambda x, c: x.flatten(),
    "diagonal": lambda x, c: x.diagonal(),
    "permute": lambda x, c: x.permute(*reversed(range(x.dim()))),
    "movedim": lambda x, c: x.movedim(0, -1),
    "chunk": lambda x, c: x.chunk(2)[c % 2],
    "split": lambda x, c: x.split(2)[-1],
    "unbind": lambda x, c: x.unbind(0)[c % max(x.shape[0], 1)],
    "detach": lambda x, c: x.detach(),
    "data": lambda x, c: x.data,
    "alias": lambda x, c: x.view_as(x),
    "as_strided": lambda x, c: x.as_strided((2,), (1,), x.storage_offset() + c % 2),
    "conj": lambda x, c: x.conj(),
    "real": lambda x, c: x.real,
    "imag": lambda x, c: x.imag,
    "imag of conj": lambda x, c: x.conj().imag,
    "as real": lambda x, c: _module(x).view_as_real(x),
}
CHANGES = {
    "mul_": lambda x, c: x.mul_(2),
    "add_": lambda x, c: x.add_(1),
    "fill_": lambda x, c: x.fill_(3),
    "zero_": lambda x, c: x.zero_(),
    "sin_": lambda x, c: x.sin_(),
    "square_": lambda x, c: x.square_(),
    "sigmoid_": lambda x, c: x.sigmoid_(),
    "cumsum_": lambda x, c: x.cumsum_(0),
    "clamp_": lambda x, c: x.clamp_(-1, 1),
    "neg_": lambda x, c: x.neg_(),
    "masked_fill_": lambda x, c: x.masked_fill_(x.abs() > 1, 2.0),
    "index_add_": lambda x, c: x.index_add_(0, _module(x).tensor([0]), x[:1].clone()),
    "mask =": lambda x, c: x.__setitem__(x.abs() > 1, 0.5),
    "first =": lambda x, c: x.__setitem__(0, 1.5),
    "columns =": lambda x, c: x.__setitem__((..., slice(2)), x[..., :2] * 2),
    "requires_grad_": lambda x, c: x.requires_grad_(),
    "hook": lambda x, c: x.register_hook(lambda grad: grad * 2) and None,
    "retain_grad": lambda x, c: x.retain_grad(),
}
PAIRS = {
    "add": lambda x, y: x.add(y),
    "mul": lambda x, y: x.mul(y),
    "sub": lambda x, y: x - y,
    # PyTorch's gradient of a real operand beside a complex one is an internal error
    "where": lambda x, y: _module(x).where(x.abs() > 1, x, y.to(x.dtype)),
    "cat": lambda x, y: _module(x).cat([x, y]),
    "add_": lambda x, y: x.add_(y),
    "mul_": lambda x, y: x.mul_(y),
    "copy_": lambda x, y: x.copy_(y),
    "first =": lambda x, y: x.__setitem__(0, y),
}
DRAWN = [
    *((1, kind) for kind in VALUES.items()),
    *((1, kind) for kind in VIEWS.items()),
    *((1, kind) for kind in CHANGES.items()),
    *((2, kind) for kind in PAIRS.items() for _ in range(3)),
]


def _module(x):
    return importlib.import_module(type(x).__module__.partition(".")[0])


def numbers(x):
    return None if x is None else (x.requires_grad, (x.detach() + 0).tolist())


def seen(x):
    """All that a user sees of a tensor."""
    try:
        known = x.grad_fn is None
    except RuntimeError:
        known = "refused"
    return (
        tuple(x.shape),
        x.stride(),
        x.storage_offset(),
        x.requires_grad,
        x.is_leaf if known != "refused" else known,
        known,
        x._version,
        x._is_view(),
        x.is_conj(),
        x.is_neg(),
        numbers(x)[1],
    )


def alike(left, right):
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, (float, complex)) and isinstance(right, (float, complex)):
        near = abs(left - right) <= 1e-9 * max(abs(left), abs(right), 1e-3)
        return near or left == right or (left != left and right != right)
    return left == right


def starts(module, choose, seed, scale=1):
    """Three tensors to begin with, all real or all complex, some that learn."""
    values = np.random.default_rng(seed)
    complex_numbers = choose.random() < 0.3
    dtype = module.complex128 if complex_numbers else module.float64
    found = []
    for _ in range(3):
        start = values.standard_normal(choose.choice([(3, 4), (4,), (2, 3, 2), (3, 3)]))
        if complex_numbers:
            start = start + 1j * values.standard_normal(start.shape)
        wants = choose.random() < 0.6
        start = (start * scale).tolist()
        found.append(module.tensor(start, dtype=dtype, requires_grad=wants))
    return found
