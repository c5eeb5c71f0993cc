from libc.stdint cimport int64_t

from rushlight.core.device cimport PlannedLaunch
from rushlight.core.spans cimport begin_kernel, end_kernel, timing_kernels

# Returns what went wrong, as bits; see `raise_fault`.
ctypedef int (*kernel_t)(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil

cdef class NativeKernel:
    cdef kernel_t fn
    cdef readonly str name
    cdef object keep                # keeps the mapped image alive

# Raises the exception that a kernel's faults stand for.
cdef int raise_fault(int faults) except -1 nogil

# While `watched` is not 0, `launches` counts what is launched: who writes launches down misses none.
cdef int watched
cdef int64_t launches
cdef void watch(int more) noexcept
cdef int64_t launched() noexcept

# One launch that is about to happen; `numbers` are bytes of the caller's own that some of `data` point into.
ctypedef struct Launch:
    kernel_t fn                     # NULL: `total` launches were counted that are none
    char** data
    int n_data
    const int64_t* ints
    int n_ints
    int64_t total
    int64_t grain
    char* numbers
    int n_bytes

# Who is told, while `watched`, over which memory kernels are launched; see dispatch/trace.py.
cdef class LaunchObserver:
    cdef int on_launch(self, Launch* launch) except -1

    cdef int on_operand(self, object operand) except -1

    cdef int on_planned(self, PlannedLaunch plan, char** data, int n_data, double* numbers) except -1

cdef void set_observer(LaunchObserver observer) noexcept
# Something was written that nobody hears of.
cdef void count_unheard() noexcept
# What is launched next: `numbers` are bytes of the caller's own that some of `data` point into.
cdef int launch_kernel(kernel_t fn, char** data, int n_data, const int64_t* ints, int n_ints, int64_t total, int64_t grain, char* numbers, int n_bytes) except -1
# An operand of what is launched next: a tensor, or a kernel that another one calls.
cdef int add_operand_ints(object operand) except -1
# A launch of another device's: `numbers` are 24.
cdef int launch_planned(PlannedLaunch plan, char** data, int n_data, double* numbers) except -1
# The same of a launch that goes neither through `run_here` nor through `parallel_for`.
cdef int launch_own(kernel_t fn, char** data, int n_data, const int64_t* ints, int n_ints, char* numbers, int n_bytes) except -1

# Runs fn over [0, total) on the calling thread.
cdef inline int run_here(kernel_t fn, char** data, const int64_t* ints, int64_t total) except -1 nogil:
    global launches
    cdef int64_t begun = 0
    if watched:
        launches += 1
    if timing_kernels:
        begun = begin_kernel()
    cdef int faults = fn(data, ints, 0, total)
    if begun:
        end_kernel(<void*> fn, total, begun, 0, 0)
    if faults:
        raise_fault(faults)
    return 0

# Runs fn over [0, total) in chunks of `grain` (or as one piece when total <= grain) on the pool; takes the GIL to raise only.
cdef int parallel_for(kernel_t fn, char** data, const int64_t* ints, int64_t total, int64_t grain) except -1 nogil
