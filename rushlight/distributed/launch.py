"""The launcher under its earlier name: ranks are in the environment alone."""

import sys

from rushlight.distributed import run

__all__ = ["main"]


def main(args=None):
    """The command.

    Args:
        args: its words; those of this process where it is None.
    """
    words = list(sys.argv[1:] if args is None else args)
    used = [each for each in words if each in ("--use-env", "--use_env")]
    run.main([each for each in words if each not in used])


if __name__ == "__main__":
    main()
