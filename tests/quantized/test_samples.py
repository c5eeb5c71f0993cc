"""Operators of quantized models on samples of all types, sizes and scales."""

import pytest

pytest.importorskip("torch", reason="the oracle is not installed")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

from tests.layout_samples import main

pytestmark = pytest.mark.filterwarnings("ignore")


def test_most_samples_of_quantized_operators_end_as_on_pytorch(capsys):
    assert main(["quantized"]) == 0, capsys.readouterr().out
