from libc.stdint cimport int64_t, uint64_t, uintptr_t
from cpython.object cimport PyObject
from rushlight.core.device cimport Device
from rushlight.core.dtype cimport DType
from rushlight.core.keys cimport KEY_OPERATOR_TRACE
from rushlight.core.storage cimport Storage
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.dispatcher cimport Operator

cdef enum:
    # of a thread's set of keys, while the operators of a module's call are noted
    OPERATOR_TRACE = 1 << KEY_OPERATOR_TRACE
    # what an argument of a noted call is
    CONSTANT = 0
    TENSOR = 1
    TENSORS = 2
    NUMBER = 3                      # a float that may be another one each time
    # what a result of a noted call is
    FRESH = 0
    WINDOW = 1                      # on memory that is known
    ARGUMENT = 2                    # the very tensor that was passed
    NOTHING = 3

# A window on one of the storages of a path.
cdef class Value:
    cdef readonly int slot
    cdef readonly int ndim
    cdef int64_t sizes_[8]
    cdef int64_t strides_[8]
    cdef readonly int64_t offset
    cdef int64_t numel
    cdef bint row_major
    cdef readonly DType dtype
    cdef readonly Device device
    cdef uint64_t deferred
    cdef readonly bint wrapped
    cdef readonly bint lasting      # a parameter that nobody learns: its elements stay a while
    cdef Value root                 # of a result that is known as a view of what it shows
    cdef object of                  # the argument that it is a view of, or of whose base
    cdef int creation               # how that view was made
    cdef bint fits(self, Tensor t) noexcept
    cdef Tensor window(self, Storage storage)

# One operator's call on a path, and the calls that came after it.
cdef class Call:
    cdef readonly Operator op
    cdef uint64_t keys
    cdef readonly Device device     # where its results lie
    cdef unsigned char kinds[24]
    cdef readonly list values       # constants, `Value`s, lists of them, numbers of parameters
    cdef readonly list results      # pairs of what it is and a `Value`, or an argument's number
    cdef readonly object shape      # tuple, list, or None for a lone result
    cdef bint lone                  # one fresh result, and no others
    cdef readonly list sizes        # bytes of the fresh storages, in their order
    cdef readonly int first         # number of its first fresh storage
    cdef public bint stops          # memory is looked at right after it, by no operator
    cdef public list parts          # of a function of ours: the calls that it was; else None
    cdef int switches               # of the thread, for compositions
    cdef readonly bint barrier      # it looks at elements: nothing waits beyond it
    cdef readonly Call parent
    cdef readonly list children
    cdef readonly Call last         # the child that came last
    cdef dict branches              # hash of a call -> the children that have it
    cdef dict seen                  # hash of a call that was not noted -> how often it came
    cdef uint64_t key               # the hash of this call
    cdef uint64_t look              # the hash of its operator and tensors alone
    cdef long long ticks            # how often another of the children was taken
    cdef long long used             # the parent's tick when it was taken last
    cdef readonly dict programs     # which storages are wanted -> program
    cdef public dict segments      # what modules' calls add from here: see `graph.module_replay`
    cdef readonly Call after        # where the path goes on once it was run to here
    cdef public object notes        # for those who look at paths: the user's line
    cdef public object follow_backward       # has a sweep be followed that comes back to the path's results
    cdef int untried                # calls of modules from here that are not looked at yet
    cdef object opened              # the family that made the path ending here, and for which size
    cdef readonly int depth
    cdef int ends                   # how often a compiled function's call ended here
    cdef int pays                   # whether following such a call pays: 1, -1; 0: not asked
    cdef object __weakref__

# Where the operators that a module's call asks for are noted: see `graph.traces`.
cdef class Notes:
    cdef object begin(self, Operator op, PyObject** slots)
    cdef object end(self, object call, PyObject** slots, object result)

