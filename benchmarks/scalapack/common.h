// What the programs share: BLACS and ScaLAPACK by their Fortran names, numbers, time.

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Desc[9];

extern void Cblacs_get(int context, int what, int* value);
extern void Cblacs_gridinit(int* context, const char* order, int rows, int cols);
extern void Cblacs_gridinfo(int context, int* rows, int* cols, int* row, int* col);
extern int numroc_(const int* n, const int* nb, const int* proc, const int* first, const int* all);
extern void descinit_(int* desc, const int* m, const int* n, const int* mb, const int* nb,
                      const int* row, const int* col, const int* context, const int* ld, int* info);
extern double pdlange_(const char*, const int* m, const int* n, double* a, const int*, const int*,
                       const int*, double* work);
extern void pdgemm_(const char*, const char*, const int* m, const int* n, const int* k,
                    const double* alpha, double* a, const int*, const int*, const int*, double* b,
                    const int*, const int*, const int*, const double* beta, double* c, const int*,
                    const int*, const int*);
extern char* openblas_get_corename(void);
extern char* openblas_get_config(void);
extern void openblas_set_num_threads(int);

static const int ZERO = 0, ONE = 1;

static double uniform(uint64_t at) {  // splitmix64, in (0, 1)
  uint64_t z = (at + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t at) {  // standard normal
  return sqrt(-2 * log(uniform(2 * at))) * cos(2 * M_PI * uniform(2 * at + 1));
}

static void check(int info, const char* what) {
  if (info == 0) return;
  fprintf(stderr, "%s: info = %d\n", what, info);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static double now(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Wtime();
}

static FILE* pipe_of(const char* path, int process) {
  char name[4096];
  snprintf(name, sizeof name, "%s.%d", path, process);
  FILE* pipe = fopen(name, "r");
  if (!pipe) check(1, name);
  return pipe;
}
