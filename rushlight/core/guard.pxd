# Whether every block lies before a page that nobody may touch.
cdef bint guarding

cdef char* guarded_block(size_t n_bytes) noexcept
# Checks what surrounds the block, and unmaps it; ends the process where it was written.
cdef void drop_guarded(char* data, size_t n_bytes) noexcept
