from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from rushlight.runtime.cpu.launch cimport kernel_t
from rushlight.core.device cimport Device
from rushlight.core.iteration cimport Operand

# Operands of one elementwise call while it is prepared.
ctypedef struct Call:
    int n                           # inputs
    int n_out
    Operand operands[12]            # outputs first, then inputs
    PyObject* values[12]            # the inputs: tensors or numbers
    bint is_tensor[12]
    double scalars[24]              # 16 bytes for each scalar operand
    int compute                     # dtype codes
    int result
    int ndim
    int64_t sizes[64]
    int64_t numel
    bint flat                       # all tensors of one shape, row-major
    bint mixed                      # some tensor's dtype is not the compute dtype
    int device_kind

# Lets the kernel that is made do an elementwise one's work where its operands cross.
cdef int bind_tiled_copy(kernel_t fn, object make) except -1
cdef int run_call(kernel_t fn, Call* call) except -1
# The same where a backend other than the host's has the operands.
cdef int run_on_device(object kernel, Device device, Call* call) except -1
