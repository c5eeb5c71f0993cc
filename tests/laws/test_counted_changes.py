"""What counts as a change of a tensor, which saved values are checked by, is PyTorch's."""

import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

# What is done to a tensor of two rows of three zeros.
CHANGES = {
    "resize_ to its sizes": lambda m, t: t.resize_(2, 3),
    "resize_ to its sizes in a format": lambda m, t: t.resize_(
        2, 3, memory_format=m.contiguous_format
    ),
    "resize_ to other sizes": lambda m, t: t.resize_(3, 2),
    "resize_ to more": lambda m, t: t.resize_(3, 5),
    "resize_ to none": lambda m, t: t.resize_(0),
    "resize_ of a view to its sizes": lambda m, t: t.view(6).resize_(6),
    "resize_ of a view": lambda m, t: t.view(6).resize_(2),
    "resize_as_ of its sizes": lambda m, t: t.resize_as_(m.zeros(2, 3)),
    "resize_as_ of its sizes, preserved": lambda m, t: t.resize_as_(
        m.zeros(2, 3), memory_format=m.preserve_format
    ),
    "resize_as_ of other sizes": lambda m, t: t.resize_as_(m.zeros(3, 3)),
    "set_": lambda m, t: t.set_(m.zeros(2, 3)),
    "set_ to itself": lambda m, t: t.set_(t),
    "set_ to nothing": lambda m, t: t.set_(),
    "out= of its sizes": lambda m, t: m.add(m.ones(2, 3), 1, out=t),
    "out= of other sizes": lambda m, t: m.add(m.ones(2, 4), 1, out=t),
    "inner with a number": lambda m, t: m.inner(m.ones(2, 3), m.ones(()), out=t),
    "inner": lambda m, t: m.inner(m.ones(2, 3), m.ones(3, 3), out=t),
    "conj_physical_": lambda m, t: t.conj_physical_(),
    "conj_physical_ of expanded": lambda m, t: t[:1].expand(2, 3).conj_physical_(),
    "apply_": lambda m, t: t.apply_(lambda x: x + 1),
    "map_": lambda m, t: t.map_(t.clone(), lambda x, y: x + 1),
    "fill_ of no elements": lambda m, t: t[:0].fill_(1),
    "copy_ of itself": lambda m, t: t.copy_(t),
    "an index that is false": lambda m, t: t.__setitem__(False, 1),
    "a transposition": lambda m, t: t.t_(),
    "a detachment": lambda m, t: t.detach_(),
    "dropout of nothing": lambda m, t: m.nn.functional.dropout(t, 0.0, True, True),
    "statistics of batches": lambda m, t: m.nn.functional.batch_norm(
        m.ones(4, 3), t[0], t[1], training=True
    ),
    "lists": lambda m, t: m._foreach_add_([t], 1.0),
    "a storage's size": lambda m, t: t.untyped_storage().resize_(100),
    "data": lambda m, t: t.data.add_(1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_counted_as_pytorch_counts_them(name):
    found = []
    for m in (rl, torch):
        tensor = m.zeros(2, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CHANGES[name](m, tensor)
        found.append(tensor._version)
    assert found[0] == found[1]


def test_a_saved_tensor_that_keeps_its_sizes_is_still_what_was_saved():
    x = rl.ones(2, 3, requires_grad=True)
    kept = rl.full((2, 3), 2.0)
    product = (x * kept).sum()
    kept.resize_(2, 3)
    product.backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2
    product = (x * kept).sum()
    kept.resize_(6)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
