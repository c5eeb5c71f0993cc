"""The C of a library's tasks that are no kernels: calls of LAPACK, random bits."""

# What `runtime.cpu.random_bits` does, and `Generator.seed_with`.
RANDOM = r"""
static uint32_t mixed(uint32_t high, uint32_t low, uint32_t far) {
  uint32_t word = (high & 0x80000000u) | (low & 0x7FFFFFFFu);
  return far ^ word >> 1 ^ (low & 1 ? 0x9908B0DFu : 0);
}

/* The next word of MT19937: 624 words, how many are left, and which is next. */
static uint32_t next_word(uint32_t *s) {
  if (s[624] == 1) {
    for (int i = 0; i < 624; i++)
      s[i] = mixed(s[i], s[(i + 1) % 624], s[(i + 397) % 624]);
    s[624] = 625, s[625] = 0;
  }
  s[624]--;
  uint32_t y = s[s[625]++];
  y ^= y >> 11, y ^= y << 7 & 0x9D2C5680u, y ^= y << 15 & 0xEFC60000u;
  return y ^ y >> 18;
}

__attribute__((unused))
static int random_bits(char **data, const int64_t *ints, int64_t begin, int64_t end) {
  uint32_t *stream = (uint32_t *)data[0];
  int64_t *out = (int64_t *)data[1];
  for (int64_t i = begin; i < end; i++) {
    int64_t word = next_word(stream);
    out[i] = ints[0] ? (word & 0x1FFFFF) << 32 | next_word(stream) : word & 0xFFFFFF;
  }
  return 0;
}

static void seed_stream(uint32_t *s, uint64_t seed) {
  s[0] = (uint32_t)seed;
  for (uint32_t i = 1; i < 624; i++)
    s[i] = 1812433253u * (s[i - 1] ^ s[i - 1] >> 30) + i;
  s[624] = 1, s[625] = 0;
}
"""

