# Bits of an operator's `out_overlap`: what memory the written tensor may share, who writes.
cdef enum:
    NO_PARTIAL_OUT = 1        # `out=` shares no part of an input, or all of it
    NO_OUT = 2                # `out=` shares nothing with an input
    NO_WRITTEN = 4            # what is written shares nothing with other inputs
    INTERNAL_OVERLAP = 8      # it may show one element at several places
    NO_VERSION_BUMP = 16      # in place, nothing was written where its sizes stay
    WRITES_LARGE = 32         # in place, the function writes in a large tensor itself
    DIRECT_IF_LARGE = 64      # the function's last call may write `out=`, where it is large
    DIRECT_ALWAYS = 128       # or of any size
    INTERNAL_WARNS = 256      # in place, with PyTorch's warning
    DIRECT = 192              # one of the two
    NO_SHARING = 7            # one of the first three
