"""What stands for values while a program is traced."""

from rushlight.fx import Proxy

__all__ = ["Proxy"]
