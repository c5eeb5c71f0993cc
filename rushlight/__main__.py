"""``python -m rushlight explain NAME``: an operator from declaration to assembly."""

from __future__ import annotations

import argparse
import sys


def main(arguments=None) -> int:
    """Runs one command; returns the exit status."""
    from rushlight._explain import SECTIONS, explain

    parser = argparse.ArgumentParser(prog="python -m rushlight")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("explain", help="every stage of an operator")
    command.add_argument("operator", help="a name such as gelu or add.Tensor")
    command.add_argument(
        "--only", metavar="SECTIONS", help=f"some of {','.join(SECTIONS)}"
    )
    chosen = parser.parse_args(arguments)
    try:
        explain(chosen.operator, chosen.only)
    except (AttributeError, ValueError) as error:
        print(f"explain: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()  # the reader has seen enough
    return 0


if __name__ == "__main__":
    sys.exit(main())
