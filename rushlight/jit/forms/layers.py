"""What translated programs run for linear layers, norms, embeddings and containers.

Read as text, never imported.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.aten.linear(input, weight, bias)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    if padding_idx is None:
        padding_idx = -1
    if max_norm is not None:
        torch.embedding_renorm_(weight, input, max_norm, norm_type)
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    return torch.ops.aten.one_hot(tensor, num_classes)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12
) -> Tensor:
    return input / input.norm(p, dim, True).clamp_min(eps).expand_as(input)


def layer_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    return torch.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    return torch.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    return torch.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    square = input.mul(input).unsqueeze(1)
    if input.dim() == 3:
        square = torch.ops.aten.pad(square, [0, 0, size // 2, (size - 1) // 2])
        square = torch.ops.aten.avg_pool2d(square, [size, 1], [1]).squeeze(1)
    else:
        sizes = input.size()
        square = square.view(sizes[0], 1, sizes[1], sizes[2], -1)
        square = torch.ops.aten.pad(square, [0, 0, 0, 0, size // 2, (size - 1) // 2])
        square = torch.ops.aten.avg_pool3d(square, [size, 1, 1], [1]).squeeze(1)
        square = square.view(sizes)
    return input / square.mul(alpha).add(k).pow(beta)


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
        return torch.batch_norm(
            input,
            self.weight,
            self.bias,
            running_mean,
            running_var,
            batch,
            factor,
            self.eps,
            True,
        )


def bilinear(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    return torch.bilinear(input1, input2, weight, bias)


def cosine_similarity(
    x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8
) -> Tensor:
    return torch.cosine_similarity(x1, x2, dim, eps)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    return torch.pairwise_distance(x1, x2, p, eps, keepdim)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    return torch.instance_norm(
        input,
        weight,
        bias,
        running_mean,
        running_var,
        use_input_stats,
        momentum,
        eps,
        True,
    )


def rms_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    return torch.rms_norm(input, normalized_shape, weight, eps)
