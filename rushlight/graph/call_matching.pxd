from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from rushlight.dispatch.dispatcher cimport Operator
from rushlight.graph.tape cimport Call, Tape

# Whether a call is the noted one; its inputs have their numbers then.
cdef bint matches(Tape tape, Call call, Operator op, PyObject** slots) except -1

# A hash of what an argument is, the same for all that are equal.
cdef uint64_t item_key(uint64_t key, object item, bint varies) except? 0

# The branches at a place, by a hash of what they were called with.
cdef int set_key(Tape tape, Operator op, PyObject** slots, int switches) except -1
cdef Call branch_of(Tape tape, Operator op, PyObject** slots, int switches)
cdef int count_of(Tape tape, Operator op) except -1
cdef int add_branch(Tape tape, Call parent, Call call) except -1
cdef int is_admitted(Tape tape, Operator op, PyObject** slots) except -1
cdef int chain_branch(Tape tape, Call parent, Call call) except -1
cdef bint has_room(Tape tape) except -1

# Whether a noted call has no program yet and waits as its other sizes do.
cdef bint waits_with_others(Tape tape, Call parent, Call call) except -1
