"""PyTorch's place for what a loader is made of."""

from rushlight.utils.data._utils import collate, pin_memory, worker
