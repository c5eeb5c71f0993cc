# What the compiled core takes from POSIX and from the compiler: declarations only.
from libc.stdint cimport int64_t

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_mutexattr_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef struct pthread_condattr_t:
        pass
    ctypedef struct pthread_attr_t:
        pass
    ctypedef unsigned long pthread_t
    ctypedef unsigned int pthread_key_t
    int pthread_mutex_init(pthread_mutex_t*, const pthread_mutexattr_t*)
    int pthread_mutex_lock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)
    int pthread_cond_init(pthread_cond_t*, const pthread_condattr_t*)
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*)
    int pthread_cond_broadcast(pthread_cond_t*)
    int pthread_cond_signal(pthread_cond_t*)
    int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*) noexcept nogil, void*)
    int pthread_detach(pthread_t)
    int pthread_key_create(pthread_key_t*, void (*)(void*) noexcept nogil)
    void* pthread_getspecific(pthread_key_t)
    int pthread_setspecific(pthread_key_t, const void*)
    int pthread_atfork(void (*)() noexcept nogil, void (*)() noexcept nogil, void (*)() noexcept nogil)

cdef extern from "signal.h" nogil:
    ctypedef struct sigset_t:
        pass
    int SIG_SETMASK
    int sigfillset(sigset_t*)
    int pthread_sigmask(int, const sigset_t*, sigset_t*)

cdef extern from "sched.h" nogil:
    int sched_yield()

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void**, size_t, size_t)

cdef extern from "sys/mman.h" nogil:
    void* mmap(void*, size_t, int, int, int, int64_t)
    int munmap(void*, size_t)
    int mprotect(void*, size_t, int)
    int madvise(void*, size_t, int)
    int PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC
    int MAP_PRIVATE, MAP_ANONYMOUS
    void* MAP_FAILED

cdef extern from *:
    """
    #include <sys/mman.h>
    #ifndef MADV_HUGEPAGE  /* of Linux alone: elsewhere memory is as it comes */
    #define MADV_HUGEPAGE MADV_NORMAL
    #endif
    """
    int MADV_HUGEPAGE

cdef extern from * nogil:
    int __builtin_clzll(unsigned long long)
    int64_t __atomic_fetch_add(int64_t*, int64_t, int)
    int __atomic_fetch_or(int*, int, int)
    int64_t __atomic_load_n(int64_t*, int)
    void __atomic_store_n(int64_t*, int64_t, int)
    void __builtin___clear_cache(char*, char*)
    int __ATOMIC_RELAXED, __ATOMIC_ACQUIRE, __ATOMIC_RELEASE, __ATOMIC_ACQ_REL, __ATOMIC_SEQ_CST

cdef extern from "dlfcn.h" nogil:
    void* dlsym(void*, const char*)     # the handle NULL means every loaded library

cdef extern from "time.h" nogil:
    cdef struct timespec:
        long tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int clock_gettime(int, timespec*)
