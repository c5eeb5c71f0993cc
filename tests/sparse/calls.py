"""Calls on sparse tensors, for tests that compare what comes of them."""

import re

COMPRESSED = ["sparse_csr", "sparse_csc"]


def described(value):
    """Layout, type, sizes and parts as plain Python."""
    if isinstance(value, (tuple, list)):
        return [described(item) for item in value]
    if not hasattr(value, "layout"):
        return value
    value = value.detach()
    layout = str(value.layout).rpartition(".")[2]
    facts = [layout, str(value.dtype).rpartition(".")[2], list(value.shape)]
    if layout == "strided":
        parts = [value]
    elif layout == "sparse_coo":
        parts = [value._indices(), value._values()]
        facts.append(value.is_coalesced())
    elif layout in ("sparse_csr", "sparse_bsr"):
        parts = [value.crow_indices(), value.col_indices(), value.values()]
    else:
        parts = [value.ccol_indices(), value.row_indices(), value.values()]
    return facts + [rounded(part.tolist()) for part in parts]


def rounded(numbers):
    if isinstance(numbers, list):
        return [rounded(number) for number in numbers]
    return round(numbers, 4) if isinstance(numbers, float) else numbers


def outcome(call, module):
    try:
        return described(call(module))
    except Exception as error:
        first = str(error).splitlines()[0]
        where = re.match(r"Could not run '(aten::\w+)[^']*' .* '(\w+)' backend", first)
        return type(error).__name__, where.groups() if where else first


def example(m, coalesced=False):
    places = m.tensor([[0, 1, 1], [2, 0, 2]])
    s = m.sparse_coo_tensor(places, m.tensor([3.0, 4.0, 5.0]), (2, 3))
    return s.coalesce() if coalesced else s


def doubled(m):
    """Coordinates that are there twice and out of order."""
    places = m.tensor([[1, 0, 1, 0], [2, 0, 2, 1]])
    return m.sparse_coo_tensor(places, m.tensor([3.0, 4.0, 5.0, 7.0]), (2, 3))


def dense(m):
    return m.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])


def matrix(m):
    return m.arange(6.0).reshape(3, 2)


