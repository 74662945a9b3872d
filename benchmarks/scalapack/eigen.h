// What the programs of eigenproblems share. A is (N + N^T) / 2 with a standard normal N, on a 1 x p
// grid. Commands and lines are those of solve.c, with the same time twice.
//
// The ratio of "eigh" is the larger one of |A V - V W| / |A| and |V^T V - I|, that of "eigvalsh"
// the larger one of |sum of W - trace of A| / |A| and |norm of W - norm of A| / norm of A, with
// Frobenius norms. They are in units of n times the unit roundoff; |.| is the 1-norm.

#include "arrays.h"

typedef struct {
  int n, vectors, me;
  Array a, v;
  double* w;
} Problem;

static void fill(Array a) {
  for (int j = 0; j < a.cols; j++)
    for (int i = 0; i < a.rows; i++) {
      const uint64_t row = whole(i, a.nb, a.row, a.grid_rows);
      const uint64_t col = whole(j, a.nb, a.col, a.grid_cols);
      a.at[(size_t)j * a.rows + i] = (normal(row * a.n + col) + normal(col * a.n + row)) / 2;
    }
}

// A problem of "eigh" or "eigvalsh" on all processes.
static Problem problem(const char* task, int n, int nb) {
  Problem p = {.n = n, .vectors = strcmp(task, "eigh") == 0};
  int processes, context;
  openblas_set_num_threads(1);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  MPI_Comm_rank(MPI_COMM_WORLD, &p.me);
  Cblacs_get(0, 0, &context);
  Cblacs_gridinit(&context, "R", 1, processes);
  p.a = array(n, n, nb, context);
  p.v = array(p.vectors ? n : 1, p.vectors ? n : 1, nb, context);
  p.w = malloc(n * sizeof *p.w);
  if (!p.w) check(1, "malloc");
  return p;
}

// Both are of the whole arrays, before the division by n times the unit roundoff.
static double off_vectors(Problem p, Array other, double* sums) {
  const int n = p.n;
  Array a = p.a, v = p.v;
  pdgemm_("N", "N", &n, &n, &n, &PLUS, a.at, &ONE, &ONE, a.of, v.at, &ONE, &ONE, v.of, &NOTHING,
          other.at, &ONE, &ONE, other.of);
  for (int j = 0; j < v.cols; j++)
    for (int i = 0; i < v.rows; i++) {
      const size_t at = (size_t)j * v.rows + i;
      other.at[at] -= v.at[at] * p.w[whole(j, v.nb, v.col, v.grid_cols)];
    }
  const double away = norm(other, sums) / norm(a, sums);
  pdgemm_("T", "N", &n, &n, &n, &PLUS, v.at, &ONE, &ONE, v.of, v.at, &ONE, &ONE, v.of, &NOTHING,
          other.at, &ONE, &ONE, other.of);
  for (int j = 0; j < v.cols; j++)
    other.at[(size_t)j * v.rows + whole(j, v.nb, v.col, v.grid_cols)] -= 1;
  return fmax(away, norm(other, sums));
}

static double off_values(Problem p, double* sums) {
  const Array a = p.a;
  double local[2] = {0, 0}, all[2], trace = 0, square = 0;
  for (int j = 0; j < a.cols; j++) {
    local[0] += a.at[(size_t)j * a.rows + whole(j, a.nb, a.col, a.grid_cols)];
    for (int i = 0; i < a.rows; i++) {
      const double entry = a.at[(size_t)j * a.rows + i];
      local[1] += entry * entry;
    }
  }
  MPI_Allreduce(local, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < p.n; i++) {
    trace += p.w[i];
    square += p.w[i] * p.w[i];
  }
  return fmax(fabs(trace - all[0]) / norm(a, sums), fabs(sqrt(square / all[1]) - 1));
}

// Solves on command, by a function that leaves eigenvalues in w and eigenvectors in v.
static void serve(Problem p, const char* path, void (*solve)(Problem)) {
  Array other = array(p.v.m, p.v.n, p.v.nb, p.v.context);
  double* sums = malloc((p.a.cols + p.n + p.a.nb) * sizeof *sums);
  if (!sums) check(1, "malloc");
  FILE* pipe = pipe_of(path, p.me);
  while (fgetc(pipe) == 's') {
    fill(p.a);
    const double start = now();
    solve(p);
    const double seconds = now() - start;
    fill(p.a);
    const double off = p.vectors ? off_vectors(p, other, sums) : off_values(p, sums);
    if (p.me == 0) {
      printf("%.6f %.6f %.6f\n", seconds, seconds, off / (p.n * 0x1p-53));
      fflush(stdout);
    }
  }
  if (p.me == 0) printf("%s %s\n", openblas_get_corename(), openblas_get_config());
}
