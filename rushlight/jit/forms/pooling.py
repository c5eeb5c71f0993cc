"""What translated programs run for unusual pooling; read as text, never imported."""

import rushlight as torch
from rushlight import Tensor
from rushlight.jit import annotate
from rushlight.jit.annotations import BroadcastingList1, BroadcastingList2
from rushlight.nn import functional as F

# Names in `Nd` stand for each rank that has no form of its own.
N = 2
BroadcastingListN = BroadcastingList2


def _unpool_size(
    input: Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    output_size: list[int] | None,
) -> list[int]:
    dims = len(kernel)
    default = annotate(list[int], [])
    for d in range(dims):
        size = input.size(input.dim() - dims + d)
        default.append((size - 1) * stride[d] + kernel[d] - 2 * padding[d])
    if output_size is None:
        return default
    wanted = output_size
    if len(wanted) == dims + 2:
        wanted = wanted[2:]
    if len(wanted) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, "
            f"but it has a length of '{len(output_size)}'"
        )
    for d in range(dims):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not (low < wanted[d] and wanted[d] < high):
            raise ValueError(
                f'invalid output_size "{wanted}" (dim {d} must be between {low} and {high})'
            )
    return wanted


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: BroadcastingList1[int],
    stride: BroadcastingList1[int] | None = None,
    padding: BroadcastingList1[int] = 0,
    output_size: list[int] | None = None,
) -> Tensor:
    steps = kernel_size if stride is None else stride
    size = _unpool_size(input, kernel_size, steps, padding, output_size)
    return torch.ops.aten.max_unpool2d(
        input.unsqueeze(-1), indices.unsqueeze(-1), [size[0], 1]
    ).squeeze(-1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: BroadcastingList2[int],
    stride: BroadcastingList2[int] | None = None,
    padding: BroadcastingList2[int] = 0,
    output_size: list[int] | None = None,
) -> Tensor:
    steps = kernel_size if stride is None else stride
    size = _unpool_size(input, kernel_size, steps, padding, output_size)
    return torch.ops.aten.max_unpool2d(input, indices, size)


def max_unpoolNd(
    input: Tensor,
    indices: Tensor,
    kernel_size: BroadcastingListN[int],
    stride: BroadcastingListN[int] | None = None,
    padding: BroadcastingListN[int] = 0,
    output_size: list[int] | None = None,
) -> Tensor:
    steps = kernel_size if stride is None else stride
    size = _unpool_size(input, kernel_size, steps, padding, output_size)
    return torch.ops.aten.max_unpoolNd(input, indices, size, steps, padding)


def _root_of_mean(mean: Tensor, norm_type: float, kernel: list[int]) -> Tensor:
    count = 1
    for size in kernel:
        count = count * size
    return (torch.sign(mean) * F.relu(torch.abs(mean))).mul(count).pow(1.0 / norm_type)


def lp_poolNd(
    input: Tensor,
    norm_type: float,
    kernel_size: BroadcastingListN[int],
    stride: BroadcastingListN[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    steps = kernel_size if stride is None else stride
    mean = torch.ops.aten.avg_poolNd(
        input.pow(norm_type), kernel_size, steps, [0], ceil_mode
    )
    return _root_of_mean(mean, norm_type, kernel_size)


def _fraction_size(
    input: Tensor,
    dims: int,
    output_size: list[int] | None,
    output_ratio: list[float] | None,
) -> list[int]:
    if output_size is not None:
        return output_size
    if output_ratio is None:
        raise ValueError(
            "fractional_max_pool requires specifying either an output_size or an output_ratio"
        )
    size = annotate(list[int], [])
    for d in range(dims):
        size.append(int(input.size(input.dim() - dims + d) * output_ratio[d]))
    return size


def _fraction_samples(input: Tensor, dims: int, samples: Tensor | None) -> Tensor:
    if samples is not None:
        return samples
    count = 1 if input.dim() == dims + 1 else input.size(0)
    return torch.rand(
        [count, input.size(input.dim() - dims - 1), dims],
        dtype=input.dtype,
        device=input.device,
    )


def fractional_max_poolNd(
    input: Tensor,
    kernel_size: BroadcastingListN[int],
    output_size: BroadcastingListN[int] | None = None,
    output_ratio: BroadcastingListN[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor:
    size = _fraction_size(input, N, output_size, output_ratio)
    samples = _fraction_samples(input, N, _random_samples)
    return torch.ops.aten.fractional_max_poolNd(input, kernel_size, size, samples)[0]


def fractional_max_poolNd_with_indices(
    input: Tensor,
    kernel_size: BroadcastingListN[int],
    output_size: BroadcastingListN[int] | None = None,
    output_ratio: BroadcastingListN[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    size = _fraction_size(input, N, output_size, output_ratio)
    samples = _fraction_samples(input, N, _random_samples)
    return torch.ops.aten.fractional_max_poolNd(input, kernel_size, size, samples)


def avg_pool1d(
    input: Tensor,
    kernel_size: BroadcastingList1[int],
    stride: BroadcastingList1[int] | None = None,
    padding: BroadcastingList1[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    steps = kernel_size if stride is None else stride
    return torch.ops.aten.avg_pool1d(
        input, kernel_size, steps, padding, ceil_mode, count_include_pad
    )
