"""The text of a library without Python: its header, its tables and its runtime in C."""

import re

from rushlight.export._library_tasks import LAPACK, RANDOM

_HEADER = """\
/* {name}: a program of Rushlight's as a library. It needs {needs}, and no Python.

   {name}_create reads the weights and starts threads, {name}_run runs the program,
   {name}_free gives everything back. Functions that fail return NULL or a number that is
   not 0; {name}_last_error says why. A model is used by one thread at a time: what comes
   from another one meanwhile is refused. Several models go beside each other.

{described}*/
#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {name} {name};

/* A row-major array: where it is, its type ("float32"), and its sizes. */
typedef struct {{
  void *data;
  const char *type;
  int dim;
  const int64_t *sizes;
}} {name}_tensor;

typedef struct {{
  int threads;  /* that work on one run, the caller's among them; 0: one a processor */
  /* What runs body(argument, 0) to body(argument, count - 1), in any order and side by
     side; NULL: threads of the model's own. */
  void (*parallel)(void *user, void (*body)(void *argument, int64_t at),
                   void *argument, int64_t count);
  void *user;
}} {name}_options;

/* The model with the weights of a file; options may be NULL. */
{name} *{name}_create(const char *weights, const {name}_options *options);

/* How many arrays are given, and come back; what they are (data is NULL), in the first
   bucket and in any: a bucket is a set of sizes that {name}_run takes. */
int {name}_inputs(void);
int {name}_outputs(void);
const {name}_tensor *{name}_input(int number);
const {name}_tensor *{name}_output(int number);
int {name}_buckets(void);
const {name}_tensor *{name}_bucket_input(int bucket, int number);
const {name}_tensor *{name}_bucket_output(int bucket, int number);

/* The bucket whose sizes those are, whatever their data; -1 where there is none. */
int {name}_bucket(const {name}_tensor *inputs, int n_inputs);

/* Runs the program, of the bucket that the inputs' sizes are those of. Outputs are written
   to the memory that their data point to. */
int {name}_run({name} *model, const {name}_tensor *inputs, int n_inputs,
               const {name}_tensor *outputs, int n_outputs);

/* Writes what the program keeps from run to run, as {name}_create reads it: whole, or the
   file that was there stays. */
int {name}_save({name} *model, const char *weights);

/* Begins the model's random numbers anew, as torch.manual_seed does; an error where the
   program draws none. */
int {name}_seed({name} *model, uint64_t seed);

void {name}_free({name} *model);

/* Of a model, or with NULL of this thread's last {name}_create or {name}_bucket. */
const char *{name}_last_error(const {name} *model);

#ifdef __cplusplus
}}
#endif
#endif
"""

