"""A handler that waits, fails or ends its process as requests ask."""

import os
import time

from rushlight.serve import Handler, as_json


class Slow(Handler):
    def run(self, samples):
        if any(sample.get("fail") for sample in samples):
            raise RuntimeError("asked to fail")
        for sample in samples:
            if sample.get("end"):
                os._exit(3)
            time.sleep(sample.get("seconds", 0))
        return [
            {"number": sample.get("number"), "pid": os.getpid(), "with": len(samples)}
            for sample in samples
        ]

    def write(self, result, request):
        return as_json(result)


def make():
    """What the archive's eager model is: nothing that is called."""
    return None


def net():
    """A model whose weights are the archive's."""
    from rushlight import nn

    return nn.Linear(4, 3)