CALLS = """
S([[0, 1], [1, 0]], [1, 2], (2, 2), dtype=m.float64)
S((2, 3))
S(m.tensor([[0, 1, 1, 0]]), m.tensor([1., 2, 3, 4]))
S(m.tensor([[0, 1, 1]]), m.arange(6.).reshape(3, 2))
S(m.tensor([[0, 1, 5]]), m.tensor([1., 2, 3]), (3,), check_invariants=True)
S(m.tensor([[0, -1]]), m.tensor([1., 2]), (3,), check_invariants=True)
S(m.tensor([[1, 0]]), m.tensor([1., 2]), (3,), is_coalesced=True, check_invariants=True)
S(m.tensor([[0, -1, 1]]), m.tensor([1., 2, 3]))
S(m.tensor([[0, 1, 1]]), m.tensor([1., 2]), (3,))
S(m.tensor([0, 1, 1]), m.tensor([1., 2, 3]), (3,))
S(m.tensor([[0, 1, 1]]), m.tensor([1., 2, 3]), (3, 2))
S(m.tensor([[0, 1, 1]]), m.rand(3, 2), (3, 3))
twice(m).coalesce()
twice(m).to_dense()
twice(m).indices()
twice(m).values()
[s._nnz(), s.sparse_dim(), s.dense_dim(), s.is_coalesced(), s.is_sparse, s.is_sparse_csr]
[d.sparse_dim(), d.dense_dim(), d.is_sparse, d.to_dense()]
d.indices()
d.values()
d.coalesce()
d.is_coalesced()
d.crow_indices()
s.crow_indices()
s.view(6)
s.reshape(6)
s.exp()
s.cos()
s + 1
s * 2
2 * s
s / 2
s // 2
s.div(2, rounding_mode="floor")
s / s
s + s
s - s
(s + twice(m)).coalesce()
s.coalesce() + twice(m).coalesce()
(s * twice(m)).to_dense()
s * d
d * s
s + d
d + s
d - s
s.sum()
s.sum(0)
s.sum((0, 1))
s.sum(1, keepdim=True).coalesce()
s.int().sum(0)
s.t()
s.transpose(0, 1)
s.permute(1, 0)
s.permute(0, 0)
s.unsqueeze(0)
s.unsqueeze(-1)
s[0].coalesce()
s[0, 2]
[row.coalesce() for row in s]
len(s)
s.select(1, 2).coalesce()
s.select(1, 3)
s.index_select(1, m.tensor([2, 0]))
s.narrow_copy(0, 0, 1)
m.cat([s, s])
m.cat([s, s], 1)
m.stack([s, s], 1)
m.cat([s, d])
s @ x
x @ s
s @ s.t()
s @ m.ones(3)
m.mv(s, m.ones(3))
s @ m.ones(2, 2)
m.addmm(m.ones(2, 2), s, x, beta=2, alpha=3)
m.sparse.addmm(m.ones(2, 2), s, x)
m.sparse.mm(s, x)
m.sparse.mm(s, s.t())
m.sparse.mm(c, x)
m.sparse.mm(c, x, "amax")
m.sparse.mm(c, x, "mean")
m.sparse.sum(s, 0)
m.sparse.sum(s, 0, dtype=m.float64)
m.sparse.sum(s)
m.sparse.softmax(s, 1)
m.sparse.log_softmax(s, 0)
m.sparse.spdiags(m.ones(2, 3), m.tensor([0, 1]), (3, 3))
m.sparse.spdiags(m.ones(2, 3), m.tensor([0, 0]), (3, 3))
m.sparse.sampled_addmm(m.ones(2, 2).to_sparse_csr(), m.ones(2, 3), x)
m.hspmm(s, x)
m.smm(s, x)
m.sspaddmm(S((2, 2)), s, x)
m.bmm(m.stack([s, s]), m.ones(2, 3, 1))
d.sparse_mask(s)
d.t().sparse_mask(s)
s.norm()
s.abs()
s.sqrt()
s.neg()
s.relu()
s.pow(2)
s.pow(0)
s.isnan()
s.any()
s.max()
s.coalesce().sin_()
s.sin_()
s.neg_()
s.mul_(2)
s.add_(d)
d.add_(s)
s.add_(s)
s.zero_()
s.fill_(1)
s.clone()
s.double()
s.to(m.bool)
s * 1j
m.zeros_like(s)
m.empty_like(s)
m.zeros(2, 3, layout=m.sparse_coo)
m.zeros(2, 2, layout=m.sparse_csr)
d.to_sparse()
d.to_sparse(1)
d.to_sparse(3)
d.to_sparse(0)
m.tensor(3.).to_sparse()
m.zeros(2, 0).to_sparse()
s.to_sparse(1)
s.to_sparse_csr()
s.to_sparse_csc()
d.to_sparse_bsr((1, 3))
d.to_sparse_bsr((2, 2))
d.to_sparse_bsc((2, 1))
m.ones(2, 2, 2).to_sparse_csr()
m.ones(2, 2, 2).to_sparse_csr(dense_dim=1)
d.to_sparse(layout=m.sparse_bsr)
s == s
S(m.tensor([[0]]), m.tensor([3.]), (1,)).item()
bool(S(m.tensor([[0]]), m.tensor([3.]), (1,)))
s.copy_(d.to_sparse())
s.copy_(d)
d.copy_(s)
s.sparse_resize_((3, 3), 2, 0)
s.sparse_resize_((2, 2), 2, 0)
s.sparse_resize_((2, 3), 2, 1)
s.sparse_resize_and_clear_((2, 2), 1, 1)
S((2, 2)).resize_as_sparse_(s)
m.sparse_csr_tensor([0, 2, 3], [0, 1, 1], [1., 2., 3.])
m.sparse_csr_tensor([0, 2, 3], [0, 1, 5], [1., 2, 3], (2, 2), check_invariants=True)
m.sparse_csr_tensor([1, 2, 3], [0, 1, 1], [1., 2, 3], (2, 2), check_invariants=True)
m.sparse_csr_tensor([0, 2, 4], [0, 1, 1], [1., 2, 3], (2, 2), check_invariants=True)
m.sparse_csr_tensor([0, 2, 3], [1, 0, 1], [1., 2, 3], (2, 2), check_invariants=True)
m.sparse_compressed_tensor([0, 1, 2], [0, 1], [1., 2.])
m.sparse_bsr_tensor([0, 1, 2], [0, 1], m.arange(8.).reshape(2, 2, 2), (4, 4)).to_dense()
m.sparse_bsc_tensor([0, 1, 2], [0, 1], m.arange(8.).reshape(2, 2, 2), (4, 4)).to_dense()
""".strip().splitlines()