# The parts of the runtime that are the same for all libraries; NAME is the library's.
RUNTIME = r"""
typedef int (*kernel_t)(char **data, const int64_t *ints, int64_t begin, int64_t end);
typedef struct { int32_t kind, number; int64_t offset; } place_t;
typedef struct {
  int32_t kind, fn, place, n_positions, ints, numbers, n_bytes;
  int64_t total, grain;
} step_t;
typedef struct {
  const NAME_tensor *inputs, *outputs;
  int32_t step, n_steps, copy, n_copies;
  int32_t alike;  /* from here on are those of one size that grows */
} bucket_t;
enum { NOTHING, FRESH, STATE, INPUT, NUMBER, FLAG, FUNCTION, OUTPUT, ROUTINE };

#define MOST_THREADS 64
#define MOST_CHUNKS 256

typedef struct {
  kernel_t fn;
  char **data;
  const int64_t *ints;
  int64_t total, chunk, count;
  atomic_llong next, done;
  atomic_int faults;
} job_t;

struct NAME {
  char *state, *arena, *code;
  int64_t flag;
  NAME_options options;
  pthread_t threads[MOST_THREADS];
  int n_threads, stopping;
  pthread_mutex_t mutex;
  pthread_cond_t came, left;
  job_t *job;
  int64_t generation;
  int inside;
  atomic_flag busy;
  char error[512];
};

static __thread char create_error[512];
static __thread const NAME *refused;  /* the model that this thread may not use now */
static __thread char *lent;
static __thread int64_t lent_bytes;
static pthread_key_t lent_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_key(void) { pthread_key_create(&lent_key, free); }

/* Memory that a kernel works in: one block for each thread. */
static char *scratch(int64_t size) {
  if (lent_bytes < size) {
    void *made = NULL;
    free(lent);
    lent = NULL, lent_bytes = 0;
    pthread_setspecific(lent_key, NULL);
    if (posix_memalign(&made, 4096, (size_t)size)) return NULL;
    lent = made, lent_bytes = size;
    pthread_setspecific(lent_key, made);
  }
  return lent;
}

static int fail(NAME *m, const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  vsnprintf(m ? m->error : create_error, 512, format, rest);
  va_end(rest);
  return 1;
}

/* Takes a model for this thread; no more than one has it. */
static int taken(NAME *m) {
  if (!m) return !fail(NULL, "NAME: the model is NULL");
  refused = atomic_flag_test_and_set(&m->busy) ? m : NULL;
  return !refused;
}

static int given_back(NAME *m, int result) {
  atomic_flag_clear(&m->busy);
  return result;
}

static void run_chunk(void *argument, int64_t at) {
  job_t *job = argument;
  int64_t begin = at * job->chunk, end = begin + job->chunk;
  if (end > job->total) end = job->total;
  int faults = job->fn(job->data, job->ints, begin, end);
  if (faults) atomic_fetch_or(&job->faults, faults);
}

static void take_part(job_t *job) {
  for (;;) {
    int64_t at = atomic_fetch_add(&job->next, 1);
    if (at >= job->count) return;
    run_chunk(job, at);
    atomic_fetch_add(&job->done, 1);
  }
}

static void *work(void *argument) {
  NAME *m = argument;
  int64_t seen = 0;
  pthread_mutex_lock(&m->mutex);
  while (!m->stopping) {
    if (m->job && m->generation != seen) {
      job_t *job = m->job;
      seen = m->generation;
      m->inside++;
      pthread_mutex_unlock(&m->mutex);
      take_part(job);
      pthread_mutex_lock(&m->mutex);
      if (!--m->inside) pthread_cond_signal(&m->left);
    } else {
      pthread_cond_wait(&m->came, &m->mutex);
    }
  }
  pthread_mutex_unlock(&m->mutex);
  return NULL;
}

/* Chunks depend on the length and the grain alone, so that results are the same bits on
   any number of threads. A worker that has not woken is not waited for. */
static int run_chunks(NAME *m, kernel_t fn, char **data, const int64_t *ints,
                      int64_t total, int64_t grain) {
  if (total <= 0) return 0;
  if (grain < 1) grain = 1;
  if (total <= grain) return fn(data, ints, 0, total);
  int64_t grains = (total + grain - 1) / grain;
  job_t job = {fn, data, ints, total,
               grain * ((grains + MOST_CHUNKS - 1) / MOST_CHUNKS), 0, 0, 0, 0};
  job.count = (total + job.chunk - 1) / job.chunk;
  if (m->options.parallel) {
    m->options.parallel(m->options.user, run_chunk, &job, job.count);
    return atomic_load(&job.faults);
  }
  if (m->n_threads && job.count > 1) {
    pthread_mutex_lock(&m->mutex);
    m->job = &job;
    m->generation++;
    pthread_cond_broadcast(&m->came);
    pthread_mutex_unlock(&m->mutex);
    take_part(&job);
    pthread_mutex_lock(&m->mutex);
    m->job = NULL;
    while (m->inside) pthread_cond_wait(&m->left, &m->mutex);
    pthread_mutex_unlock(&m->mutex);
  } else {
    take_part(&job);
  }
  return atomic_load(&job.faults);
}

static int same(const NAME_tensor *given, const NAME_tensor *wanted) {
  if (!given->type || given->dim != wanted->dim) return 0;
  for (int i = 0; i < wanted->dim; i++)
    if (!given->sizes || given->sizes[i] != wanted->sizes[i]) return 0;
  return !strcmp(given->type, wanted->type);
}

static int all_same(const NAME_tensor *given, const NAME_tensor *wanted, int count) {
  for (int i = 0; i < count; i++)
    if (!same(&given[i], &wanted[i])) return 0;
  return 1;
}

static const NAME_tensor *arrays(const bucket_t *bucket, int outputs) {
  return outputs ? bucket->outputs : bucket->inputs;
}

/* Says of an array which types and sizes those buckets have. */
static int unlike(NAME *m, int outputs, int i, const bucket_t *buckets, int n) {
  char text[400] = "";
  int at = 0;
  for (int b = 0, alike = 1; b < n && at < 300; b += alike) {
    if (n > 1) alike = buckets[b].alike;
    const NAME_tensor *wanted = &arrays(&buckets[b], outputs)[i];
    const NAME_tensor *last = &arrays(&buckets[b + alike - 1], outputs)[i];
    at += snprintf(text + at, sizeof text - at, b ? " or (" : "(");
    for (int d = 0; d < wanted->dim && at < 300; d++) {
      long long low = wanted->sizes[d], high = last->sizes[d];
      at += snprintf(text + at, sizeof text - at, "%s%lld", d ? ", " : "", low);
      if (high != low) at += snprintf(text + at, sizeof text - at, " to %lld", high);
    }
    at += snprintf(text + at, sizeof text - at, ")");
  }
  return fail(m, "%s %d of NAME is a %s array of sizes %s", outputs ? "output" : "input",
              i, arrays(buckets, outputs)[i].type, text);
}

static int check(NAME *m, int outputs, const NAME_tensor *given, int n,
                 const bucket_t *buckets, int n_buckets) {
  const char *what = outputs ? "output" : "input";
  int count = outputs ? N_OUTPUTS : N_INPUTS;
  if (n != count) return fail(m, "NAME takes %d %ss, not %d", count, what, n);
  if (n && !given) return fail(m, "NAME: the %ss are NULL", what);
  for (int i = 0; i < n; i++) {
    int found = 0;
    for (int b = 0; b < n_buckets && given[i].data && !found; b++)
      found = same(&given[i], &arrays(&buckets[b], outputs)[i]);
    if (!found) return unlike(m, outputs, i, buckets, n_buckets);
  }
  return 0;
}

/* The bucket whose sizes the inputs have, or -1. */
static int found_bucket(NAME *m, const NAME_tensor *inputs, int n) {
  for (int b = 0; b < N_BUCKETS && n == N_INPUTS && (inputs || !n); b++)
    if (all_same(inputs, BUCKETS[b].inputs, n)) return b;
  if (!check(m, 0, inputs, n, BUCKETS, N_BUCKETS))
    fail(m, "NAME: the sizes of the inputs are those of different buckets");
  return -1;
}

int NAME_bucket(const NAME_tensor *inputs, int n) { return found_bucket(NULL, inputs, n); }

static char *resolved(NAME *m, const place_t *p, const NAME_tensor *inputs,
                      const NAME_tensor *outputs, char *numbers) {
  switch (p->kind) {
    case FRESH: return m->arena + p->offset;
    case STATE: return m->state + p->offset;
    case INPUT: return (char *)inputs[p->number].data + p->offset;
    case OUTPUT: return (char *)outputs[p->number].data + p->offset;
    case NUMBER: return numbers + p->offset;
    case FLAG: return (char *)&m->flag;
    case FUNCTION: return m->code + FUNCTIONS[p->number];
    case ROUTINE: return ROUTINE_AT(p->number);
    default: return NULL;
  }
}

static int run(NAME *m, const NAME_tensor *inputs, int n_inputs,
               const NAME_tensor *outputs, int n_outputs) {
  char *data[MOST_PLACES + 1];
  char numbers[MOST_BYTES + 1] __attribute__((aligned(64)));
  int found = found_bucket(m, inputs, n_inputs);
  const bucket_t *bucket = &BUCKETS[found < 0 ? 0 : found];
  if (found < 0 || check(m, 0, inputs, n_inputs, bucket, 1) ||
      check(m, 1, outputs, n_outputs, bucket, 1))
    return 1;
  m->flag = NO_FAULT;
  for (int i = 0; i < bucket->n_steps; i++) {
    const step_t *s = &STEPS[bucket->step + i];
    memcpy(numbers, NUMBERS + s->numbers, s->kind ? 0 : s->n_bytes);
    for (int j = 0; j < s->n_positions; j++)
      data[j] = resolved(m, &POSITIONS[s->place + j], inputs, outputs, numbers);
    if (s->kind == 4) {
      if (CODES_FAIL(m, (const char *)NUMBERS + s->numbers, data[0], s->total)) return 1;
      continue;
    }
    if (s->kind > 1) {
      if (s->kind == 3 || !*data[0]) i += (int)s->total;
      continue;
    }
    if (s->kind) {
      memcpy(data[0], NUMBERS + s->numbers, s->n_bytes);
      continue;
    }
    kernel_t fn = s->fn < 0 ? TASKS[-1 - s->fn]
                            : (kernel_t)(uintptr_t)(m->code + FUNCTIONS[s->fn]);
    int faults = run_chunks(m, fn, data, INTS + s->ints, s->total, s->grain);
    if (faults & 2) return fail(m, "no memory for what a kernel works on");
    if (faults) return fail(m, "ZeroDivisionError");
    int64_t *word = (int64_t *)numbers;
    if (s->n_bytes == 8 && memcmp(word, NUMBERS + s->numbers, 8) &&
        *(const int64_t *)(NUMBERS + s->numbers) == NO_FAULT)
      return fail(m, "index %lld is out of range", (long long)*word);
    if (m->flag != NO_FAULT)
      return fail(m, "index %lld is out of range", (long long)m->flag);
  }
  for (int i = bucket->copy; i < bucket->copy + bucket->n_copies; i++)
    memcpy(outputs[COPIES[i].number].data,
           resolved(m, &COPIED[i], inputs, outputs, NULL), COPIES[i].offset);
  return 0;
}

int NAME_run(NAME *m, const NAME_tensor *inputs, int n_inputs,
             const NAME_tensor *outputs, int n_outputs) {
  if (!taken(m)) return 1;
  return given_back(m, run(m, inputs, n_inputs, outputs, n_outputs));
}

static int map_code(NAME *m) {
  long page = sysconf(_SC_PAGESIZE);
  size_t size = (CODE_BYTES + page) / page * page;
  m->code = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m->code == MAP_FAILED) {
    m->code = NULL;
    return fail(NULL, "NAME: no memory for %zu bytes of code", size);
  }
  memcpy(m->code, rl_code, CODE_BYTES);
  for (int i = 0; i < N_SLOTS; i++) {
    uint64_t value = 0;
    switch (SLOTS[i].kind) {
      case 0: value = (uint64_t)(uintptr_t)m->code; break;
      case 1: value = (uint64_t)(uintptr_t)scratch; break;
      case 2: value = (uint64_t)(uintptr_t)memcpy; break;
      case 3: value = (uint64_t)(uintptr_t)memmove; break;
      case 4: value = (uint64_t)(uintptr_t)memset; break;
    }
    value += SLOTS[i].value;
    memcpy(m->code + SLOTS[i].at, &value, 8);
  }
  __builtin___clear_cache(m->code, m->code + CODE_BYTES);
  if (mprotect(m->code, size, PROT_READ | PROT_EXEC))
    return fail(NULL, "NAME: the system refuses executable memory");
  return 0;
}

/* The checksum of the state's bytes that files have: CRC-32. */
static uint64_t checksum(const char *data, int64_t size) {
  static uint32_t table[256];
  static atomic_int ready;
  if (!atomic_load(&ready)) {
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t value = i;
      for (int k = 0; k < 8; k++) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
      table[i] = value;
    }
    atomic_store(&ready, 1);
  }
  uint32_t sum = 0xFFFFFFFFu;
  for (int64_t i = 0; i < size; i++)
    sum = sum >> 8 ^ table[(sum ^ (unsigned char)data[i]) & 255];
  return sum ^ 0xFFFFFFFFu;
}

static int read_state(NAME *m, const char *path) {
  char head[40];
  uint64_t sum = 0;
  if (!path) return fail(NULL, "NAME: the path of the weights is NULL");
  FILE *file = fopen(path, "rb");
  if (!file) return fail(NULL, "NAME: cannot open %s", path);
  int bad = fread(head, 1, 40, file) != 40 || memcmp(head, IDENTITY, 40);
  if (!bad) bad = fread(&sum, 1, 8, file) != 8;
  if (!bad) bad = fread(m->state, 1, STATE_BYTES, file) != STATE_BYTES;
  if (!bad) bad = fgetc(file) != EOF;
  fclose(file);
  if (bad) return fail(NULL, "NAME: %s does not hold the weights of this library", path);
  if (sum != checksum(m->state, STATE_BYTES))
    return fail(NULL, "NAME: the weights in %s have changed since they were written", path);
  return 0;
}

/* A file beside the path is written first, and put in its place when it is whole. */
static int save(NAME *m, const char *path) {
  if (!path) return fail(m, "NAME: the path of the weights is NULL");
  char *other = malloc(strlen(path) + 8);
  if (!other) return fail(m, "NAME: no memory");
  sprintf(other, "%s.XXXXXX", path);
  int number = mkstemp(other);
  FILE *file = number < 0 ? NULL : fdopen(number, "wb");
  if (!file) {
    if (number >= 0) close(number), unlink(other);
    free(other);
    return fail(m, "NAME: cannot write %s", path);
  }
  struct stat before;
  mode_t mask = umask(0);
  umask(mask);
  fchmod(number, stat(path, &before) ? 0666 & ~mask : before.st_mode & 07777);
  uint64_t sum = checksum(m->state, STATE_BYTES);
  int bad = fwrite(IDENTITY, 1, 40, file) != 40;
  bad |= fwrite(&sum, 1, 8, file) != 8;
  bad |= fwrite(m->state, 1, STATE_BYTES, file) != STATE_BYTES;
  bad |= fflush(file) != 0 || fsync(number) != 0;
  bad |= fclose(file) != 0;
  bad = bad || rename(other, path);
  if (bad) unlink(other);
  free(other);
  return bad ? fail(m, "NAME: %s cannot be written", path) : 0;
}

int NAME_save(NAME *m, const char *path) {
  if (!taken(m)) return 1;
  return given_back(m, save(m, path));
}

int NAME_seed(NAME *m, uint64_t seed) {
  if (!taken(m)) return 1;
  if (STREAM < 0) return given_back(m, fail(m, "NAME draws no random numbers"));
  seed_stream((uint32_t *)(m->state + STREAM), seed);
  return given_back(m, 0);
}

NAME *NAME_create(const char *weights, const NAME_options *options) {
  pthread_once(&once, make_key);
  create_error[0] = 0;
  FEATURES
  LOAD_LAPACK
  NAME *m = calloc(1, sizeof *m);
  void *state = NULL, *arena = NULL;
  if (!m) return fail(NULL, "NAME: no memory"), NULL;
  atomic_flag_clear(&m->busy);
  pthread_mutex_init(&m->mutex, NULL);
  pthread_cond_init(&m->came, NULL);
  pthread_cond_init(&m->left, NULL);
  if (options) m->options = *options;
  if (posix_memalign(&state, 64, STATE_BYTES + 64) ||
      posix_memalign(&arena, 64, ARENA_BYTES + 64)) {
    free(state);
    fail(NULL, "NAME: no memory for %lld bytes", (long long)STATE_BYTES + ARENA_BYTES);
    NAME_free(m);
    return NULL;
  }
  m->state = state, m->arena = arena;
  if (map_code(m) || read_state(m, weights)) {
    NAME_free(m);
    return NULL;
  }
  int wanted = m->options.threads;
  if (wanted <= 0) wanted = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (wanted > MOST_THREADS) wanted = MOST_THREADS;
  while (!m->options.parallel && m->n_threads < wanted - 1 &&
         !pthread_create(&m->threads[m->n_threads], NULL, work, m))
    m->n_threads++;
  return m;
}

void NAME_free(NAME *m) {
  if (!m) return;
  pthread_mutex_lock(&m->mutex);
  m->stopping = 1;
  pthread_cond_broadcast(&m->came);
  pthread_mutex_unlock(&m->mutex);
  for (int i = 0; i < m->n_threads; i++) pthread_join(m->threads[i], NULL);
  long page = sysconf(_SC_PAGESIZE);
  if (m->code) munmap(m->code, (CODE_BYTES + page) / page * page);
  pthread_mutex_destroy(&m->mutex);
  pthread_cond_destroy(&m->came);
  pthread_cond_destroy(&m->left);
  free(m->state);
  free(m->arena);
  free(m);
}

const char *NAME_last_error(const NAME *m) {
  if (m && refused == m) return "NAME: the model runs in another thread";
  return m ? m->error : create_error;
}
int NAME_inputs(void) { return N_INPUTS; }
int NAME_outputs(void) { return N_OUTPUTS; }
int NAME_buckets(void) { return N_BUCKETS; }
const NAME_tensor *NAME_bucket_input(int b, int i) {
  if (b < 0 || b >= N_BUCKETS || i < 0 || i >= N_INPUTS) return NULL;
  return &BUCKETS[b].inputs[i];
}
const NAME_tensor *NAME_bucket_output(int b, int i) {
  if (b < 0 || b >= N_BUCKETS || i < 0 || i >= N_OUTPUTS) return NULL;
  return &BUCKETS[b].outputs[i];
}
const NAME_tensor *NAME_input(int i) { return NAME_bucket_input(0, i); }
const NAME_tensor *NAME_output(int i) { return NAME_bucket_output(0, i); }
"""

