// ELPA's eigenvalues and eigenvectors on p processes, double precision, timed.
//
//   mpirun -n p elpa eigh|eigvalsh n stages nb PIPE
//
// It reduces A to a tridiagonal matrix in one stage or two. Problem, commands and lines are those
// of eigen.h.

#include <elpa/elpa.h>

#include "eigen.h"

static elpa_t elpa;

static void set(const char* name, int value) {
  int error;
  elpa_set(elpa, name, value, &error);
  check(error, name);
}

static void solve(Problem p) {
  int error;
  if (p.vectors)
    elpa_eigenvectors(elpa, p.a.at, p.w, p.v.at, &error);
  else
    elpa_eigenvalues(elpa, p.a.at, p.w, &error);
  check(error, "eigenvalues");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 6) check(argc, "usage: elpa eigh|eigvalsh n stages nb PIPE; arguments");
  const Problem p = problem(argv[1], atoi(argv[2]), atoi(argv[4]));
  int error;
  check(elpa_init(ELPA_API_VERSION), "elpa_init");
  elpa = elpa_allocate(&error);
  check(error, "elpa_allocate");
  set("na", p.n);
  set("nev", p.n);
  set("local_nrows", p.a.rows);
  set("local_ncols", p.a.cols);
  set("nblk", p.a.nb);
  set("mpi_comm_parent", MPI_Comm_c2f(MPI_COMM_WORLD));
  set("process_row", p.a.row);
  set("process_col", p.a.col);
  check(elpa_setup(elpa), "elpa_setup");
  set("solver", atoi(argv[3]) == 2 ? ELPA_SOLVER_2STAGE : ELPA_SOLVER_1STAGE);
  serve(p, argv[5], solve);
  elpa_deallocate(elpa, &error);
  elpa_uninit(&error);
  MPI_Finalize();
  return 0;
}