ON_COMPRESSED = [
    "c", "c.to_dense()", "c.to_sparse()", "c.t()", "c @ x", "x @ c", "c * 2", "c + c",
    "c.sum()", "c.sin()", "c.clone()", "c.double()", "c.to_sparse_csr()", "c.values()",
    "c.to_sparse_csc()", "c @ m.ones(3)", "c.indices()", "c._nnz()", "c.abs()",
]  # fmt: skip


def value_of(text, layout="sparse_csr"):
    """What gives the value of a text with one module's tensors."""

    def call(m):
        names = {
            "m": m,
            "S": m.sparse_coo_tensor,
            "s": example(m),
            "d": dense(m),
            "c": dense(m).to_sparse(layout=getattr(m, layout)),
            "x": matrix(m),
            "twice": doubled,
        }
        return eval(text, names)

    return call


GRADIENTS = {
    "dense": (lambda m, a: a.to_dense(), "s"),
    "ordered": (lambda m, a: a.to_dense(), "c"),
    "sparse.mm": (lambda m, a, b: m.sparse.mm(a, b), "sx"),
    "mm": (lambda m, a, b: a @ b, "sx"),
    "sparse.mm of two": (lambda m, a, b: m.sparse.mm(a, b.t()), "cc"),
    "sparse.addmm": (lambda m, a, b: m.sparse.addmm(m.ones(2, 2), a, b), "cx"),
    "sum along": (lambda m, a: m.sparse.sum(a, 0), "c"),
    "sum": (lambda m, a: m.sparse.sum(a), "c"),
    "softmax": (lambda m, a: m.sparse.softmax(a, 1), "c"),
    "log_softmax": (lambda m, a: m.sparse.log_softmax(a, 0), "c"),
    "values": (lambda m, a: a.coalesce().values(), "s"),
    "scaled": (lambda m, a: a * 2, "c"),
    "added": (lambda m, a: a + a, "c"),
    "squared": (lambda m, a: a * a, "c"),
    "masked": (lambda m, a: a.sparse_mask(example(m, True)), "d"),
    "to_sparse": (lambda m, a: a.to_sparse(), "d"),
    "to_sparse_csr": (lambda m, a: a.to_sparse_csr(), "d"),
    "of values": (
        lambda m, a: m.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], a, (2, 3)), "v",
    ),
    "transposed": (lambda m, a: a.t(), "c"),
    "selected": (lambda m, a: a.select(0, 1), "c"),
    "compressed": (lambda m, a: a.to_dense(), "r"),
    "compressed values": (lambda m, a: a.values(), "r"),
    "table": (
        lambda m, a: m.nn.functional.embedding(m.tensor([0, 2, 2]), a, sparse=True), "x",
    ),
    "padded table": (
        lambda m, a: m.nn.functional.embedding(
            m.tensor([0, 2, 2]), a, sparse=True, padding_idx=0
        ), "x",
    ),
    "bags": (
        lambda m, a: m.nn.functional.embedding_bag(
            m.tensor([0, 2, 2]), a, m.tensor([0, 1]), sparse=True, mode="mean"
        ), "x",
    ),
    "gathered": (
        lambda m, a: m.gather(a, 0, m.tensor([[0, 2]]), sparse_grad=True), "x",
    ),
}  # fmt: skip
LEAVES = {
    "s": example,
    "c": lambda m: example(m, True),
    "d": dense,
    "x": matrix,
    "r": lambda m: dense(m).to_sparse_csr(),
    "v": lambda m: m.tensor([3.0, 4.0, 5.0]),
}


def gradients(name):
    """What gives the gradients of an example with one module's tensors."""
    function, kinds = GRADIENTS[name]

    def call(m):
        leaves = [LEAVES[kind](m).detach().requires_grad_() for kind in kinds]
        out = function(m, *leaves)
        out = out if out.layout is m.strided else out.to_dense()
        (out * m.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
        if name == "sparse.mm of two":  # PyTorch writes zeros down that we don't
            return [leaf.grad.to_dense() for leaf in leaves]
        # PyTorch forgets whether the gradients are in order
        return [
            leaf.grad.coalesce() if leaf.grad.layout is m.sparse_coo else leaf.grad
            for leaf in leaves
        ]

    return call
