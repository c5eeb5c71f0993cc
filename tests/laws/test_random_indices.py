"""Any index reads and writes the elements that it does in PyTorch, or is refused alike."""

import random
import warnings
from math import prod

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

DTYPES = (
    "float32", "float64", "bfloat16", "float16", "int64", "int32", "int16", "int8",
    "uint8", "bool", "complex64",
)  # fmt: skip
LIBRARIES = (torch, rushlight)


class Draw:
    """Random tensors, indices and values, each for both libraries."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def pair(self, values, dtype):
        return [m.tensor(values).to(getattr(m, dtype)) for m in LIBRARIES]

    def tensor(self):
        """A tensor whose dimensions lie in any order, with gaps, or of size one."""
        sizes = [
            self.r.choice([0, 1, 1, 2, 3, 4, 5]) for _ in range(self.r.randint(0, 5))
        ]
        dtype = self.r.choice(DTYPES)
        pair = self.pair(np.arange(prod(sizes)).reshape(sizes) % 7, dtype)
        order = list(range(len(sizes)))
        self.r.shuffle(order)
        if self.r.random() < 0.4:
            pair = [x.permute(order) for x in pair]
        if sizes and self.r.random() < 0.3:
            window = [slice(None)] * len(sizes)
            window[self.r.randrange(len(sizes))] = slice(
                None, None, self.r.randint(1, 2)
            )
            pair = [x[tuple(window)] for x in pair]
        return pair

    def place(self, size):
        if not size or self.r.random() < 0.03:
            return self.r.randint(-size - 1, size)
        return self.r.randint(-size, size - 1)

    def bound(self):
        return self.r.choice([None, self.r.randint(-6, 6)])

    def item(self, size):
        kind = self.r.choice(
            ["number", "slice", "slice", "none", "dots", "truth", "list", "array",
             "places", "places", "places", "mask", "odd"]
        )  # fmt: skip
        if kind == "places":
            sizes = [self.r.choice([0, 1, 2, 3]) for _ in range(self.r.randint(0, 2))]
            places = [self.place(size) for _ in range(prod(sizes))]
            dtype = self.r.choice(["int64"] * 7 + ["int32", "float32"])
            return self.pair(np.array(places, dtype=np.int64).reshape(sizes), dtype)
        if kind == "mask":
            length = size if self.r.random() < 0.9 else self.r.randint(0, 3)
            mask = [self.r.random() < 0.5 for _ in range(length)]
            return self.pair(
                np.array(mask, bool), self.r.choice(["bool"] * 4 + ["uint8"])
            )
        one = self.plain(kind, size)
        return [one, one]

    def plain(self, kind, size):
        """What is written alike for both."""
        count = self.r.randint(0, 4)
        if kind == "number":
            return self.place(size)
        if kind == "slice":
            step = self.r.choice([None, None, None, 1, 2, 3, -1, 0])
            return slice(self.bound(), self.bound(), step)
        if kind == "list":
            return [self.place(size) for _ in range(count)]
        if kind == "array":
            dtype = self.r.choice(["int64", "int32", "int16"])
            return np.array([self.place(size) for _ in range(count)], dtype)
        if kind == "odd":
            return self.r.choice(["x", 1.5, 2**70, (0, 1), np.int64(0), np.bool_(True)])
        return {"none": None, "dots": ..., "truth": self.r.random() < 0.5}[kind]

    def index(self, x):
        """An index of one to four items, most of which fit their dimension."""
        items = []
        for k in range(self.r.randint(1, 4)):
            fits = x.dim() and self.r.random() < 0.8
            items.append(
                self.item(
                    x.shape[min(k, x.dim() - 1)] if fits else self.r.randint(0, 4)
                )
            )
        if len(items) == 1 and self.r.random() < 0.7:
            return items[0]
        return [tuple(item[m] for item in items) for m in (0, 1)]

    def value(self, selected, dtype):
        """A number, or a tensor that mostly broadcasts to what is selected."""
        if self.r.random() < 0.3:
            one = self.r.choice([3, 2.5, True, -1, 1 + 2j, 300, float("nan")])
            return [one, one]
        sizes = [1 if self.r.random() < 0.2 else size for size in selected]
        if self.r.random() < 0.5:
            sizes = sizes[self.r.randint(0, len(sizes)) :]
        if self.r.random() < 0.15:
            sizes = [self.r.choice([1, 1, 2]), *sizes]
        if self.r.random() < 0.4:
            dtype = self.r.choice(DTYPES)
        return self.pair((np.arange(prod(sizes)).reshape(sizes) + 1) % 5, dtype)


def m_of(x):
    return torch if isinstance(x, torch.Tensor) else rushlight


def outcome(run, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = run(*args)
        except Exception as error:
            return type(error)
    wide = "complex128" if result.is_complex() else "float64"
    m = m_of(result)
    values = result.detach().to(getattr(m, wide)).numpy()
    return str(result.dtype).split(".")[-1], result.stride(), values


def read(x, index):
    return x[index]


def written(x, index, value):
    x = x.clone()
    x[index] = value
    return x


def slope(x, index):
    leaf = x.detach().clone().requires_grad_()
    leaf[index].sum().backward()
    return leaf.grad.clone(memory_format=m_of(leaf).contiguous_format)


def assert_alike(theirs, ours, case):
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs or faults_of_two_items(theirs, ours), case
        return
    assert ours[:2] == theirs[:2], case
    assert ours[2].shape == theirs[2].shape, case
    np.testing.assert_array_equal(ours[2], theirs[2], err_msg=str(case))


def faults_of_two_items(theirs, ours):
    """Of an index with two faulty items, each library may tell of another."""
    return all(isinstance(one, type) for one in (theirs, ours))


@pytest.mark.parametrize("seed", range(8))
def test_an_index_reads_and_writes_as_in_pytorch(seed):
    draw = Draw(seed)
    for case in range(400):
        pair = draw.tensor()
        index = draw.index(pair[0])
        told = (seed, case, list(pair[0].shape), pair[0].stride(), index[0])
        found = [outcome(read, x, at) for x, at in zip(pair, index)]
        assert_alike(*found, told)
        selected = () if isinstance(found[0], type) else found[0][2].shape
        value = draw.value(selected, str(pair[0].dtype).split(".")[-1])
        found = [outcome(written, *args) for args in zip(pair, index, value)]
        assert_alike(*found, (*told, value[0]))
        if pair[0].is_floating_point():
            found = [outcome(slope, x, at) for x, at in zip(pair, index)]
            assert_alike(*found, told)


@pytest.mark.parametrize("seed", range(4))
def test_several_ellipses_stand_for_what_they_do_in_pytorch(seed):
    draw = Draw(seed)
    for case in range(200):
        pair = draw.tensor()
        items = [draw.item(draw.r.randint(0, 4)) for _ in range(draw.r.randint(0, 3))]
        items.insert(draw.r.randint(0, len(items)), [..., ...])
        items.append([..., ...])  # behind it PyTorch reads sizes that there are none of
        index = [tuple(item[m] for item in items) for m in (0, 1)]
        told = (seed, case, list(pair[0].shape), pair[0].stride(), index[0])
        found = [outcome(read, x, at) for x, at in zip(pair, index)]
        assert_alike(*found, told)
        found = [outcome(written, x, at, 3) for x, at in zip(pair, index)]
        assert_alike(*found, told)


def test_an_index_of_nothing_is_not_compared_with_the_size():
    for m in LIBRARIES:
        assert m.zeros(2, 0)[[5]].shape == (1, 0)
        assert m.zeros(1, 0, 1)[(m.tensor([7]),)].shape == (1, 0, 1)
        with pytest.raises(IndexError, match="dimension with size 0"):
            m.zeros(0, 3)[[1]]


def test_a_value_is_put_where_sizes_of_one_leave_a_choice_of_strides():
    results = []
    for m in LIBRARIES:
        x = m.arange(4.0).as_strided((1, 2, 2), (1, 2, 1)).clone()
        x[m.tensor([-1, -1, 0]), :, None, m.tensor([-1])] = 2.5
        results.append(x.tolist())
    assert results[0] == results[1]
