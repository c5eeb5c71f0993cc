cdef extern from *:
    """
    #ifdef __linux__
    #include <sched.h>
    static inline int bind_to(int cpu) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        return sched_setaffinity(0, sizeof(set), &set);
    }
    #else
    static inline int bind_to(int cpu) { return -1; }
    #endif
    """
    # Has the calling thread run on one processor only; not 0 where that is not to be had.
    int bind_to(int cpu) noexcept nogil
