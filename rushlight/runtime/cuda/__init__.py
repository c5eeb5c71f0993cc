"""What a tensor on an NVIDIA GPU stands on: driver, memory, queues, kernels.

- `driver`: every call that reaches the device goes through it, and is checked.
- `contexts`: the devices of this machine, and which of them a thread is using.
- `streams`: queues of work, and moments in them.
- `allocator`, `statistics`: memory of a device, kept for reuse, and what it counts.
- `pinned`: host memory that a device copies from and to by itself.
- `generator`: the seed and the place of a device's random numbers.
- `graphs`: work that was written down once and is launched as a whole.
- `modules`: kernels as machine code, kept on disk.
- `backend`: all of it as the one kind of device that tensors know.

The driver is NVIDIA's own, through the package ``cuda-bindings``; it is imported when
the first device is asked for.
"""
