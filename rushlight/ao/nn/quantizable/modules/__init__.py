"""The layers."""

from rushlight.ao.nn.quantizable.modules.activation import MultiheadAttention
from rushlight.ao.nn.quantizable.modules.rnn import LSTM, LSTMCell

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention"]
