"""Hooks that average buckets, in their own type or a shorter one."""

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
from rushlight.distributed.world import default_group

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def _average(group, tensor):
    group = group if group is not None else default_group()
    tensor.div_(group.size())
    work = group._all_reduce([tensor], async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def allreduce_hook(process_group, bucket):
    """Average a bucket over the ranks."""
    return _average(process_group, bucket.buffer())


def _average_as(dtype, group, bucket):
    buffer = bucket.buffer()

    def restore(done):
        buffer.copy_(done.value())
        return buffer

    return _average(group, buffer.to(dtype)).then(restore)


def fp16_compress_hook(process_group, bucket):
    """Average a bucket over the ranks in half precision."""
    return _average_as(rl.float16, process_group, bucket)


def bf16_compress_hook(process_group, bucket):
    """Average a bucket over the ranks in bfloat16."""
    return _average_as(rl.bfloat16, process_group, bucket)


def _wrapper(dtype, hook):
    def wrapped(state, bucket):
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))

        def restore(done):
            value = done.value()
            value = value[0] if isinstance(value, list) else value
            buffer.copy_(value)
            return buffer

        return hook(state, bucket).then(restore)

    return wrapped


def fp16_compress_wrapper(hook):
    """Have a hook work on half precision.

    Args:
        hook: a communication hook.
    """
    return _wrapper(rl.float16, hook)


def bf16_compress_wrapper(hook):
    """Have a hook work on bfloat16.

    Args:
        hook: a communication hook.
    """
    return _wrapper(rl.bfloat16, hook)


describe_arguments(
    globals(),
    process_group="the group; all processes where it is None.",
    bucket="a ``GradBucket``.",
)
