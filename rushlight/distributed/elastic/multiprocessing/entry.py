"""A process that runs a function which its launcher has written into a file."""

import os
import pickle
import sys
from multiprocessing import spawn

from rushlight.distributed.elastic.multiprocessing.errors import record


def main(folder):
    """Run the function, and leave what it returns for the launcher.

    Args:
        folder: where the call is, and where the value goes.
    """
    with open(os.path.join(folder, "call"), "rb") as file:
        spawn.prepare(pickle.load(file))
        function, args = pickle.load(file)
    found = record(function)(*args)
    path = os.path.join(folder, f"returned-{os.environ['RANK']}")
    with open(path + ".part", "wb") as file:
        pickle.dump(found, file)
    os.replace(path + ".part", path)


if __name__ == "__main__":
    main(sys.argv[1])
