"""What a backend computes with integers: its patterns, and the types that they take."""

from rushlight.ao.quantization.backend_config.backend_config import *
from rushlight.ao.quantization.backend_config.native import *
