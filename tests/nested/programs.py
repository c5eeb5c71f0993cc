"""Programs with nested tensors, which run on both libraries: each by its name.

A program is a function of the library, its nested tensor and dense operands.
"""

import types


def operands(t, layout, numbers, requires_grad=True):
    """A nested tensor of parts of 2, 5 and 3 rows, and what programs compute it with."""
    parts = [t.tensor(part) for part in numbers["parts"]]
    make = {"jagged": t.jagged, "strided": t.strided}[layout]
    nt = t.nested.nested_tensor(parts, layout=make, requires_grad=requires_grad)
    named = {k: t.tensor(v) for k, v in numbers.items() if k != "parts"}
    return nt, types.SimpleNamespace(**named)


def multihead(x, count=2):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def attend(t, x, **options):
    q = multihead(x)
    found = t.nn.functional.scaled_dot_product_attention(q, q, q, **options)
    return found.transpose(1, 2).flatten(2)


def written(t, x):
    y = x * 2
    y.mul_(x)
    y += 1
    return y


def written_once(t, x):
    """One of the two that are multiplied in place wants a gradient."""
    ones = t.ones_like(x.detach())
    one, other = x * 1, ones / 2
    one.mul_(ones)
    other.mul_(x)
    return one, other


def of_columns(t, o):
    """Parts that differ in their second dimension."""
    parts = [t.ones(3, 2), t.ones(3, 5)]
    return t.nested.nested_tensor(parts, layout=t.jagged) * o.vector[0]


def drawn(t, x):
    """What is dropped, and what is drawn after it: also where nothing is dropped."""
    t.manual_seed(1)
    parts = [t.nn.functional.dropout(x, p) for p in (0.0, 0.5, 1.0)]
    return [*parts, t.rand(3)]


def narrowed(t, x):
    starts, lengths = t.tensor([0, 1, 0]), t.tensor([2, 1, 3])
    rows = x.to_padded_tensor(0.0)
    return t.nested.narrow(rows, 1, starts, lengths, layout=t.jagged)


