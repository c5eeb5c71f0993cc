"""Engines of quantized operators: all names of PyTorch's, of which each has its integers."""

import sys
import types

ENGINES = ("qnnpack", "onednn", "x86", "fbgemm")


class _Engines(types.ModuleType):
    """The module, whose engine is checked when it is chosen."""

    chosen = "x86"

    @property
    def supported_engines(self):
        """The engines that may be chosen."""
        return list(ENGINES)

    @supported_engines.setter
    def supported_engines(self, value):
        raise RuntimeError("Assignment not supported")

    @property
    def engine(self):
        """The engine's name: results do not depend on it."""
        return self.chosen

    @engine.setter
    def engine(self, value):
        if value not in (*ENGINES, "none"):
            raise RuntimeError(f"{value} is not a valid value for quantized engine")
        self.__dict__["chosen"] = value


sys.modules[__name__].__class__ = _Engines
