"""The oracle's own samples of nested tensors: raggedness and values are the oracle's."""

import itertools
import warnings

import pytest

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.opinfo.definitions.nested import njt_op_db

from tests.operators.oracle_layouts import difference  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
# Whose rules are their own take more samples than what computes each element by itself.
OWN = (
    "chunk masked_select index_put nn.functional.embedding_bag split split_with_sizes "
    "select squeeze unsqueeze unflatten where matmul bmm nn.functional.linear sum mean "
    "prod amax any max narrow nn.functional.rms_norm nn.functional.embedding clone to"
).split()
SHARE = 4  # of the others one in as many
LEFT_OUT = ("jiterator", "bernoulli", "normal")  # of cards only; draws


def entries():
    """The operators of which the database has samples for the host."""
    for info in njt_op_db:
        held = info.supports_njt and torch.float32 in info.dtypes
        if held and not info.name.startswith(LEFT_OUT):
            yield info


def samples_of(info):
    """Some samples of an entry."""
    step = 2 if info.name in OWN else 16
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = info.sample_inputs("cpu", torch.float32)
        return list(itertools.islice(made, 0, 16, step))


def holes_are_counted(sample):
    """Whether the oracle reduces gaps between parts along with the parts."""
    return "holes" in sample.name and "full reduction with keepdim" in sample.name


def test_samples_of_ragged_tensors_end_as_on_the_oracle():
    wrong, count = [], 0
    for number, info in enumerate(entries()):
        if info.name not in OWN and number % SHARE:
            continue
        for sample in samples_of(info):
            count += 1
            fault = None if holes_are_counted(sample) else difference(info, sample)
            if fault is not None:
                wrong.append(f"{info.full_name}, {sample.name}: {fault[:200]}")
    assert count > 150
    assert not wrong, "\n".join(wrong[:20])
