"""What ``PYTORCH_CUDA_ALLOC_CONF`` says of the memory of devices."""

from rushlight.runtime.cuda.blocks import MIDDLE_SEGMENT, UNIT


class Settings:
    """What ``PYTORCH_CUDA_ALLOC_CONF`` says.

    Args:
        text: entries ``name:value`` with commas between them.

    Raises:
        ValueError: an entry is unknown or its value is not sensible.
    """

    IGNORED = (
        *("backend", "expandable_segments", "release_lock_on_cudamalloc"),
        *("pinned_use_cuda_host_register", "pinned_num_register_threads"),
        "pinned_use_background_threads",
    )

    def __init__(self, text=""):
        self.largest_cut = 1 << 62  # free blocks from here on are not cut
        self.collect_from = 0.0  # the share of the cap from which idle memory goes back
        self.divisions = 0  # steps between powers of two that sizes are rounded to
        for entry in filter(None, (part.strip() for part in text.split(","))):
            name, colon, value = (part.strip() for part in entry.partition(":"))
            if not colon:
                raise ValueError(f"Unrecognized CUDA allocator option: {entry!r}")
            self.set(name, value)

    def set(self, name, value):
        """Takes one entry."""
        if name == "max_split_size_mb":
            if int(value) <= MIDDLE_SEGMENT >> 20:
                raise ValueError(
                    f"CachingAllocator option max_split_size_mb too small: {value}, must "
                    f"be > {MIDDLE_SEGMENT >> 20}"
                )
            self.largest_cut = int(value) << 20
        elif name == "garbage_collection_threshold":
            self.collect_from = float(value)
            if not 0 < self.collect_from < 1:
                raise ValueError(
                    f"garbage_collection_threshold must be in (0, 1), not {value}"
                )
        elif name == "roundup_power2_divisions":
            self.divisions = int(value)
            if self.divisions < 0 or self.divisions & (self.divisions - 1):
                raise ValueError(
                    "For roundups, the divisions has to be power of 2 or 0 to disable "
                    f"roundup: roundup_power2_divisions is {value}"
                )
        elif name not in self.IGNORED:
            raise ValueError(f"Unrecognized CUDA allocator option: {name}")

    def rounded(self, n_bytes):
        """The size of the block for a request."""
        if self.divisions > 1 and n_bytes > UNIT * self.divisions:
            step = (1 << (n_bytes.bit_length() - 1)) // self.divisions
            if n_bytes & (n_bytes - 1):
                return -(-n_bytes // step) * step
            return n_bytes
        return max(-(-n_bytes // UNIT) * UNIT, UNIT)
