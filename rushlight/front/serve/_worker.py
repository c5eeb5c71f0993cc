"""A worker: a process that holds one model and answers batches until it is told to end."""

import contextlib
import signal

from rushlight.serve import _wire


def main(connection):
    """Serves a socket whose other end the server has."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers
    with connection, connection.makefile("rwb") as file:
        with contextlib.suppress(BrokenPipeError):
            serve(file)


def send(file, header, blocks=()):
    """Writes a message."""
    file.write(_wire.message(header, blocks))
    file.flush()


def serve(file):
    """Loads the model that the first message names, then answers batches."""
    first = _wire.take_message(file)
    if first is None:
        return
    try:
        handler = opened(first[0])
    except Exception as error:
        send(file, {"ready": False, "error": f"{type(error).__name__}: {error}"[:2000]})
        return
    send(file, {"ready": True})
    while (given := _wire.take_message(file)) is not None:
        answers = handler.handle(requests_of(*given))
        headers = [
            {"status": a.status, "content_type": a.content_type, "headers": a.headers}
            for a in answers
        ]
        send(file, {"answers": headers}, [answer.body for answer in answers])


def opened(settings):
    """The handler of the archive that settings name."""
    import rushlight as torch
    from rushlight.serve.loading import open_model

    if settings.get("threads"):
        torch.set_num_threads(settings["threads"])
    return open_model(settings["archive"], settings["allow_code"])


def requests_of(header, blocks):
    """The requests of a message."""
    from rushlight.serve.handlers import Request

    return [Request(body, **head) for head, body in zip(header["requests"], blocks)]
