/* Runs the libraries that build.py has written, and compares with what Python gave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "encoder.h"
#include "lenet.h"
#include "step.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static size_t bytes_of(const char *type, int dim, const int64_t *sizes) {
  size_t count = strstr(type, "64") ? 8 : 4;
  for (int i = 0; i < dim; i++) count *= sizes[i];
  return count;
}

static void *contents(const char *name, const char *what, int number, size_t size) {
  char path[256];
  void *data = malloc(size + 64);
  snprintf(path, sizeof path, "%s.%s%d", name, what, number);
  FILE *file = fopen(path, "rb");
  if (!file || fread(data, 1, size, file) != size) {
    fprintf(stderr, "%s is not there, or too short\n", path);
    exit(1);
  }
  fclose(file);
  return data;
}

/* One library: its names begin with NAME. */
#define RUN(NAME, THREADS, RUNS)                                                         \
  static int run_##NAME(void) {                                                          \
    NAME##_options options = {THREADS, NULL, NULL};                                      \
    NAME *model = NAME##_create(#NAME ".weights", &options);                             \
    if (!model) return fprintf(stderr, "%s\n", NAME##_last_error(NULL)), 1;              \
    NAME##_tensor inputs[4], output = *NAME##_output(0);                                 \
    for (int i = 0; i < NAME##_inputs(); i++) {                                          \
      inputs[i] = *NAME##_input(i);                                                      \
      size_t size = bytes_of(inputs[i].type, inputs[i].dim, inputs[i].sizes);            \
      inputs[i].data = contents(#NAME, "input", i, size);                                \
    }                                                                                    \
    size_t size = bytes_of(output.type, output.dim, output.sizes);                       \
    void *wanted = contents(#NAME, "output", 0, size);                                   \
    output.data = malloc(size);                                                          \
    double best = 1e9;                                                                   \
    for (int i = 0; i < RUNS; i++) {                                                     \
      double start = now();                                                              \
      if (NAME##_run(model, inputs, NAME##_inputs(), &output, 1))                        \
        return fprintf(stderr, "%s\n", NAME##_last_error(model)), 1;                     \
      double taken = now() - start;                                                      \
      if (taken < best) best = taken;                                                    \
      if (!i)                                                                            \
        printf("%s: %s\n", #NAME,                                                        \
               memcmp(output.data, wanted, size) ? "DIFFERS" : "same bits");             \
    }                                                                                    \
    printf("%s: %.1f us, first %f\n", #NAME, 1e6 * best, *(float *)output.data);         \
    output.dim++;                                                                        \
    if (!NAME##_run(model, inputs, NAME##_inputs(), &output, 1)) return 1;               \
    printf("refused: %s\n", NAME##_last_error(model));                                   \
    for (int i = 0; i < NAME##_inputs(); i++) free(inputs[i].data);                      \
    free(wanted);                                                                        \
    free(output.data);                                                                   \
    NAME##_free(model);                                                                  \
    return 0;                                                                            \
  }

RUN(lenet, 1, 300)
RUN(encoder, 1, 300)
RUN(step, 1, 300)

int main(void) {
  if (lenet_create("no such file", NULL)) return 1;
  printf("refused: %s\n", lenet_last_error(NULL));
  return run_lenet() || run_encoder() || run_step();
}
