"""Tensors without elements beside others: refused where PyTorch refuses them, in its words."""

import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

from tests.operators.oracle import tensors_in, to_rushlight  # noqa: E402
from tests.operators.test_oracle_samples import (  # noqa: E402
    ANOTHER_WAY,
    LEFT_OUT,
    find,
)

PARTS = 40  # of the database, so that a failure names a few operators
SAMPLES = 4  # of an operator that are looked through for one of two tensors
WORDS = "Tensor on device"
# PyTorch looks at shapes alone, and gives what a device would refuse.
STRICTER = {
    "addbmm",
    "cdist",
    "cross",
    "linalg.cross",
    "div",
    "floor_divide",
    "isin",
    "lu_solve",
    "index_put",
    "_unsafe_masked_index_put_accumulate",
    "nn.functional.embedding",
    "svd_lowrank",
    "pca_lowrank",
    "nn.functional.embedding_bag",
    "nn.functional.linear_cross_entropy",
    "linalg.pinv",
    "nn.functional.linear",
}
# Made of parts of which PyTorch looks at the shapes alone; it has one function for them.
ALSO_TAKEN = {"nn.functional.multi_margin_loss"}


def of_several(info):
    """The first of the oracle's samples with two tensors of elements; None without one."""
    torch.manual_seed(0)
    inputs = info.sample_inputs("cpu", torch.float32, False)
    for _, sample in zip(range(SAMPLES), inputs):
        given = (sample.input, *sample.args), sample.kwargs
        large = [t for t in tensors_in(given) if t.ndim and t.numel() > 1]
        if len(large) > 1 and all(t.layout is torch.strided for t in large):
            return given
    return None


def moved(value, library, chosen, count):
    """A value whose tensors of some numbers have no elements."""
    if isinstance(value, library.Tensor):
        count.append(value)
        value = value.detach()
        return value.to("meta") if chosen(len(count) - 1) else value
    if type(value) in (list, tuple):
        return type(value)(moved(one, library, chosen, count) for one in value)
    if isinstance(value, dict):
        return {k: moved(one, library, chosen, count) for k, one in value.items()}
    return value


def outcome(function, given):
    """None where a call gives something, else the first line of what it raises."""
    args, kwargs = given
    try:
        function(*args, **kwargs)
    except Exception as error:
        return str(error).split("\n")[0]
    return None


def cases(part):
    """Pairs of a name and what Rushlight and the oracle make of tensors of two devices."""
    seen = set()
    for number, info in enumerate(op_db):
        function = find(info.name)
        if number % PARTS != part or function is None or info.name in seen:
            continue
        if torch.float32 not in info.dtypes or LEFT_OUT.get(info.name) == ANOTHER_WAY:
            continue
        seen.add(info.name)
        given = of_several(info)
        if given is None:
            continue
        mine = to_rushlight(given[0]), to_rushlight(given[1])
        for chosen in (lambda n: n == 0, lambda n: n > 0):
            yield (
                info.name,
                outcome(function, moved(mine, rl, chosen, [])),
                outcome(info.op, moved(given, torch, chosen, [])),
                chosen(0),
            )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_operators_refuse_tensors_of_two_devices_where_pytorch_does(part):
    wrong = []
    for name, mine, theirs, first in cases(part):
        if mine is None and theirs is not None and name not in ALSO_TAKEN:
            wrong.append((name, "takes", theirs))
        elif first and theirs is None and mine is not None and name not in STRICTER:
            wrong.append((name, mine, "is taken"))
        elif mine and (theirs or "").startswith(WORDS) and not mine.startswith(WORDS):
            wrong.append((name, mine, theirs))
    assert not wrong


def test_elements_beside_a_tensor_without_some_are_not_written_to():
    batch = rl.ones(2, 3, 3)
    assert rl.baddbmm(batch.to("meta"), batch, batch).is_meta
    assert rl.bmm(batch.to("meta"), batch).shape == (2, 3, 3)
    assert rl.equal(batch, rl.ones(2, 3, 3))


def test_a_bias_keys_and_values_with_elements_are_refused():
    meta = rl.ones(2, 3, device="meta")
    with pytest.raises(RuntimeError, match="cpu is not on the expected device meta!"):
        rl.nn.functional.linear(meta, rl.ones(4, 3, device="meta"), rl.ones(4))
    with pytest.raises(
        RuntimeError, match="same device type, but got query.device: meta"
    ):
        rl.nn.functional.scaled_dot_product_attention(meta, rl.ones(2, 3), meta)
