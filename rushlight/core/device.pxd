from libc.stdint cimport int64_t
from rushlight.core.iteration cimport LoopPlan

# Device.kind: also the number of the backend's dispatch key.
cdef enum:
    KIND_CPU = 0
    KIND_CUDA = 1
    KIND_META = 2
    KIND_PRIVATEUSE1 = 3
    N_KINDS = 4

cdef class Device:
    cdef readonly str type          # "cpu", "cuda", "meta", "privateuseone" (or its renamed form)
    cdef readonly int kind
    cdef readonly object index      # None or int
    cdef readonly bint on_host      # kernels of the host read and write its memory
    cdef readonly bint has_memory   # there are elements, not only their sizes

# An elementwise launch: what `launch.run_elements` of a backend is told, without objects.
ctypedef struct Elements:
    LoopPlan plan                   # of all operands, outputs first
    char* data[24]                  # where they begin; NULL for those that are numbers
    double numbers[24]              # 16 bytes for each of those
    int n_numbers
    int64_t total

# A launch of a backend's that can be repeated with other pointers and numbers.
cdef class PlannedLaunch:
    cdef int submit(self, char** data, double* numbers) except -1

# Its operands as Python sees them: addresses, the loops' sizes, strides; None for numbers.
cdef tuple launch_tuple(Elements* call)

# What serves all devices of one kind, by an object of each role: see device_roles.py.
cdef class Backend:
    cdef readonly str name
    cdef public object memory
    cdef public object streams
    cdef public object launch
    cdef public object libraries
    cdef public object graphs
    # A block of memory. Never asked for nothing.
    cdef int take(self, size_t n_bytes, Device device, char** data) except -1
    cdef int give(self, char* data, size_t n_bytes, Device device) except -1
    # Runs an elementwise kernel over loops.
    cdef int run_elements(self, object kernel, Device device, Elements* call) except -1

cdef Device CPU_DEVICE
cdef Device META_DEVICE
cdef Device as_device(object spec)
cdef Device default_device()
# The backend that serves a device.
cdef Backend backend_of(Device device)
