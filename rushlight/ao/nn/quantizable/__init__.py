"""Layers made of parts that observers see, so that all of their steps become integers."""

from rushlight.ao.nn.quantizable.modules import LSTM, LSTMCell, MultiheadAttention

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention"]