# What each call of a compiled function looks at: see `graph.compiled_function`.
cdef class Owner:
    cdef public dict roots          # default type, device, kernels and switches -> the paths' root
    cdef public object backend      # what makes a program of a graph; None for our own
    cdef public object frozen       # what is done about calls that no path has
    cdef public int passing         # how many of the next calls run as they come
    cdef public object trial        # what times its calls; or None
    cdef public int64_t most        # elements of an argument of such a call
    cdef public Call last           # the root that the last call began at, and what it hangs on
    cdef DType default
    cdef int device
    cdef long long replaced
    cdef int64_t chosen

# What one thread has followed and not run.
cdef class Tape:
    cdef readonly Call at
    cdef readonly Call root
    cdef readonly list calls        # of the path, from its root
    cdef int done                   # calls that have run
    cdef readonly list slots        # storages by number
    cdef readonly list params       # floats by number
    cdef unsigned char* fresh       # by slot: whether a call of the path makes it
    cdef uintptr_t* keys            # hash table: storage -> slot
    cdef int* numbers
    cdef int room                   # of the table, a power of two
    cdef bint noting                # the path is new: calls run and are noted
    cdef bint varies                # floats are parameters of programs
    cdef int64_t launches           # kernels that had run after the last call was noted
    cdef bint watching              # kernels are counted
    cdef bint recorded                 # an element was read
    cdef uint64_t key               # the hashes of the call that is to be noted
    cdef uint64_t look
    cdef readonly dict views        # how windows were made, for backends of others; else None
    cdef list parts                 # the calls of the function that is being noted
    cdef bint read                  # it reads elements
    cdef bint broken                # what it does is not all there
    cdef int64_t inner              # launches of its operators
    cdef bint witnessed             # the call of a module is looked at, with all in it
    cdef bint strayed               # an operator ran that is on no path
    cdef Notes operator_trace               # of the module's call that is looked at; else None
    cdef bint off                   # too many different paths: nothing is followed
    cdef DType default
    cdef int64_t chosen             # the process's switches when the path began
    cdef long long replaced         # what `replacements` was when the path began
    cdef readonly Owner owner       # the compiled function
    cdef list shared                # numbers of storages whose memory others may have, too
    cdef bint exposed               # one of them was met: what reads or writes it does not wait
    cdef bint clashes               # a storage was met that lies on another's memory
    cdef unsigned long runner       # the thread that runs what waits; 0: none does

    cdef bint overlaps(self, Storage storage) except -1
    cdef int enter(self) except -1
    cdef object flush_now(self, object why)

    cdef int find(self, Storage storage) except -2
    cdef int place(self, uintptr_t key) noexcept
    cdef int add(self, Storage storage, bint fresh) except -1
    cdef void put(self, Storage storage, int number) noexcept
    cdef int put_all(self) except -1
    cdef int grow(self) except -1
    cdef int loosen(self) except -1
    cdef object run_waiting(self, Call leaf, object why)
    cdef int drop(self, int count) except -1
    cdef int forget_from(self, int count) except -1
    cdef object clear(self)
    cdef int count_launches(self, bint on) noexcept
    cdef object execute(self, Call call)
    cdef object result_of(self, Call call)
    cdef object execute_into(self, Call call)
    cdef object flush(self, object why)

cdef object adopt(Storage target, Tensor made)
cpdef Value value_of(Tensor t, int slot)
cdef bint usable(Tensor t) noexcept
# Whether operators of these keys' backends are followed: one backend, whose kernels are ours.
cdef bint followed(uint64_t keys) noexcept
cdef bint asks(uint64_t bits) noexcept
# Whether two devices are the same one.
cdef bint is_same(Device one, Device other) noexcept
# Memory on a device, and back.
cdef int take_on(Device device, size_t n_bytes, char** data, size_t* capacity) except -1
cdef int give_on(Device device, char* data, size_t capacity, size_t n_bytes) except -1
cdef object fill_rest(Tape tape)
cdef bind(Tape tape, Call call, object result)
