"""Layers with weights of integers, of numbers that are quantized as they come."""

from importlib import import_module

from rushlight.ao.nn.quantized.dynamic.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from rushlight.ao.nn.quantized.dynamic.linear import Linear
from rushlight.ao.nn.quantized.dynamic.rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell

modules = import_module(f"{__name__}.modules")  # an alias
