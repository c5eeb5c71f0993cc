"""The pool of threads that share the chunks of a kernel's work.

The caller takes part: it works through its own share of the chunks, then through what
is left of the others' shares, and at the end waits only for chunks that a worker has
already begun. A worker that the system has not woken yet is never waited for. Chunk
boundaries come from the sizes alone, so results are the same bits on any number of
threads; shares are contiguous, so that a thread meets the same memory in the next
kernel over the same array.
"""

import math
import os
from numbers import Integral

import cython
from cython.cimports.libc.stdint import int64_t, intptr_t
from cython.cimports.rushlight.core.posix import (
    __ATOMIC_ACQ_REL,
    __ATOMIC_ACQUIRE,
    __ATOMIC_RELAXED,
    SIG_SETMASK,
    __atomic_fetch_add,
    __atomic_fetch_or,
    __atomic_load_n,
    pthread_atfork,
    pthread_cond_broadcast,
    pthread_cond_init,
    pthread_cond_signal,
    pthread_cond_t,
    pthread_cond_wait,
    pthread_create,
    pthread_detach,
    pthread_getspecific,
    pthread_key_create,
    pthread_key_t,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_t,
    pthread_mutex_unlock,
    pthread_setspecific,
    pthread_sigmask,
    pthread_t,
    sched_yield,
    sigfillset,
    sigset_t,
)
from cython.cimports.rushlight.core.spans import (
    end_kernel,
    now,
    timed_thread,
    timing_kernels,
)
from cython.cimports.rushlight.runtime.cpu.affinity import (
    bind_to,
    leave_processor,
    processor_of_thread,
)

# Nanoseconds of looking before blocking, more than one thread's kernels between two shared.
LOOKING = cython.declare(int64_t, 200_000)

