# One element in memory to a Python number and back, by PyTorch's dtype number.
cdef object read_element(int code, const char* data)
cdef int write_element(int code, char* data, object value) except -1
# The same for an operator's number: integers wrap, floats become infinite.
cdef int write_wrapped(int code, char* data, object value) except -1
# The same for an item of the data that `tensor` gets.
cdef int write_item(int code, char* data, object value) except -1
cdef float half_to_float(unsigned short bits) noexcept nogil
cdef unsigned short float_to_half(float value) noexcept nogil
cdef float bfloat16_to_float(unsigned short bits) noexcept nogil
cdef unsigned short float_to_bfloat16(float value) noexcept nogil
# The largest number of a floating or complex type narrower than a double; else 0.
cdef double largest(int code) noexcept
