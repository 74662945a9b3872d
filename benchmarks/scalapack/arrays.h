// Arrays in blocks on a process grid, for the programs of decompositions.

#include "common.h"

static const double NOTHING = 0, PLUS = 1, MINUS = -1;

typedef struct {
  int m, n, nb, rows, cols, row, col, grid_rows, grid_cols, context;
  Desc of;
  double* at;
} Array;

static Array array(int m, int n, int nb, int context) {
  Array a = {.m = m, .n = n, .nb = nb, .context = context};
  Cblacs_gridinfo(context, &a.grid_rows, &a.grid_cols, &a.row, &a.col);
  a.rows = numroc_(&m, &nb, &a.row, &ZERO, &a.grid_rows);
  a.cols = numroc_(&n, &nb, &a.col, &ZERO, &a.grid_cols);
  const int leading = a.rows > 1 ? a.rows : 1;
  int info;
  descinit_(a.of, &m, &n, &nb, &nb, &ZERO, &ZERO, &context, &leading, &info);
  check(info, "descinit");
  a.at = malloc(((size_t)a.rows * a.cols + 1) * sizeof *a.at);
  if (!a.at) check(1, "malloc");
  return a;
}

static int whole(int i, int nb, int me, int all) { return (i / nb * all + me) * nb + i % nb; }

static double norm(Array a, double* work) {
  return pdlange_("1", &a.m, &a.n, a.at, &ONE, &ONE, a.of, work);
}

// The room that a routine asks for where it is first called with a size of -1.
static double* room(double asked, double* old, int* size) {
  *size = (int)asked;
  free(old);
  double* work = malloc((*size + 1) * sizeof *work);
  if (!work) check(1, "malloc");
  return work;
}
