"""Changes of whole exported programs."""

from rushlight.export._moving import move_to_device_pass

__all__ = ["move_to_device_pass"]
