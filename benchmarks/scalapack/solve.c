// ScaLAPACK's solve of A X = B on a 1 x p process grid, double precision, timed.
//
//   mpirun -n p solve cholesky|lu n rhs nb PIPE
//
// A is 1 / (1 + |i-j|) + I for Cholesky and standard normal for LU, B is all ones. Each process
// reads letters from a pipe of its own, PIPE.rank, and sleeps until there is one. After s one line:
// seconds of the factorisation, of the whole solve, and the scaled residual. After e one line with
// the kernels that OpenBLAS has chosen and what it says of itself, and the end. Everything is
// checked by the caller of this program.

#include "common.h"

extern void pdpotrf_(const char*, const int* n, double* a, const int*, const int*, const int*,
                     int* info);
extern void pdpotrs_(const char*, const int* n, const int* k, double* a, const int*, const int*,
                     const int*, double* b, const int*, const int*, const int*, int* info);
extern void pdgetrf_(const int* m, const int* n, double* a, const int*, const int*, const int*,
                     int* pivots, int* info);
extern void pdgetrs_(const char*, const int* n, const int* k, double* a, const int*, const int*,
                     const int*, int* pivots, double* b, const int*, const int*, const int*,
                     int* info);

static double entry(int lu, int n, int i, int j) {
  if (!lu) return 1.0 / (1 + abs(i - j)) + (i == j);
  return normal((uint64_t)i * n + j);
}

// The columns of this process: j of its own is a column of the whole matrix.
static void fill(int lu, int n, int nb, int cols, int me, int processes, double* a) {
  for (int j = 0; j < cols; j++)
    for (int i = 0; i < n; i++)
      a[(size_t)j * n + i] = entry(lu, n, i, (j / nb * processes + me) * nb + j % nb);
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
  FILE* pipe = pipe_of(argv[5], me);
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
