from libc.stdint cimport int64_t
from rushlight.core.tensor cimport Tensor
from rushlight.runtime.cpu.launch cimport NativeKernel

# Runs loop kernels where the operands are: one object for each kind of device. This one is
# of devices whose backend is asked.
cdef class Launcher:
    # Over [0, total) in pieces of `grain`, or in one piece where items depend on others.
    cdef int spans(self, object kernel, dict types, object tensors, object ints, int64_t total, int64_t grain, bint whole) except -1
    # Over rows; `outputs` and `inputs` are pairs of a tensor and how it moves.
    cdef int rows(self, object kernel, list outputs, list inputs, object compute, tuple numbers, int64_t outer, int64_t size, int64_t inner) except -1
    # One int64 that a kernel overwrites when it meets a bad index; what was noted, or None.
    cdef Tensor fault_flag(self, Tensor like)
    cdef object fault_in(self, Tensor flag)
    # Raises `make(index, *args)` if the flag was written to: at once, or, where devices are
    # not waited for, when somebody waits.
    cdef int refuse_fault(self, Tensor flag, str operator, object make, tuple args) except -1

# Items of a task where each is so much work.
cdef int64_t grain_for(int64_t work) noexcept
# Calls a kernel of the host's on the pool; observers are told where there are `least`: 1, or
# OBSERVE_ALL for launches that are in no plan.
cdef int launch_host(NativeKernel native, char** data, int count, int64_t* ints, int n_ints, int64_t total, int64_t grain, char* numbers, int n_bytes, int least) except -1

# What runs kernels on the operands of a tensor's kind of device.
cdef Launcher launcher_of(Tensor tensor)
