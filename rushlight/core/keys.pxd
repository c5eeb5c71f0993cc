# Dispatch keys: bit positions in a key set; a higher bit runs first. Names in dispatch/keys.py.
cdef enum:
    # the keys of backends: where a tensor's memory is
    BACKEND_BITS = 15
    KEY_CPU = 0
    KEY_CUDA = 1
    KEY_META = 2
    KEY_PRIVATEUSE1 = 3
    KEY_SPARSE = 4
    KEY_SPARSE_CSR = 5
    KEY_QUANTIZED = 6
    KEY_RECORDING = 7               # operators wait: see programs/capture
    KEY_BACKEND_SELECT = 8
    KEY_PLANNING = 9
    KEY_PYTHON = 10
    KEY_FUNCTIONALIZE = 11
    KEY_CONJUGATE = 12
    KEY_NEGATIVE = 13
    KEY_ADINPLACEORVIEW = 16
    KEY_AUTOGRAD = 17
    KEY_AUTOCAST = 20
    KEY_BATCHED = 24
    KEY_FORWARD_AD = 25
    KEY_PREDISPATCH = 29
    KEY_PYTHON_DISPATCHER = 30
    # No operator answers to these: they say what a tensor is.
    KEY_ABSENT = 40                 # it has sizes and strides, but no memory
    # What a thread's set of keys holds while its operators wait.
    RECORDING = 1 << KEY_RECORDING
    # Observers of launches from here on see all of them, not only those of programs.
    OBSERVE_ALL = 1 << 20
    # A tensor with one of these bits stands for other numbers than its memory holds.
    DEFERRED = (1 << KEY_CONJUGATE) | (1 << KEY_NEGATIVE)