INCLUDES = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#pragma GCC visibility push(default)
#include "{name}.h"
#pragma GCC visibility pop

__asm__(".section .rodata\\n.balign 64\\nrl_code:\\n.incbin \\"{name}.kernels\\"\\n"
        ".byte 0\\n.previous\\n");
extern const char rl_code[] __attribute__((visibility("hidden")));
"""

# Linux gives a process room for a processor's tiles if it asks; see `operators.matmul.matmul_amx`.
ASK_FOR_TILES = """
  if (syscall(SYS_arch_prctl, 0x1023, 18))
    return fail(NULL, "NAME: the system gives no room for tiles"), NULL;"""

_KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum
    extern float for goto if inline int long main register restrict return short signed
    sizeof static struct switch typedef union unsigned void volatile while""".split()
)


def is_taken(name):
    """Whether C, or the library's own text, has a name already."""
    pattern = r"\b(\w+)\(|\b(\w+_t)\b|^static [^(;\n]*?(\w+)(?:\[\d+\])?(?: = [^;]*)?;"
    own = re.findall(pattern, RUNTIME + RANDOM + LAPACK, re.MULTILINE)
    return name in _KEYWORDS or any(name in names for names in own)


FUNCTIONS_OF_C = {"rushlight_scratch": 1, "memcpy": 2, "memmove": 3, "memset": 4}


def header(name, described, lapack):
    """The header of a library.

    Args:
        name: the library's.
        described: lines about its arrays.
        lapack: the file that has LAPACK's routines, if it calls any.
    """
    needs = f"libc, libm and {lapack} beside it" if lapack else "libc and libm"
    guard = f"{name.upper()}_H"
    return _HEADER.format(name=name, guard=guard, described=described, needs=needs)