# The list of jobs and the counts of workers, asleep and inside a job, change under `mutex`
# alone. A job lies on its caller's stack: a worker finds it, and counts itself in, under it.
mutex = cython.declare(pthread_mutex_t)
work_came = cython.declare(pthread_cond_t)
job_done = cython.declare(pthread_cond_t)
inside = cython.declare(pthread_key_t)  # set while the thread runs chunks
first_job = cython.declare(cython.pointer(Job), cython.NULL)
published = cython.declare(int64_t, 0)  # jobs ever published; workers watch it
n_workers = cython.declare(cython.int, 0)  # started
n_asleep = cython.declare(cython.int, 0)
n_threads = cython.declare(cython.int, 1)  # caller included
resized = cython.declare(list, [])  # functions to call when their number changes
# That threads are bound to; none: they are not.
n_processors = cython.declare(cython.int, 0)
callers_processor = cython.declare(cython.int, -1)  # of the last job
processors = cython.declare(cython.int[256])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_chunks(
    task: task_t,
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    total: int64_t,
    grain: int64_t,
) -> cython.int:
    """Runs ``task`` over ``[0, total)``, on several threads where it has chunks."""
    if total <= 0:
        return 0
    if grain < 1:
        grain = 1
    if total <= grain:
        return task(data, ints, 0, total)
    # A chunk is a multiple of the grain, and there are at most MAX_CHUNKS of them.
    grains: int64_t = (total + grain - 1) // grain
    chunk: int64_t = grain * ((grains + MAX_CHUNKS - 1) // MAX_CHUNKS)
    n_chunks: int64_t = (total + chunk - 1) // chunk
    limit: cython.int = n_threads
    if limit > n_chunks:
        limit = cython.cast(cython.int, n_chunks)
    # A task that shares work would wait, in a chunk, for workers that wait for its job.
    if limit <= 1 or pthread_getspecific(inside) != cython.NULL:
        return run_alone(task, data, ints, total, chunk)
    return run_shared(task, data, ints, total, chunk, n_chunks, limit)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_alone(
    task: task_t,
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    total: int64_t,
    chunk: int64_t,
) -> cython.int:
    begin: int64_t = 0
    faults: cython.int = 0
    while begin < total:
        faults |= task(data, ints, begin, min(begin + chunk, total))
        begin += chunk
    return faults


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_shared(
    task: task_t,
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    total: int64_t,
    chunk: int64_t,
    n_chunks: int64_t,
    n_shares: cython.int,
) -> cython.int:
    global first_job
    job: Job
    at: cython.pointer(cython.pointer(Job))
    i: cython.int
    until: int64_t
    job.task = task
    job.data = data
    job.ints = ints
    job.total = total
    job.chunk = chunk
    job.active = 0
    job.owner = timed_thread() if timing_kernels else 0
    job.n_shares = n_shares
    job.faults = 0
    for i in range(n_shares):
        job.shares[i].next = n_chunks * i // n_shares
        job.shares[i].end = n_chunks * (i + 1) // n_shares
    pthread_setspecific(inside, cython.address(job))
    publish(cython.address(job))
    take_part(cython.address(job), 0)
    # Unlinked, it can gain no worker; those inside are in their last chunks.
    pthread_mutex_lock(cython.address(mutex))
    at = cython.address(first_job)
    while at[0] != cython.address(job):
        at = cython.address(at[0].following)
    at[0] = job.following
    if job.active > 0:
        pthread_mutex_unlock(cython.address(mutex))
        until = now() + LOOKING
        # It is the lock taken next, not this look, that shows what the workers wrote.
        while (
            __atomic_load_n(cython.address(job.active), __ATOMIC_ACQUIRE) > 0
            and now() < until
        ):
            sched_yield()
        pthread_mutex_lock(cython.address(mutex))
        while job.active > 0:
            pthread_cond_wait(cython.address(job_done), cython.address(mutex))
    pthread_mutex_unlock(cython.address(mutex))
    pthread_setspecific(inside, cython.NULL)
    return job.faults


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def publish(job: cython.pointer(Job)) -> cython.void:
    """Puts a job where workers find it; as many as can help are started or woken."""
    global first_job, callers_processor
    _: cython.int
    pthread_mutex_lock(cython.address(mutex))
    callers_processor = processor_of_thread()
    job.following = first_job
    first_job = job
    while n_workers < job.n_shares - 1 and start_worker():
        pass
    __atomic_fetch_add(cython.address(published), 1, __ATOMIC_ACQ_REL)
    for _ in range(min(n_asleep, job.n_shares - 1)):
        pthread_cond_signal(cython.address(work_came))
    pthread_mutex_unlock(cython.address(mutex))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def start_worker() -> cython.bint:
    """One more worker; False where the system allows no more threads."""
    global n_workers
    thread: pthread_t
    everything: sigset_t
    earlier: sigset_t
    number: intptr_t = n_workers + 1
    # Signals are the interpreter's: a worker takes none.
    sigfillset(cython.address(everything))
    pthread_sigmask(SIG_SETMASK, cython.address(everything), cython.address(earlier))
    failed: cython.int = pthread_create(
        cython.address(thread), cython.NULL, worker, cython.cast(cython.p_void, number)
    )
    pthread_sigmask(SIG_SETMASK, cython.address(earlier), cython.NULL)
    if failed:
        return False
    pthread_detach(thread)
    n_workers += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def take_part(job: cython.pointer(Job), number: cython.int) -> cython.void:
    """Runs chunks until none is left to begin: the own share, then the others'."""
    step: cython.int
    faults: cython.int
    i: int64_t
    share: cython.pointer(Share)
    chunks: int64_t = 0
    begun: int64_t = now() if job.owner else 0
    for step in range(job.n_shares):
        share = cython.address(job.shares[(number + step) % job.n_shares])
        while __atomic_load_n(cython.address(share.next), __ATOMIC_RELAXED) < share.end:
            i = __atomic_fetch_add(cython.address(share.next), 1, __ATOMIC_ACQ_REL)
            if i >= share.end:
                break
            faults = job.task(
                job.data, job.ints, i * job.chunk, min((i + 1) * job.chunk, job.total)
            )
            chunks += 1
            if faults:
                __atomic_fetch_or(cython.address(job.faults), faults, __ATOMIC_ACQ_REL)
    if begun and number and chunks:
        end_kernel(
            cython.cast(cython.p_void, job.task), chunks, begun, job.owner, number
        )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_job() -> cython.pointer(Job):
    """A job with chunks to begin and a place for one worker more, or NULL."""
    i: cython.int
    share: cython.pointer(Share)
    job: cython.pointer(Job) = first_job
    while job != cython.NULL:
        if job.active < job.n_shares - 1:
            for i in range(job.n_shares):
                share = cython.address(job.shares[i])
                if (
                    __atomic_load_n(cython.address(share.next), __ATOMIC_RELAXED)
                    < share.end
                ):
                    return job
        job = job.following
    return cython.NULL


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def leave_caller() -> cython.void:
    """Leaves the caller's processor, on which a worker waits until the caller has done all."""
    if n_processors == 0 and callers_processor == processor_of_thread():
        leave_processor(callers_processor)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def worker(argument: cython.p_void) -> cython.p_void:
    """A worker's life: take part, look around for a moment, sleep."""
    global n_asleep
    number: cython.int = cython.cast(cython.int, cython.cast(intptr_t, argument))
    job: cython.pointer(Job)
    seen: int64_t
    until: int64_t
    pthread_setspecific(inside, argument)
    if n_processors:
        bind_to(processors[number % n_processors])
    pthread_mutex_lock(cython.address(mutex))
    while True:
        job = find_job()
        if job != cython.NULL:
            job.active += 1
            pthread_mutex_unlock(cython.address(mutex))
            leave_caller()
            take_part(job, number)
            pthread_mutex_lock(cython.address(mutex))
            job.active -= 1
            if job.active == 0:
                pthread_cond_broadcast(cython.address(job_done))
            continue
        seen = published
        pthread_mutex_unlock(cython.address(mutex))
        leave_caller()
        until = now() + LOOKING
        while (
            seen == __atomic_load_n(cython.address(published), __ATOMIC_ACQUIRE)
            and now() < until
        ):
            sched_yield()
        pthread_mutex_lock(cython.address(mutex))
        if seen == published:
            n_asleep += 1
            pthread_cond_wait(cython.address(work_came), cython.address(mutex))
            n_asleep -= 1
    return cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def before_fork() -> cython.void:
    pthread_mutex_lock(cython.address(mutex))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def after_fork_in_parent() -> cython.void:
    pthread_mutex_unlock(cython.address(mutex))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def after_fork_in_child() -> cython.void:
    """A child has no workers and none of its siblings' jobs."""
    global first_job, n_workers, n_asleep
    first_job = cython.NULL
    n_workers = 0
    n_asleep = 0
    pthread_setspecific(inside, cython.NULL)
    initialize_locks()


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def initialize_locks() -> cython.void:
    pthread_mutex_init(cython.address(mutex), cython.NULL)
    pthread_cond_init(cython.address(work_came), cython.NULL)
    pthread_cond_init(cython.address(job_done), cython.NULL)


def quota() -> float:
    """CPUs that the control group may use; infinity where there is no limit."""
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="utf-8") as file:
            allowed, period = file.read().split()
        return math.inf if allowed == "max" else int(allowed) / int(period)
    except (OSError, ValueError):
        pass
    try:
        with open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", encoding="utf-8") as file:
            allowed = int(file.read())
        with open("/sys/fs/cgroup/cpu/cpu.cfs_period_us", encoding="utf-8") as file:
            period = int(file.read())
        return allowed / period if allowed > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def default_num_threads() -> int:
    """Threads to use: ``RUSHLIGHT_NUM_THREADS``, ``OMP_NUM_THREADS``, or what CPUs
    the process may use by its affinity and its control group's quota."""
    for variable in ("RUSHLIGHT_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(variable, "").partition(",")[0].strip()
        if text.isdigit() and int(text) > 0:
            return min(int(text), MAX_THREADS)
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    else:
        usable = os.cpu_count() or 1
    return max(1, min(usable, math.ceil(min(quota(), usable)), MAX_THREADS))


def bound_processors(environment, usable, threads) -> list:
    """The processor of each thread by OpenMP's variables; none where they ask for none.

    Args:
        environment: has ``GOMP_CPU_AFFINITY`` (numbers, ranges and steps), or
            ``OMP_PROC_BIND``: ``spread``, or ``close``, ``true``, ``master``, ``primary``.
        usable: the processors that the process may use.
        threads: how many there are.

    >>> bound_processors({"GOMP_CPU_AFFINITY": "0 3 4-8:2"}, [], 2)
    [0, 3, 4, 6, 8]
    >>> bound_processors({"OMP_PROC_BIND": "spread"}, range(8), 4)
    [0, 2, 4, 6]
    >>> bound_processors({"OMP_PROC_BIND": "close"}, range(8), 4)
    [0, 1, 2, 3]
    """
    listed: list = []
    for part in environment.get("GOMP_CPU_AFFINITY", "").replace(",", " ").split():
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        listed += range(int(first), int(last or first) + 1, int(step or 1))
    if listed:
        return listed
    how = environment.get("OMP_PROC_BIND", "").partition(",")[0].strip().lower()
    usable = sorted(usable)
    if how in ("", "false") or not usable:
        return []
    if how == "spread" and threads < len(usable):
        return [usable[k * len(usable) // threads] for k in range(threads)]
    return usable[:threads]


def bind_threads(chosen) -> None:
    """Has this thread, and workers that start, run on a processor each.

    A kernel's threads write the same parts of an array each time: so pages of a result
    lie near the thread that wrote them first, and reads them next.

    Args:
        chosen: the processors, this thread's first.
    """
    global n_processors
    n_processors = min(len(chosen), MAX_THREADS)
    for k in range(n_processors):
        processors[k] = chosen[k]
    if n_processors:
        bind_to(processors[0])


def get_num_threads() -> int:
    """The number of threads that share a kernel's work, the caller included."""
    return n_threads


def set_num_threads(number) -> None:
    """Sets how many threads share a kernel's work, the caller included.

    Args:
        number: how many.

    Raises:
        RuntimeError: the number is not positive, or no integer.

    >>> import rushlight as rl
    >>> rl.set_num_threads(rl.get_num_threads())
    """
    global n_threads
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise RuntimeError(
            f"set_num_threads expects an int, but got {type(number).__name__}"
        )
    if number < 1:
        raise RuntimeError(f"Expected number of threads to be positive, got {number}")
    before = n_threads
    n_threads = min(number, MAX_THREADS)
    if n_threads != before:
        for function in resized:
            function()


def after_resizing(function) -> None:
    """Has a function be called after the number of threads changed: plans go by it."""
    resized.append(function)


initialize_locks()
if pthread_key_create(cython.address(inside), cython.NULL) != 0:
    raise ImportError("rushlight: no thread-specific storage key is left")
pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child)
set_num_threads(default_num_threads())
if hasattr(os, "sched_getaffinity"):
    bind_threads(bound_processors(os.environ, os.sched_getaffinity(0), n_threads))
