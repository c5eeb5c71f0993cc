"""What is raised where a checkpoint fails on some rank."""

import traceback

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """A checkpoint has failed: every rank raises it, with what failed where.

    Args:
        msg: what was going on.
        failures: rank -> the exception there and its stack.
    """

    def __init__(self, msg, failures):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self):
        """Rank -> the exception there and its stack."""
        return self._failures

    def __str__(self):
        lines = [f"CheckpointException ranks:{self._failures.keys()}\n"]
        for rank, (error, stack) in self._failures.items():
            lines.append(f"Traceback (most recent call last): (RANK {rank})\n")
            lines += traceback.format_list(stack or [])
            lines += traceback.format_exception_only(type(error), error)
        return "".join(lines)
