"""``SummaryWriter``: a run's numbers and pictures for TensorBoard, through its package."""

try:
    import tensorboard as _tensorboard
except ImportError as error:
    raise ImportError(
        "TensorBoard logging requires TensorBoard version 1.15 or above\n"
        "  remedy: pip install tensorboard"
    ) from error

from tensorboard.summary.writer.record_writer import RecordWriter

from rushlight.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
