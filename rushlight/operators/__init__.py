"""What can be called: operators declared in YAML, computed in the file beside it.

``call`` holds every operator by its base name; `rushlight.ops` shows them by namespace.
"""

from rushlight.core import roles
from rushlight.operators import call, registry

__all__ = ["call", "registry"]

roles.operators.package = __name__
