# Dispatch keys: bit positions in a key set; a higher bit runs first. Names in dispatch/keys.py.
cdef enum:
    # the keys of backends: where a tensor's memory is
    BACKEND_BITS = 15
    KEY_CPU = 0
    KEY_CUDA = 1
    KEY_META = 2
    KEY_PRIVATEUSE1 = 3
    # with those of layouts: how it is kept there
    MEMORY_BITS = 127
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
    KEY_BELOW = 14
    KEY_ADINPLACEORVIEW = 16
    KEY_AUTOGRAD = 17
    KEY_DECOMPOSE = 18              # compositions of PyTorch's, where Python listens
    KEY_AUTOCAST = 20
    KEY_BATCHED = 24
    KEY_FORWARD_AD = 25
    KEY_OPERATOR_TRACE = 28                 # the operators of a module's call are noted: see graph/operator_traces
    KEY_PREDISPATCH = 29
    KEY_PYTHON_DISPATCHER = 30
    KEY_PROFILING = 31              # a profiler records the thread: see core/spans
    # No operator answers to these.
    KEY_ABSENT = 40                 # of a tensor: it has sizes and strides, no memory
    KEY_LISTENING = 45              # of a thread: what a call runs is noted
    KEY_COMPOSING = 46              # of a thread: a composition or a formula calls operators
    # What a thread's set of keys holds while its operators wait.
    RECORDING = 1 << KEY_RECORDING
    # What hands on a call past the recording of gradients.
    BELOW_AUTOGRAD = (1 << KEY_ADINPLACEORVIEW) | (1 << KEY_AUTOGRAD)
    # Observers of launches from here on see all of them, not only those of programs.
    OBSERVE_ALL = 1 << 20
    # A tensor with one of these bits stands for other numbers than its memory holds.
    DEFERRED = (1 << KEY_CONJUGATE) | (1 << KEY_NEGATIVE)
