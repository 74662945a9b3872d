// ScaLAPACK's QR factorisation and least squares on p processes, double precision, timed.
//
//   mpirun -n p qr qr|lstsq m n nb PIPE
//
// The grid is 1 x p, or p x 1 for at least 8 times as many rows as columns. A and one right-hand
// side are standard normal. Commands and lines are those of solve.c. The ratio of "qr" is that of
// |A - Q R| to |A| in the 1-norm, that of "lstsq" |A^T (b - A x)| / (|A| |b|), both in units of m
// times the unit roundoff. The two times are the same.

#include "arrays.h"

extern void pdgeqrf_(const int* m, const int* n, double* a, const int*, const int*, const int*,
                     double* tau, double* work, const int* size, int* info);
extern void pdormqr_(const char*, const char*, const int* m, const int* n, const int* k, double* a,
                     const int*, const int*, const int*, double* tau, double* c, const int*,
                     const int*, const int*, double* work, const int* size, int* info);
extern void pdgels_(const char*, const int* m, const int* n, const int* k, double* a, const int*,
                    const int*, const int*, double* b, const int*, const int*, const int*,
                    double* work, const int* size, int* info);
extern void pdlaset_(const char*, const int* m, const int* n, const double* off, const double* on,
                     double* a, const int*, const int*, const int*);

static void fill(Array a, uint64_t seed) {
  for (int j = 0; j < a.cols; j++)
    for (int i = 0; i < a.rows; i++) {
      const uint64_t row = whole(i, a.nb, a.row, a.grid_rows);
      const uint64_t col = whole(j, a.nb, a.col, a.grid_cols);
      a.at[(size_t)j * a.rows + i] = normal(seed + row * a.n + col);
    }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 6) check(argc, "usage: qr qr|lstsq m n nb PIPE; arguments");
  openblas_set_num_threads(1);
  const int solves = strcmp(argv[1], "lstsq") == 0;
  const int m = atoi(argv[2]), n = atoi(argv[3]), nb = atoi(argv[4]), by_rows = m >= 8 * n;
  int processes, context, me, info, size = -1, size_of_q = -1;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  Cblacs_get(0, 0, &context);
  Cblacs_gridinit(&context, "R", by_rows ? processes : 1, by_rows ? 1 : processes);
  Array a = array(m, n, nb, context), other = array(m, n, nb, context);
  Array b = array(m, 1, nb, context), residual = array(m, 1, nb, context);
  Array product = array(n, 1, nb, context);
  double *tau = malloc((a.cols + nb) * sizeof *tau), *work = NULL, *of_q = NULL, asked;
  double* sums = malloc((a.cols + n + nb) * sizeof *sums);
  if (!tau || !sums) check(1, "malloc");
  if (solves)
    pdgels_("N", &m, &n, &ONE, a.at, &ONE, &ONE, a.of, b.at, &ONE, &ONE, b.of, &asked, &size,
            &info);
  else
    pdgeqrf_(&m, &n, a.at, &ONE, &ONE, a.of, tau, &asked, &size, &info);
  check(info, "size");
  work = room(asked, work, &size);
  if (!solves) {
    pdormqr_("L", "N", &m, &n, &n, a.at, &ONE, &ONE, a.of, tau, other.at, &ONE, &ONE, other.of,
             &asked, &size_of_q, &info);
    check(info, "size");
    of_q = room(asked, of_q, &size_of_q);
  }
  FILE* pipe = pipe_of(argv[5], me);
  while (fgetc(pipe) == 's') {
    fill(a, 0);
    fill(b, (uint64_t)m * n);
    const double start = now();
    if (solves)
      pdgels_("N", &m, &n, &ONE, a.at, &ONE, &ONE, a.of, b.at, &ONE, &ONE, b.of, work, &size,
              &info);
    else
      pdgeqrf_(&m, &n, a.at, &ONE, &ONE, a.of, tau, work, &size, &info);
    check(info, argv[1]);
    const double done = now();
    double off, of;
    if (solves) {
      fill(a, 0);
      fill(residual, (uint64_t)m * n);
      of = norm(residual, sums);
      pdgemm_("N", "N", &m, &ONE, &n, &MINUS, a.at, &ONE, &ONE, a.of, b.at, &ONE, &ONE, b.of, &PLUS,
              residual.at, &ONE, &ONE, residual.of);
      pdgemm_("T", "N", &n, &ONE, &m, &PLUS, a.at, &ONE, &ONE, a.of, residual.at, &ONE, &ONE,
              residual.of, &NOTHING, product.at, &ONE, &ONE, product.of);
      off = norm(product, sums);
      of *= norm(a, sums);
    } else {
      memcpy(other.at, a.at, (size_t)a.rows * a.cols * sizeof *a.at);
      const int below = m - 1, two = 2;
      pdlaset_("L", &below, &n, &NOTHING, &NOTHING, other.at, &two, &ONE, other.of);
      pdormqr_("L", "N", &m, &n, &n, a.at, &ONE, &ONE, a.of, tau, other.at, &ONE, &ONE, other.of,
               of_q, &size_of_q, &info);
      check(info, "pdormqr");
      fill(a, 0);
      of = norm(a, sums);
      for (size_t i = 0; i < (size_t)a.rows * a.cols; i++) other.at[i] -= a.at[i];
      off = norm(other, sums);
    }
    if (me == 0) {
      printf("%.6f %.6f %.6f\n", done - start, done - start, off / (m * of * 0x1p-53));
      fflush(stdout);
    }
  }
  if (me == 0) printf("%s %s\n", openblas_get_corename(), openblas_get_config());
  MPI_Finalize();
  return 0;
}