JAGGED = {
    "drawn": lambda t, x, o: drawn(t, x),
    "written once": lambda t, x, o: written_once(t, x),
    "of columns": lambda t, x, o: of_columns(t, o),
    "padded from the side": lambda t, x, o: x.transpose(1, 2).to_padded_tensor(0.5),
    "numbers": lambda t, x, o: (x * 2 + 1).sin() / 3,
    "squares": lambda t, x, o: x**2 - x.abs(),
    "two": lambda t, x, o: x * (x + 1),
    "vector": lambda t, x, o: x * o.vector,
    "row": lambda t, x, o: x + o.rows,
    "ones in front": lambda t, x, o: x + o.vector.view(1, 1, 4),
    "scalar tensor": lambda t, x, o: x * o.vector[0],
    "vector first": lambda t, x, o: o.vector - x,
    "where": lambda t, x, o: t.where(x > 0, x, x * 0.1),
    "masked_fill": lambda t, x, o: x.masked_fill(x < 0, 0.5),
    "clamp": lambda t, x, o: x.clamp(-0.5, 0.5),
    "activations": lambda t, x, o: t.nn.functional.silu(t.nn.functional.gelu(x)),
    "relu": lambda t, x, o: t.nn.functional.leaky_relu(x, 0.1),
    "in place": lambda t, x, o: written(t, x),
    "linear": lambda t, x, o: t.nn.functional.linear(x, o.weight, o.bias),
    "matrix": lambda t, x, o: x @ o.weight.t(),
    "bmm": lambda t, x, o: t.bmm(x, o.matrices),
    "summed over": lambda t, x, o: x.transpose(1, 2) @ x,
    "layer_norm": lambda t, x, o: t.nn.functional.layer_norm(x, (4,), o.vector),
    "rms_norm": lambda t, x, o: t.nn.functional.rms_norm(x, (4,), o.vector),
    "softmax": lambda t, x, o: t.softmax(x, -1),
    "softmax of parts": lambda t, x, o: t.softmax(x, 1),
    "log_softmax": lambda t, x, o: t.log_softmax(x, -1),
    "sum": lambda t, x, o: x.sum(),
    "sum of parts": lambda t, x, o: x.sum(1),
    "sum of rows": lambda t, x, o: x.sum(-1),
    "sum kept": lambda t, x, o: x.sum(1, keepdim=True),
    "sum of all parts": lambda t, x, o: x.sum((0, 1)),
    "sum of all": lambda t, x, o: x.sum((0, 1, 2)),
    "mean": lambda t, x, o: x.mean(),
    "mean of parts": lambda t, x, o: x.mean(1),
    "mean of rows": lambda t, x, o: x.mean(-1, keepdim=True),
    "amax of parts": lambda t, x, o: x.amax(1),
    "amin of rows": lambda t, x, o: x.amin(-1),
    "max of parts": lambda t, x, o: x.max(1)[0],
    "argmax of parts": lambda t, x, o: x.argmax(1),
    "prod of parts": lambda t, x, o: x.prod(1),
    "any": lambda t, x, o: (x > 1).any(1),
    "all": lambda t, x, o: (x > -2).all(1),
    "transpose": lambda t, x, o: x.transpose(1, 2) * 2,
    "permute": lambda t, x, o: x.unsqueeze(-1).permute(0, 2, 3, 1),
    "view": lambda t, x, o: x.view(3, x.size(1), 2, 2),
    "reshape": lambda t, x, o: x.reshape(3, x.shape[1], 4, 1),
    "unflatten": lambda t, x, o: x.unflatten(-1, (2, 2)).flatten(2, 3),
    "unsqueeze": lambda t, x, o: x.unsqueeze(2).squeeze(2),
    "unsqueeze before": lambda t, x, o: x.unsqueeze(1),
    "select": lambda t, x, o: x.select(2, 1),
    "part": lambda t, x, o: x[1],
    "last part": lambda t, x, o: x[-1],
    "narrow": lambda t, x, o: x.narrow(-1, 1, 2),
    "chunk": lambda t, x, o: x.chunk(2, -1),
    "split": lambda t, x, o: x.split([1, 3], -1),
    "unbind": lambda t, x, o: x.unbind(),
    "cat": lambda t, x, o: t.cat([x, x * 2], -1),
    "stack": lambda t, x, o: t.stack([x, x * 2], -1),
    "padded": lambda t, x, o: x.to_padded_tensor(-1.0),
    "padded more": lambda t, x, o: t.nested.to_padded_tensor(x, 0.0, (3, 7, 4)),
    "cut short": lambda t, x, o: x.to_padded_tensor(0.0, (3, 2, 4)),
    "values": lambda t, x, o: x.values() * 2,
    "offsets": lambda t, x, o: x.offsets(),
    "clone": lambda t, x, o: x.clone(),
    "contiguous": lambda t, x, o: x.transpose(1, 2).transpose(1, 2).contiguous(),
    "double": lambda t, x, o: x.double(),
    "half": lambda t, x, o: x.to(t.bfloat16),
    "zeros": lambda t, x, o: t.zeros_like(x) + x,
    "ones": lambda t, x, o: t.ones_like(x),
    "full": lambda t, x, o: t.full_like(x, 3),
    "embedding": lambda t, x, o: t.nn.functional.embedding(
        t.nested.nested_tensor([t.tensor([0, 2]), t.tensor([1])], layout=t.jagged),
        o.weight,
    ),
    "attention": lambda t, x, o: attend(t, x),
    "scaled attention": lambda t, x, o: attend(t, x, scale=0.3),
    "with holes": lambda t, x, o: narrowed(t, x) * 2,
    "parts of holes": lambda t, x, o: narrowed(t, x).unbind(),
    "packed": lambda t, x, o: narrowed(t, x).contiguous(),
    "dropout": lambda t, x, o: t.nn.functional.dropout(x, 0.5, training=False),
    "layers": lambda t, x, o: t.nn.Sequential(t.nn.ReLU(), t.nn.Identity())(x),
    "masked_select": lambda t, x, o: t.nested.masked_select(o.rows, o.rows > 0),
    "from_jagged": lambda t, x, o: t.nested.nested_tensor_from_jagged(
        o.weight * 2, lengths=t.tensor([1, 4])
    ),
    "as_nested": lambda t, x, o: t.nested.as_nested_tensor(
        [o.vector, o.bias], layout=t.jagged
    ),
    "rectangle": lambda t, x, o: t.nested.as_nested_tensor(o.weight, layout=t.jagged),
}

STRIDED = {
    "bmm": lambda t, x, o: t.bmm(x, x.transpose(1, 2)),
    "dropout": lambda t, x, o: drawn(t, x),
    "numbers": lambda t, x, o: (x * 2 + 1).cos() / 3,
    "two": lambda t, x, o: x * x + x,
    "relu": lambda t, x, o: t.relu(-x),
    "gelu": lambda t, x, o: t.nn.functional.gelu(x),
    "masked_fill": lambda t, x, o: x.masked_fill(x > 0, 0.5),
    "linear": lambda t, x, o: t.nn.functional.linear(x, o.weight, o.bias),
    "matmul": lambda t, x, o: x @ x.transpose(1, 2),
    "layer_norm": lambda t, x, o: t.nn.functional.layer_norm(
        x, (4,), o.vector, o.vector
    ),
    "softmax": lambda t, x, o: t.softmax(x, -1),
    "sum of rows": lambda t, x, o: x.sum(-1, keepdim=True),
    "transpose": lambda t, x, o: x.transpose(1, 2),
    "reshape": lambda t, x, o: x.reshape(3, -1, 2, 2),
    "select": lambda t, x, o: x.select(1, 0),
    "unsqueeze": lambda t, x, o: x.unsqueeze(1),
    "chunk": lambda t, x, o: x.chunk(2, -1),
    "unbind": lambda t, x, o: x.unbind(),
    "part": lambda t, x, o: x[1],
    "padded": lambda t, x, o: t.nested.to_padded_tensor(x, -1.0),
    "padded more": lambda t, x, o: x.to_padded_tensor(0.0, (3, 7, 5)),
    "clone": lambda t, x, o: x.clone(),
    "double": lambda t, x, o: x.to(t.float64),
    "zeros": lambda t, x, o: t.zeros_like(x),
    "values": lambda t, x, o: x.values(),
    "embedding": lambda t, x, o: t.nn.functional.embedding(
        t.nested.nested_tensor([t.tensor([0, 2]), t.tensor([1])]), o.weight
    ),
    "as_nested": lambda t, x, o: t.nested.as_nested_tensor([o.vector, o.bias]),
}

