cdef class Device:
    cdef readonly str type          # "cpu", "cuda", "meta", "privateuseone" (or its renamed form)
    cdef readonly int kind          # 0 cpu, 1 cuda, 2 meta, 3 privateuseone: also the backend's dispatch key
    cdef readonly object index      # None or int

cdef Device CPU_DEVICE
cdef Device META_DEVICE
cdef Device as_device(object spec)
cdef Device default_device()
