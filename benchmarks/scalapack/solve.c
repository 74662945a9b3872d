// ScaLAPACK's solve of A X = B on a 1 x p process grid, double precision, timed.
//
//   mpirun -n p solve cholesky|lu n rhs nb PIPE
//
// A is 1 / (1 + |i-j|) + I for Cholesky and standard normal for LU, B is all ones. Each process
// reads letters from a pipe of its own, PIPE.rank, and sleeps until there is one. After s one line:
// seconds of the factorisation, of the whole solve, and the scaled residual. After e one line with
// the kernels that OpenBLAS has chosen and what it says of itself, and the end. Everything is
// checked by the caller of this program.

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
extern void pdpotrf_(const char*, const int* n, double* a, const int*, const int*, const int*,
                     int* info);
extern void pdpotrs_(const char*, const int* n, const int* k, double* a, const int*, const int*,
                     const int*, double* b, const int*, const int*, const int*, int* info);
extern void pdgetrf_(const int* m, const int* n, double* a, const int*, const int*, const int*,
                     int* pivots, int* info);
extern void pdgetrs_(const char*, const int* n, const int* k, double* a, const int*, const int*,
                     const int*, int* pivots, double* b, const int*, const int*, const int*,
                     int* info);
extern void pdgemm_(const char*, const char*, const int* m, const int* n, const int* k,
                    const double* alpha, double* a, const int*, const int*, const int*, double* b,
                    const int*, const int*, const int*, const double* beta, double* c, const int*,
                    const int*, const int*);
extern double pdlange_(const char*, const int* m, const int* n, double* a, const int*, const int*,
                       const int*, double* work);
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

static double entry(int lu, int n, int i, int j) {
  if (!lu) return 1.0 / (1 + abs(i - j)) + (i == j);
  const uint64_t at = 2 * ((uint64_t)i * n + j);
  return sqrt(-2 * log(uniform(at))) * cos(2 * M_PI * uniform(at + 1));
}

// The columns of this process: j of its own is a column of the whole matrix.
static void fill(int lu, int n, int nb, int cols, int me, int processes, double* a) {
  for (int j = 0; j < cols; j++)
    for (int i = 0; i < n; i++)
      a[(size_t)j * n + i] = entry(lu, n, i, (j / nb * processes + me) * nb + j % nb);
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

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 6) check(argc, "usage: solve cholesky|lu n rhs nb PIPE; arguments");
  openblas_set_num_threads(1);
  const int lu = strcmp(argv[1], "lu") == 0;
  const int n = atoi(argv[2]), k = atoi(argv[3]), nb = atoi(argv[4]);
  int processes, context, rows, row, me, info;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  Cblacs_get(0, 0, &context);
  Cblacs_gridinit(&context, "R", 1, processes);
  Cblacs_gridinfo(context, &rows, &processes, &row, &me);
  const int cols = numroc_(&n, &nb, &me, &ZERO, &processes);
  const int rhs = numroc_(&k, &nb, &me, &ZERO, &processes);
  Desc of_a, of_b;
  descinit_(of_a, &n, &n, &nb, &nb, &ZERO, &ZERO, &context, &n, &info);
  check(info, "descinit");
  descinit_(of_b, &n, &k, &nb, &nb, &ZERO, &ZERO, &context, &n, &info);
  check(info, "descinit");
  const size_t count = (size_t)n * rhs;
  double* a = malloc(((size_t)n * cols + 1) * sizeof *a);
  double* x = malloc((count + 1) * sizeof *x);
  double* residual = malloc((count + 1) * sizeof *residual);
  double* work = malloc((cols + rhs + 1) * sizeof *work);
  int* pivots = malloc((n + nb) * sizeof *pivots);
  if (!a || !x || !residual || !work || !pivots) check(1, "malloc");
  char name[4096];
  snprintf(name, sizeof name, "%s.%d", argv[5], me);
  FILE* pipe = fopen(name, "r");
  if (!pipe) check(1, name);
  while (fgetc(pipe) == 's') {
    fill(lu, n, nb, cols, me, processes, a);
    for (size_t i = 0; i < count; i++) x[i] = residual[i] = 1;
    const double start = now();
    if (lu)
      pdgetrf_(&n, &n, a, &ONE, &ONE, of_a, pivots, &info);
    else
      pdpotrf_("L", &n, a, &ONE, &ONE, of_a, &info);
    check(info, "factorisation");
    const double factored = now();
    if (lu)
      pdgetrs_("N", &n, &k, a, &ONE, &ONE, of_a, pivots, x, &ONE, &ONE, of_b, &info);
    else
      pdpotrs_("L", &n, &k, a, &ONE, &ONE, of_a, x, &ONE, &ONE, of_b, &info);
    check(info, "solve");
    const double solved = now();
    fill(lu, n, nb, cols, me, processes, a);
    const double plus = 1, minus = -1;
    pdgemm_("N", "N", &n, &k, &n, &minus, a, &ONE, &ONE, of_a, x, &ONE, &ONE, of_b, &plus, residual,
            &ONE, &ONE, of_b);
    const double off = pdlange_("1", &n, &k, residual, &ONE, &ONE, of_b, work);
    const double of = pdlange_("1", &n, &n, a, &ONE, &ONE, of_a, work) *
                      pdlange_("1", &n, &k, x, &ONE, &ONE, of_b, work);
    if (me == 0) {
      printf("%.6f %.6f %.6f\n", factored - start, solved - start, off / (n * of * 0x1p-53));
      fflush(stdout);
    }
  }
  if (me == 0) printf("%s %s\n", openblas_get_corename(), openblas_get_config());
  MPI_Finalize();
  return 0;
}