# What PyTorch 2.13 has no gradient for, a wrong one (softmax along parts), or none without
# a crash of the process (pieces of which some have no gradient).
UNRELIABLE_GRADIENTS = {
    "relu", "softmax of parts", "log_softmax", "sum of parts", "sum of rows", "sum kept",
    "sum of all parts", "sum of all", "mean of parts", "max of parts", "prod of parts",
    "unsqueeze before", "select", "narrow", "packed", "cut short", "chunk", "split",
    "padded from the side",
}  # fmt: skip
# What the nested tensor has no gradient from.
FLAT = {
    "argmax of parts", "any", "all", "offsets", "half", "ones", "full", "embedding",
    "masked_select", "from_jagged", "drawn", "dropout", "as_nested", "rectangle", "zeros",
    "of columns",
}  # fmt: skip


# Wrong calls on a jagged tensor: the type, and the start of the words.
def _masked(t, layout):
    """Attention over parts of two heads with a mask."""
    heads = t.nested.nested_tensor([t.ones(2, 3, 4), t.ones(2, 5, 4)])
    if layout == "jagged":
        rows = t.nested.nested_tensor(
            [t.ones(3, 2, 4), t.ones(5, 2, 4)], layout=t.jagged
        )
        heads = rows.transpose(1, 2)
    attend = t.nn.functional.scaled_dot_product_attention
    return attend(heads, heads, heads, attn_mask=t.ones(5, 5))


def _mixed(t):
    """Attention whose query alone is not nested."""
    heads = t.nested.nested_tensor([t.ones(2, 3, 4), t.ones(2, 5, 4)])
    return t.nn.functional.scaled_dot_product_attention(
        t.ones(2, 2, 3, 4), heads, heads
    )


WRONG = {
    "a mask": lambda t, x, o: _masked(t, "strided"),
    "a mask of ragged heads": lambda t, x, o: _masked(t, "jagged"),
    "a query that is not nested": lambda t, x, o: _mixed(t),
    "another ragged dimension": lambda t, x, o: x + x.transpose(1, 2),
    "another raggedness": lambda t, x, o: x + t.rand_like(t.nested.nested_tensor(
        [t.ones(2, 4), t.ones(5, 4), t.ones(3, 4)], layout=t.jagged)),
    "rows that do not fit": lambda t, x, o: x + t.ones(5, 4),
    "batch alone": lambda t, x, o: x.sum(0),
    "ragged and others": lambda t, x, o: x.sum((1, 2)),
    "ragged split": lambda t, x, o: x.split(1, 1),
    "batch transposed": lambda t, x, o: x.transpose(0, 1),
    "batch permuted": lambda t, x, o: x.permute(1, 0, 2),
    "softmax of the batch": lambda t, x, o: t.softmax(x, 0),
    "view without a batch": lambda t, x, o: x.view(6, -1),
    "unbind elsewhere": lambda t, x, o: x.unbind(1),
    "two ragged dimensions": lambda t, x, o: t.nested.nested_tensor(
        [t.ones(1, 2), t.ones(2, 3)], layout=t.jagged),
    "types": lambda t, x, o: t.nested.nested_tensor(
        [t.ones(1), t.ones(2).int()], layout=t.jagged),
    "dimensions": lambda t, x, o: t.nested.nested_tensor(
        [t.ones(1), t.ones(2, 2)], layout=t.jagged),
    "nothing": lambda t, x, o: t.nested.nested_tensor([], layout=t.jagged),
    "neither offsets nor lengths": lambda t, x, o: t.nested.nested_tensor_from_jagged(
        o.vector),
    "narrow elsewhere": lambda t, x, o: t.nested.narrow(o.rows, 2, 0, 1, layout=t.jagged),
    "cat of the ragged": lambda t, x, o: t.cat([x, x], 1),
    "expanded": lambda t, x, o: x.expand(2, 3, 4),
    "no scalar": lambda t, x, o: x.backward(),
    "one-dimensional": lambda t, x, o: t.nested.as_nested_tensor(o.vector, layout=t.jagged),
    "layer_norm of two": lambda t, x, o: t.nn.functional.layer_norm(x.select(2, 0), (1,)),
}  # fmt: skip