# What `runtime.cpu.lapack_tasks` does. A routine takes addresses alone, and as many are
# always passed: who is called takes its own.
LAPACK = r"""
enum { ARG_NUMBER, ARG_EACH, ARG_WORKSPACE, ARG_LENGTH, ARG_MEMORY, ARG_ZEROS, ARG_BITS,
       ARG_CODE, ARG_NOTHING, MOST_ARGUMENTS = 20 };
#define P void *
typedef void (*routine_t)(P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P);
#undef P

static void call_routine(char **data, const int64_t *ints, void **at, int64_t i) {
  for (int k = 0; k < ints[0]; k++) {
    const int64_t *what = ints + 1 + 3 * k;
    if (what[0] == ARG_EACH) at[k] = data[what[1]] + i * what[2];
    if (what[0] == ARG_ZEROS) memset(at[k], 0, (size_t)what[1]);
  }
  ((routine_t)(uintptr_t)data[0])(
      at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8], at[9], at[10],
      at[11], at[12], at[13], at[14], at[15], at[16], at[17], at[18], at[19]);
}

/* The lengths that a routine has left in its workspaces, and memory of those. */
static int workspaces(const int64_t *ints, void **at, void **held, int *numbers,
                      double *asked) {
  for (int k = 0; k < ints[0]; k++) {
    const int64_t *what = ints + 1 + 3 * k;
    if (what[0] != ARG_WORKSPACE) continue;
    double *left = &asked[2 * k];
    int64_t length = what[2] == 0   ? (int64_t)*(float *)left
                     : what[2] == 1 ? (int64_t)*left
                                    : *(int *)left;
    numbers[k] = length < 1 ? 1 : (int)length;
    at[k] = held[k] = malloc((size_t)(numbers[k] * what[1]));
    if (!held[k]) return 2;
  }
  for (int k = 0; k < ints[0]; k++)
    if (ints[1 + 3 * k] == ARG_LENGTH) numbers[k] = numbers[ints[2 + 3 * k]];
  return 0;
}

__attribute__((unused))
static int run_routine(char **data, const int64_t *ints, int64_t begin, int64_t end) {
  void *at[MOST_ARGUMENTS], *held[MOST_ARGUMENTS] = {0};
  int numbers[MOST_ARGUMENTS], failed = 0, asks = 0;
  double asked[2 * MOST_ARGUMENTS] = {0};
  for (int k = 0; k < MOST_ARGUMENTS; k++) at[k] = (void *)1; /* lengths of letters */
  for (int k = 0; k < ints[0]; k++) {
    const int64_t *what = ints + 1 + 3 * k;
    numbers[k] = what[0] == ARG_NUMBER ? (int)what[1] : -1;
    switch (what[0]) {
      case ARG_NUMBER: case ARG_LENGTH: case ARG_CODE: at[k] = &numbers[k]; break;
      case ARG_BITS: at[k] = (void *)(ints + what[1]); break;
      case ARG_WORKSPACE: at[k] = &asked[2 * k], asks = 1; break;
      case ARG_NOTHING: at[k] = NULL; break;
      case ARG_MEMORY: case ARG_ZEROS:
        at[k] = held[k] = malloc(what[1] < 1 ? 1 : (size_t)what[1]);
        if (!held[k]) failed = 2;
    }
  }
  if (asks && !failed) {
    call_routine(data, ints, at, begin);
    failed = workspaces(ints, at, held, numbers, asked);
  }
  for (int64_t i = begin; i < end && !failed; i++) call_routine(data, ints, at, i);
  for (int k = 0; k < ints[0]; k++) free(held[k]);
  return failed;
}

/* Complex eigenvalues and vectors out of how geev hands over a real matrix's. */
#define UNPACK(TYPE, FUNCTION_OF)                                                            \
  static void FUNCTION_OF(int64_t n, const TYPE *parts, const TYPE *packed, TYPE *values,    \
                      TYPE *vectors, int64_t wanted) {                                   \
    for (int64_t j = 0; j < n; j++)                                                      \
      values[2 * j] = parts[j], values[2 * j + 1] = parts[n + j];                        \
    for (int64_t j = 0; wanted && j < n; j++) {                                          \
      int pair = parts[n + j] != 0 && j + 1 < n;                                         \
      for (int64_t k = 0; k < n; k++) {                                                  \
        TYPE other = pair ? packed[(j + 1) * n + k] : 0;                                 \
        vectors[2 * (j * n + k)] = packed[j * n + k];                                    \
        vectors[2 * (j * n + k) + 1] = other;                                            \
        if (!pair) continue;                                                             \
        vectors[2 * ((j + 1) * n + k)] = packed[j * n + k];                              \
        vectors[2 * ((j + 1) * n + k) + 1] = -other;                                     \
      }                                                                                  \
      j += pair;                                                                         \
    }                                                                                    \
  }
UNPACK(float, unpack_floats)
UNPACK(double, unpack_doubles)

__attribute__((unused))
static int unpack_pairs(char **data, const int64_t *ints, int64_t begin, int64_t end) {
  int64_t n = ints[1], row = n * (4 << ints[0]);
  for (int64_t i = begin; i < end; i++) {
    void *parts = data[0] + 2 * i * row, *packed = data[1] + i * n * row;
    void *values = data[2] + 2 * i * row, *vectors = data[3] + 2 * i * n * row;
    if (ints[0]) unpack_doubles(n, parts, packed, values, vectors, ints[2]);
    else unpack_floats(n, parts, packed, values, vectors, ints[2]);
  }
  return 0;
}

static char *routines[N_ROUTINES + 1];
static int lapack_failed;
static pthread_once_t lapack_once = PTHREAD_ONCE_INIT;

/* OpenBLAS lies beside the library. Its kernels are chosen while it is loaded: those for
   AVX2, as in the process that has written the library. */
static void load_lapack(void) {
  Dl_info own;
  char path[4096] = "";
  lapack_failed = 1;
  if (!dladdr((void *)(uintptr_t)load_lapack, &own) || !own.dli_fname) return;
  const char *end = strrchr(own.dli_fname, '/');
  int length = end ? (int)(end + 1 - own.dli_fname) : 0;
  if (snprintf(path, sizeof path, "%.*s" LAPACK_FILE, length, own.dli_fname) >= 4096)
    return;
  int plain = !getenv("OPENBLAS_CORETYPE");
#ifdef __x86_64__
  plain = plain && __builtin_cpu_supports("avx512f");
  if (plain) setenv("OPENBLAS_CORETYPE", "Haswell", 1);
#endif
  void *found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
#ifdef __x86_64__
  if (plain) unsetenv("OPENBLAS_CORETYPE");
#endif
  if (!found) return;
  void (*threads)(int) = (void (*)(int))dlsym(found, "scipy_openblas_set_num_threads");
  if (threads) threads(1);
  lapack_failed = 0;
  for (int i = 0; i < N_ROUTINES; i++)
    if (!(routines[i] = dlsym(found, ROUTINES[i]))) lapack_failed = 1;
}

/* What a factorization's codes mean is the operator's; 0 is that all went well. */
static int codes_fail(NAME *m, const char *operator, const char *codes, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    int32_t code = ((const int32_t *)codes)[i];
    if (code)
      return fail(m, "%s: matrix %lld is singular, not positive-definite or not finite: "
                  "LAPACK's code is %d", operator, (long long)i, (int)code);
  }
  return 0;
}
"""

LOAD_LAPACK = """pthread_once(&lapack_once, load_lapack);
  if (lapack_failed)
    return fail(NULL, "NAME: " LAPACK_FILE ", which has LAPACK's routines, is not beside "
                "the library, or is another"), NULL;"""
