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
    static inline int processor_of_thread(void) { return sched_getcpu(); }
    static inline int leave_processor(int cpu) {
        static __thread cpu_set_t allowed, left;  /* by others, and what we made of it */
        cpu_set_t now;
        if (sched_getaffinity(0, sizeof(now), &now)) return -1;
        if (!CPU_EQUAL(&now, &left)) allowed = now;
        left = allowed;
        CPU_CLR(cpu, &left);
        return CPU_COUNT(&left) ? sched_setaffinity(0, sizeof(left), &left) : -1;
    }
    #else
    static inline int bind_to(int cpu) { return -1; }
    static inline int processor_of_thread(void) { return -1; }
    static inline int leave_processor(int cpu) { return -1; }
    #endif
    """
    # Has the calling thread run on one processor only; not 0 where that is not to be had.
    int bind_to(int cpu) noexcept nogil
    # The processor that the calling thread runs on; -1 where nobody knows.
    int processor_of_thread() noexcept nogil
    # Has the calling thread run on all processors but one, of those that it may run on.
    int leave_processor(int cpu) noexcept nogil
