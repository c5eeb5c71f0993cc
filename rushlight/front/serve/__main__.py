"""``python -m rushlight.serve DIR``: the models of a folder behind HTTP."""

import argparse
import logging
import os
import sys
from dataclasses import fields
from pathlib import Path


def parser():
    """What the command takes."""
    from rushlight.serve._registry import Settings

    made = argparse.ArgumentParser(
        prog="python -m rushlight.serve", description="Serves models behind HTTP."
    )
    made.add_argument("store", type=Path, help="the folder of archives and models")
    made.add_argument(
        "--models", nargs="*", help="files to serve at once (default: all)"
    )
    made.add_argument(
        "--host", default="127.0.0.1", help="where predictions are asked for"
    )
    made.add_argument("--port", type=int, default=8080)
    made.add_argument("--management-host", default="127.0.0.1")
    made.add_argument("--management-port", type=int, default=8081)
    made.add_argument(
        "--allow-code", action="store_true", help="run code that archives have"
    )
    made.add_argument("--largest-request", type=int, default=6_553_500, metavar="BYTES")
    made.add_argument("--body-timeout", type=float, default=30.0, metavar="SECONDS")
    for field in fields(Settings):
        name = f"--{field.name.replace('_', '-')}"
        default = field.default
        if field.name == "max_batch_delay":
            default = 1000 * default
        made.add_argument(name, type=type(default), default=default)
    return made


def main(arguments=None):
    """Runs the server; returns the exit status."""
    given = parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    if not given.store.is_dir():
        print(f"{given.store}: no folder", file=sys.stderr)
        return 2
    try:
        from rushlight.serve._app import Limits
    except ImportError as error:
        print(f"{error}: pip install 'rushlight[serve]'", file=sys.stderr)
        return 2
    from rushlight.serve._registry import Settings, settings_from
    from rushlight.serve._server import Server, serve

    settings = settings_from(Settings(), vars(given))
    server = Server(
        given.store,
        settings,
        given.allow_code,
        Limits(given.largest_request, given.body_timeout),
        os.environ.get("RUSHLIGHT_SERVE_TOKEN"),
    )
    ports = given.port, given.management_port
    serve(server, given.host, ports, given.management_host, given.models)
    return 0


if __name__ == "__main__":
    sys.exit(main())
