"""Calls on wrapper subclasses, some with gradients."""

from __future__ import annotations

import torch

import rushlight as rl
from tests.sequences.listen import on_wrappers, verdict_of

F = "nn.functional"


def at(lib, path):
    """What a dotted path names in a library."""
    for part in path.split("."):
        lib = getattr(lib, part)
    return lib


def given(lib, kind, sizes, grad=False):
    """A wrapper of numbers that begin with a half."""
    count = 1
    for size in sizes:
        count *= size
    return kind(lib.arange(count).reshape(sizes) * 0.25 + 0.5, requires_grad=grad)


def call(path, *sizes, rest=(), **kwargs):
    """A function of wrappers of these sizes."""
    return lambda lib, kind: at(lib, path)(
        *[given(lib, kind, one) for one in sizes], *rest, **kwargs
    )


def method(name, sizes, *rest, **kwargs):
    """A method of one wrapper."""
    return lambda lib, kind: getattr(given(lib, kind, sizes), name)(*rest, **kwargs)


def backward(function, *sizes):
    """A function of wrappers with gradients, and its gradients."""

    def run(lib, kind):
        leaves = [given(lib, kind, one, True) for one in sizes]
        function(lib, *leaves).sum().backward()
        return [one.grad for one in leaves]

    return run


def written(function, *sizes):
    """Something that is done to wrappers."""
    return lambda lib, kind: function(lib, *[given(lib, kind, one) for one in sizes])


