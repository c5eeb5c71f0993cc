# Memory that is lent to other libraries.
from rushlight.core.storage cimport Storage

cdef class Loan:
    cdef Storage storage

cdef Loan lend(Storage storage)
cdef int check_on_host(Storage storage, object purpose) except? -1
