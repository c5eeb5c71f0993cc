"""What programs import as ``functorch.compile``: graphs for compilers of one's own."""

from rushlight._functorch import aot_autograd, compilers, config, partitioners
from rushlight._functorch.aot_autograd import *  # noqa: F403
from rushlight._functorch.compilers import *  # noqa: F403
from rushlight._functorch.partitioners import *  # noqa: F403

__all__ = ["config"]
__all__ += aot_autograd.__all__ + compilers.__all__ + partitioners.__all__
