"""``FileBaton``: one process at a time, by a file that only one can make."""

import os
import time
import warnings

__all__ = ["FileBaton"]


class FileBaton:
    """A lock between processes: who makes the file has it.

    Args:
        lock_file_path: the file.
        wait_seconds: seconds between two looks at it.
        warn_after_seconds: seconds of waiting after which a warning names the file.

    >>> import os, tempfile
    >>> baton = FileBaton(os.path.join(tempfile.mkdtemp(), "lock"))
    >>> baton.try_acquire(), baton.try_acquire()
    (True, False)
    >>> baton.release()
    """

    def __init__(self, lock_file_path, wait_seconds=0.1, warn_after_seconds=None):
        self.lock_file_path = lock_file_path
        self.wait_seconds = wait_seconds
        self.fd = None
        self.warn_after_seconds = warn_after_seconds

    def try_acquire(self):
        """Makes the file; False where it is there already."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self):
        """Returns when the file is gone."""
        start, warned = time.monotonic(), self.warn_after_seconds is None
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            if not warned and time.monotonic() - start > self.warn_after_seconds:
                warned = True
                warnings.warn(
                    f'Waited on lock file "{self.lock_file_path}" for '
                    f"{self.warn_after_seconds} seconds.",
                    stacklevel=2,
                )

    def release(self):
        """Removes the file."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
