"""``python -m rushlight COMMAND``: an operator explained, a program compared.

``explain NAME`` shows an operator from its declaration to assembly; ``compare script.py``
runs a program here and on PyTorch, and names the first operator at which they part.
"""

import argparse
import sys


def main(arguments=None) -> int:
    """Runs one command; returns the exit status."""
    from rushlight._explain import SECTIONS

    parser = argparse.ArgumentParser(prog="python -m rushlight")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("explain", help="every stage of an operator")
    command.add_argument("operator", help="a name such as gelu or add.Tensor")
    command.add_argument(
        "--only", metavar="SECTIONS", help=f"some of {','.join(SECTIONS)}"
    )
    command.set_defaults(run=_explain)
    command = commands.add_parser("compare", help="a program, here and on PyTorch")
    command.add_argument("--peer", default="torch", help="the other library's module")
    command.add_argument("--python", help="the interpreter that has it")
    command.add_argument("script", help="the program, which imports the other library")
    command.add_argument("arguments", nargs=argparse.REMAINDER)
    command.set_defaults(run=_compare)
    chosen = parser.parse_args(arguments)
    try:
        return chosen.run(chosen)
    except (AttributeError, ValueError, OSError, RuntimeError) as error:
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()  # the reader has seen enough
            return 0
        print(f"{chosen.command}: {error}", file=sys.stderr)
        return 1


def _explain(chosen):
    from rushlight._explain import explain

    explain(chosen.operator, chosen.only)
    return 0


def _compare(chosen):
    from rushlight.inspection import compare_runs

    found = compare_runs(
        chosen.script, *chosen.arguments, peer=chosen.peer, python=chosen.python
    )
    print(found)
    return int(found.first_difference is not None)


if __name__ == "__main__":
    sys.exit(main())
