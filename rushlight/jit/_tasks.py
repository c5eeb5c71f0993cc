"""Tasks that run beside the program: what ``fork`` starts and ``wait`` waits for."""

import threading

from rushlight.futures import Future


def start(task, *args, **kwargs):
    """Calls something on a thread of its own.

    Args:
        task: what is called, with the rest of the operands.

    Returns:
        The future of its result; what it raises comes out of ``wait``.
    """
    future: Future = Future()

    def run():
        try:
            future.set_result(task(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="torch.jit.fork", daemon=True).start()
    return future
