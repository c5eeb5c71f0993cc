"""What launches hand to kernels: records that both sides read the places off."""

import re
from pathlib import Path

import pytest

from rushlight.core.launch_args import ARRAYS, EPILOGUE, FIELD_OFFSETS
from rushlight.runtime.cpu import code_cache

PACKAGE = Path(code_cache.__file__).parents[2]


@pytest.mark.parametrize("record", FIELD_OFFSETS)
def test_fields_of_a_record_lie_one_after_another(record):
    fields = FIELD_OFFSETS[record].values()
    found = [at for f in fields for at in (f if isinstance(f, list) else [f])]
    assert found == list(range(len(found)))


def test_arrays_behind_a_product_follow_its_own():
    assert sorted(ARRAYS.values()) == list(range(len(ARRAYS)))
    assert EPILOGUE["product"] == len(ARRAYS)
    assert EPILOGUE["dots"] == EPILOGUE["combine"] == ARRAYS["sums"]


def test_kernels_of_another_record_are_not_taken_for_these(monkeypatch):
    before = code_cache.compiler_digest()
    code_cache.compiler_digest.cache_clear()
    try:
        monkeypatch.setattr(
            code_cache, "FIELD_OFFSETS", {**FIELD_OFFSETS, "dots": {"depth": 0}}
        )
        assert code_cache.compiler_digest() != before
    finally:
        code_cache.compiler_digest.cache_clear()


@pytest.mark.parametrize(
    "path",
    [
        "dispatch/reductions.py",
        "runtime/cpu/matmul.py",
        "runtime/cpu/foreach.py",
    ],
)
def test_launches_name_the_integers_that_they_hand_over(path):
    assert not re.search(r"\bints\[\d", (PACKAGE / path).read_text())
