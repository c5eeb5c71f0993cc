from libc.stdint cimport uint64_t

ctypedef struct ThreadState:
    uint64_t included               # dispatch keys added to every call
    uint64_t excluded               # dispatch keys skipped by every call
    bint grad_mode
    bint inference_mode
    bint anomaly                    # detect_anomaly
    bint anomaly_check_nan
    bint hooks_enabled              # saved-tensor hooks on the stack
    bint forward_ad
    uint64_t sequence               # next autograd sequence number
    int reentrant_depth
    int modes                       # active function modes
    bint factory_device                  # factories go to the device named below
    int device_kind
    int device_index                # -1: none
    void* written                   # the tensor that the running kernel may write in
    int cuda_index                        # one more than the device that driver calls go to
    bint gathering                  # elementwise launches of devices wait to be put together
    void* queues[16]                # of the first devices: where this thread's work goes

# Never NULL.
cdef ThreadState* state() noexcept

# Tells whoever asked with `on_reading` that the thread reads an element, if it has the key.
cdef int notify_readers() except -1
cdef int notify_launchers() except -1