V, M, B, I4 = (4,), (3, 4), (2, 3, 4), (2, 3, 5, 5)
CALLS = {
    "linear": call(f"{F}.linear", M, (2, 4), (2,)),
    "linear without bias": call(f"{F}.linear", M, (2, 4)),
    "linear of three": call(f"{F}.linear", B, (2, 4), (2,)),
    "linear of three without bias": call(f"{F}.linear", B, (2, 4)),
    "linear of one": call(f"{F}.linear", V, (2, 4), (2,)),
    "bilinear": call(f"{F}.bilinear", M, M, (2, 4, 4), (2,)),
    "matmul": call("matmul", M, (4, 2)),
    "matmul of vectors": call("matmul", V, V),
    "matmul by a vector": call("matmul", M, V),
    "vector by a matrix": call("matmul", (3,), M),
    "matmul of three by two": call("matmul", B, (4, 2)),
    "matmul of two by three": call("matmul", (2, 3), (4, 3, 5)),
    "matmul of three": call("matmul", B, (2, 4, 5)),
    "matmul of four": call("matmul", (2, 2, 3, 4), (2, 2, 4, 3)),
    "matmul broadcast": call("matmul", (2, 1, 3, 4), (5, 4, 3)),
    "einsum": written(lambda lib, a, b: lib.einsum("ij,jk->ik", a, b), M, (4, 2)),
    "einsum of batches": written(
        lambda lib, a, b: lib.einsum("bij,bjk->bik", a, b), B, (2, 4, 5)
    ),
    "tensordot": written(lambda lib, a, b: lib.tensordot(a, b, 1), M, (4, 2)),
    "outer": call("outer", V, V),
    "dot": call("dot", V, V),
    "addmm": call("addmm", (2,), M, (4, 2)),
    "baddbmm": call("baddbmm", (2, 3, 5), B, (2, 4, 5)),
    "chain_matmul": written(
        lambda lib, a, b: lib.linalg.multi_dot([a, b, a]), M, (4, 3)
    ),
    "multi_dot": written(
        lambda lib, a, b, c: lib.linalg.multi_dot([a, b, c]), M, (4, 2), (2, 5)
    ),
    "kron": call("kron", (2, 2), (2, 2)),
    "reshape": method("reshape", M, 12),
    "reshape that copies": written(lambda lib, a: a.t().reshape(12), M),
    "view": method("view", M, 2, 6),
    "view_as": written(lambda lib, a: a.view_as(a), M),
    "reshape_as": written(lambda lib, a, b: a.reshape_as(b), M, (2, 6)),
    "flatten": method("flatten", B),
    "flatten in part": method("flatten", B, 1),
    "unflatten": method("unflatten", M, 1, (2, 2)),
    "ravel": method("ravel", M),
    "T": written(lambda lib, a: a.T, M),
    "mT": written(lambda lib, a: a.mT, B),
    "t": method("t", M),
    "transpose": method("transpose", M, 0, 1),
    "swapaxes": method("swapaxes", M, 0, 1),
    "movedim": method("movedim", B, 0, 2),
    "permute": method("permute", B, 2, 0, 1),
    "expand_as": written(lambda lib, a, b: a.expand_as(b), V, M),
    "broadcast_to": written(lambda lib, a: lib.broadcast_to(a, M), V),
    "chunk": method("chunk", M, 2),
    "split": method("split", M, 2),
    "split by sizes": method("split", M, [1, 2]),
    "tensor_split": method("tensor_split", M, 2),
    "hsplit": method("hsplit", M, 2),
    "unbind": method("unbind", M),
    "narrow": method("narrow", M, 0, 1, 2),
    "select": written(lambda lib, a: a[0], M),
    "slice": written(lambda lib, a: a[1:], M),
    "index": written(lambda lib, a: a[:, None, ::2], M),
    "take_along_dim": written(
        lambda lib, a: lib.take_along_dim(a, lib.zeros(3, 1, dtype=lib.int64), 1), M
    ),
    "stack": written(lambda lib, a, b: lib.stack([a, b]), M, M),
    "vstack": written(lambda lib, a, b: lib.vstack([a, b]), M, M),
    "hstack": written(lambda lib, a, b: lib.hstack([a, b]), M, M),
    "cat": written(lambda lib, a, b: lib.cat([a, b]), M, M),
    "tile": method("tile", M, (2, 1)),
    "repeat": method("repeat", M, 2, 1),
    "float": method("float", M),
    "double": method("double", M),
    "to a type": written(lambda lib, a: a.to(lib.float64), M),
    "to the same type": written(lambda lib, a: a.to(lib.float32), M),
    "type_as": written(lambda lib, a, b: a.type_as(b), M, M),
    "contiguous": method("contiguous", M),
    "contiguous that copies": written(lambda lib, a: a.t().contiguous(), M),
    "clone": method("clone", M),
    "detach": method("detach", M),
    "item": written(lambda lib, a: a.sum().item(), M),
    "compare with a number": written(lambda lib, a: (a > 0, a == 1, a != 2, a <= 3), M),
    "compare": written(lambda lib, a, b: (a > b, a.eq(b)), M, M),
    "arithmetic with a number": written(
        lambda lib, a: (a + 1, 2 * a, 1 - a, a / 2, 2 / a), M
    ),
    "powers": written(lambda lib, a: (a**2, a**0.5, 2**a, a**a), M),
    "remainders": written(lambda lib, a: (a % 2, a // 2, lib.fmod(a, 2)), M),
    "in place": written(lambda lib, a: a.add_(1).mul_(2).clamp_(0, 1).fill_(3), M),
    "write a part": written(lambda lib, a, b: a.__setitem__(0, b), M, V),
    "write a number": written(lambda lib, a: a.__setitem__(0, 1.0), M),
    "masked_fill": written(lambda lib, a: a.masked_fill(a > 1, 0.0), M),
    "where": written(lambda lib, a: lib.where(a > 1, a, 0.0), M),
    "clamp": method("clamp", M, 0, 1),
    "square": method("square", M),
    "softmax": call("softmax", M, rest=(1,)),
    "log_softmax": call(f"{F}.log_softmax", M, dim=1),
    "dropout": call(f"{F}.dropout", M, p=0.5),
    "dropout in evaluation": call(f"{F}.dropout", M, p=0.5, training=False),
    "relu": call(f"{F}.relu", M),
    "relu6": call(f"{F}.relu6", M),
    "gelu": call(f"{F}.gelu", M),
    "silu": call(f"{F}.silu", M),
    "selu": call(f"{F}.selu", M),
    "softsign": call(f"{F}.softsign", M),
    "tanhshrink": call(f"{F}.tanhshrink", M),
    "layer_norm": call(f"{F}.layer_norm", M, rest=((4,),)),
    "rms_norm": call(f"{F}.rms_norm", M, rest=((4,),)),
    "group_norm": call(f"{F}.group_norm", (2, 4, 3), rest=(2,)),
    "instance_norm": call(f"{F}.instance_norm", B),
    "batch_norm": call(f"{F}.batch_norm", M, V, V, training=True),
    "normalize": call(f"{F}.normalize", M),
    "cosine_similarity": call(f"{F}.cosine_similarity", M, M),
    "pairwise_distance": call(f"{F}.pairwise_distance", M, M),
    "conv1d": call(f"{F}.conv1d", (2, 3, 5), (4, 3, 3), (4,)),
    "conv2d": call(f"{F}.conv2d", I4, (4, 3, 3, 3), (4,)),
    "conv2d without bias": call(f"{F}.conv2d", I4, (4, 3, 3, 3), padding=1),
    "conv2d padded to the same": call(f"{F}.conv2d", I4, (4, 3, 3, 3), padding="same"),
    "conv_transpose2d": call(f"{F}.conv_transpose2d", I4, (3, 4, 3, 3)),
    "max_pool2d": call(f"{F}.max_pool2d", I4, rest=(2,)),
    "avg_pool2d": call(f"{F}.avg_pool2d", I4, rest=(2,)),
    "adaptive_avg_pool2d": call(f"{F}.adaptive_avg_pool2d", I4, rest=(1,)),
    "interpolate": call(f"{F}.interpolate", I4, scale_factor=2),
    "pad": call(f"{F}.pad", M, rest=((1, 1),)),
    "reflect": call(f"{F}.pad", B, rest=((1, 1),), mode="reflect"),
    "attention": call(f"{F}.scaled_dot_product_attention", *[(1, 2, 3, 4)] * 3),
    "mse_loss": call(f"{F}.mse_loss", M, M),
    "l1_loss": call(f"{F}.l1_loss", M, M),
    "huber_loss": call(f"{F}.huber_loss", M, M),
    "kl_div": call(f"{F}.kl_div", M, M),
    "binary_cross_entropy_with_logits": call(
        f"{F}.binary_cross_entropy_with_logits", M, M
    ),
    "cross_entropy": written(
        lambda lib, a: lib.nn.functional.cross_entropy(a, lib.tensor([0, 1, 2])), M
    ),
    "cross_entropy of probabilities": call(f"{F}.cross_entropy", M, M),
    "embedding": written(
        lambda lib, a: lib.nn.functional.embedding(lib.tensor([0, 2]), a), M
    ),
    "mean": method("mean", M),
    "mean of rows": method("mean", M, 1),
    "sum": method("sum", M),
    "var": method("var", M),
    "std": method("std", M, 1),
    "norm": method("norm", M),
    "linalg.norm": call("linalg.norm", M),
    "logsumexp": method("logsumexp", M, 1),
    "max of rows": method("max", M, 1),
    "sort": method("sort", M),
    "argsort": method("argsort", M),
    "topk": method("topk", M, 2),
    "cumsum": method("cumsum", M, 0),
    "diff": method("diff", M),
    "trace": method("trace", (3, 3)),
    "diag": method("diag", (3, 3)),
    "tril": method("tril", M),
    "zeros_like": call("zeros_like", M),
    "new_zeros": method("new_zeros", M, 2),
    "inverse": call("linalg.inv", (2, 2)),
    "solve": call("linalg.solve", (2, 2), (2, 2)),
    "det": call("linalg.det", (2, 2)),
    "data": written(lambda lib, a: a.data, M),
    "linear and its gradients": backward(
        lambda lib, *a: lib.nn.functional.linear(*a), M, (2, 4), (2,)
    ),
    "linear of three and its gradients": backward(
        lambda lib, *a: lib.nn.functional.linear(*a), B, (2, 4), (2,)
    ),
    "matmul and its gradients": backward(lambda lib, a, b: a @ b, M, (4, 2)),
    "matmul of three and its gradients": backward(
        lambda lib, a, b: a @ b, B, (2, 4, 5)
    ),
    "exp and its gradient": backward(lambda lib, a: a.exp(), M),
    "tanh and its gradient": backward(lambda lib, a: a.tanh(), M),
    "softmax and its gradient": backward(lambda lib, a: a.softmax(1), M),
    "relu and its gradient": backward(lambda lib, a: a.relu(), M),
    "gelu and its gradient": backward(lambda lib, a: lib.nn.functional.gelu(a), M),
    "layer_norm and its gradients": backward(
        lambda lib, a, w, b: lib.nn.functional.layer_norm(a, (4,), w, b), M, V, V
    ),
    "conv2d and its gradients": backward(
        lambda lib, *a: lib.nn.functional.conv2d(*a), I4, (4, 3, 3, 3), (4,)
    ),
    "products and their gradients": backward(lambda lib, a, b: a * b + a / b - a, M, M),
    "powers and their gradients": backward(lambda lib, a: a**2 + a.sqrt(), M),
    "views and their gradients": backward(
        lambda lib, a: a.reshape(4, 3).t()[1:].flatten(), M
    ),
}


def compare(name):
    """What becomes of a call: ``(verdict, detail)``."""
    function = CALLS[name]
    return verdict_of(on_wrappers(torch, function), on_wrappers(rl, function))
