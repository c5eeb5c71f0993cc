from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from rushlight.core.state cimport ThreadState
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.signature cimport Signature

cdef enum:
    N_KEYS = 32
    # Operator.form
    FUNCTIONAL = 0
    INPLACE = 1
    OUT = 2

# What fills a slot of a dispatch table; the subclasses are the compiled kinds.
cdef class Kernel:
    cdef object run(self, Operator op, PyObject** slots, uint64_t keys)

# How a recorded call is reversed, and what it has to keep for that.
cdef class Derivative:
    cdef readonly str module
    cdef readonly str function
    cdef object formula             # loaded at the first use
    cdef int n_saved
    cdef unsigned char what[24]     # 0 argument, 1 result, 2 shape, 3 dtype, ... (opgen's tables)
    cdef short index[24]
    cdef uint64_t mask[24]
    cdef int n_groups
    cdef short group_arg[24]
    cdef bint group_list[24]
    cdef bint has_lists
    cdef bint multi
    cdef bint saves_self
    cdef bint saves_result
    cdef readonly tuple saved
    cdef readonly tuple groups
    cdef readonly tuple outputs     # numbers of the differentiable outputs
    cdef object load(self)

# What runs at the Autograd and ADInplaceOrView keys where nothing else is registered.
cdef class Recorder:
    cdef object record(self, Operator op, PyObject** slots, uint64_t keys)
    cdef object keep_books(self, Operator op, PyObject** slots, uint64_t keys)

cdef class Operator:
    cdef void* vectorcall           # CPython jumps through it
    cdef readonly str name          # "add.Tensor", without the namespace
    cdef readonly str namespace     # "aten"
    cdef readonly str node_name     # "AddBackward0", or ":module:function:saved" that says it of a node
    cdef readonly Signature signature
    cdef int n_args
    cdef int n_tensors
    cdef unsigned char tensor_args[24]
    cdef int device_arg             # index of the argument `device`, or -1
    cdef int pin_arg                # of `pin_memory`, or -1
    cdef readonly int form
    cdef readonly bint is_view
    cdef readonly bint untracked    # no derivative goes through it, though it is a view
    cdef readonly bint view_or_copy
    cdef readonly bint multi_view
    cdef PyObject* table[32]        # borrowed from `kernels`
    cdef readonly dict kernels      # key number -> Kernel
    cdef uint64_t fallthroughs      # keys that calls pass as if they were not there
    cdef uint64_t handled           # keys with an entry or with built-in handling
    cdef uint64_t backend_keys             # those of them that some backends have an entry of their own for
    cdef uint64_t alike             # those that answer for every backend
    cdef readonly dict by_backend   # (key number, backend's key number) -> Kernel
    cdef readonly tuple names       # rows of further names of the overload: `declared`
    cdef bint named_by_caller       # one of them is for calls that compositions make
    cdef dict named                 # name -> the operator that stands for it
    cdef readonly bint whole        # a composition that __torch_dispatch__ sees whole
    cdef readonly Kernel composite  # runs where no other entry takes the call
    cdef readonly Derivative derivative
    cdef readonly Operator functional   # what an in-place or out= form was derived from
    cdef readonly Operator inplace
    cdef readonly Operator out
    cdef readonly tuple returns
    cdef readonly object return_type
    cdef int out_rule               # what `out=` may be, for the form that writes into it
    cdef bint out_detached          # it takes values whatever gradient they have
    cdef bint out_quiet             # it is resized without a warning
    cdef bint out_plain             # row by row
    cdef bint out_leaf              # it may require gradients
    cdef bint out_counted           # it keeps its sizes where their product is right
    cdef bint out_once              # that it shows each element once is looked at before
    cdef bint out_late              # its memory is looked at once it has the result's sizes
    cdef readonly bint scales_second    # its number after "*" multiplies the second operand
    cdef int out_overlap            # 1: it may not share part of an input, 2: nor all of it
    cdef str base_name(self)
    cdef readonly tuple entry       # the generated row; () for operators from outside
    cdef object call(self, PyObject** slots)
    cdef object compose(self, PyObject** slots, uint64_t keys)
    cdef object call_by_backend(self, PyObject** slots, ThreadState* st)
    cdef object call_pinned(self, PyObject** slots)
    cdef uint64_t factory_bits(self, PyObject** slots, uint64_t bits) except? 0
    cdef object run(self, PyObject** slots, uint64_t keys)
    cdef object run_converted(self, PyObject** slots, uint64_t keys, int key)

# Goes up where an operator is given, or loses, something that runs.
cdef long long registrations() noexcept
# The same where a library does it, not an operator that is made on demand.
cdef long long replacements() noexcept
cdef void set_recorder(Recorder recorder)
cdef void set_entry(void* entry) noexcept
# Fills storages that other threads are to fill.
cdef int fetch_arguments(Operator op, PyObject** slots) except -1
