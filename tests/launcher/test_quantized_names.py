"""Modules of quantized models under PyTorch's paths."""

PROGRAM = """
import torch.nn.quantized.modules.linear
from torch.nn.quantized.dynamic.modules.rnn import LSTM
import torch.ao.nn.quantized.functional as functional
import torch.ao.ns._numeric_suite as ns
import torch

print(torch.nn.quantized.modules.linear.Linear is torch.ao.nn.quantized.Linear)
print(LSTM is torch.ao.nn.quantized.dynamic.LSTM)
print(functional.linear.__name__, ns.Shadow.__module__)
print(torch.nn.quantizable.LSTM.__module__)
"""


def test_programs_import_quantized_modules_by_pytorchs_paths(printed):
    assert printed(PROGRAM) == [
        "True",
        "True",
        "linear torch.ao.ns._numeric_suite",
        "torch.ao.nn.quantizable.modules.rnn",
    ]
