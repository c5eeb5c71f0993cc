"""What translated programs run for linear layers, norms, embeddings and containers.

Read as text, never imported.
"""

from rushlight import Tensor
from rushlight.nn import functional as F


class Sequential:
    def forward(self, input):
        for module in self:
            input = module(input)
        return input


class _BatchNorm:
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0
        if self.momentum is not None:
            factor = self.momentum
        if self.training and self.track_running_stats:
            count = self.num_batches_tracked
            if count is not None:
                count.add_(1)
                if self.momentum is None:
                    factor = 1.0 / float(count)
        running_mean = (
            self.running_mean if not self.training or self.track_running_stats else None
        )
        running_var = (
            self.running_var if not self.training or self.track_running_stats else None
        )
        batch = self.training or (
            self.running_mean is None and self.running_var is None
        )
        return F.batch_norm(
            input,
            running_mean,
            running_var,
            self.weight,
            self.bias,
            batch,
            factor,
            self.eps,
        )
