"""Queues of GPUs, of which there are none."""

from rushlight.cuda import Event, ExternalStream, Stream
