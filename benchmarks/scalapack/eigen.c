// ScaLAPACK's eigenvalues and eigenvectors on p processes, double precision, timed.
//
//   mpirun -n p eigen eigh|eigvalsh n nb PIPE
//
// "eigh" is pdsyevd. It has no form without eigenvectors, so "eigvalsh" is pdsyev. Problem,
// commands and lines are those of eigen.h.

#include "eigen.h"

extern void pdsyevd_(const char*, const char*, const int* n, double* a, const int*, const int*,
                     const int*, double* w, double* z, const int*, const int*, const int*,
                     double* work, const int* size, int* integers, const int* count, int* info);
extern void pdsyev_(const char*, const char*, const int* n, double* a, const int*, const int*,
                    const int*, double* w, double* z, const int*, const int*, const int*,
                    double* work, const int* size, int* info);
extern void pdormtr_(const char*, const char*, const char*, const int* m, const int* n, double* a,
                     const int*, const int*, const int*, double* tau, double* c, const int*,
                     const int*, const int*, double* work, const int* size, int* info);

static double *work, asked;
static int *integers, size = -1, count = -1;

static void run(Problem p, double* work, int* integers) {
  const Array a = p.a, v = p.v;
  int info;
  if (p.vectors)
    pdsyevd_("V", "L", &p.n, a.at, &ONE, &ONE, a.of, p.w, v.at, &ONE, &ONE, v.of, work, &size,
             integers, &count, &info);
  else
    pdsyev_("N", "L", &p.n, a.at, &ONE, &ONE, a.of, p.w, v.at, &ONE, &ONE, v.of, work, &size,
            &info);
  check(info, "eigenvalues");
}

static void solve(Problem p) { run(p, work, integers); }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 5) check(argc, "usage: eigen eigh|eigvalsh n nb PIPE; arguments");
  const Problem p = problem(argv[1], atoi(argv[2]), atoi(argv[3]));
  const Array a = p.a, v = p.v;
  double asked_of_vectors = 0;
  int asked_integers = 0, info;
  run(p, &asked, &asked_integers);
  // With a small n, pdsyevd asks for less than this part of it needs.
  if (p.vectors)
    pdormtr_("L", "L", "N", &p.n, &p.n, a.at, &ONE, &ONE, a.of, p.w, v.at, &ONE, &ONE, v.of,
             &asked_of_vectors, &size, &info);
  work = room(asked + asked_of_vectors + 2 * p.n, NULL, &size);
  count = asked_integers;
  integers = malloc((count + 1) * sizeof *integers);
  if (!integers) check(1, "malloc");
  serve(p, argv[4], solve);
  MPI_Finalize();
  return 0;
}
