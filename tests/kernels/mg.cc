// cuSolverMg on a machine without a GPU, as far as meshsolve calls it. A call puts the parts of a
// matrix together; its result is complete after a wait for the devices. It refuses calls that the
// real library would refuse.

#include <cstring>
#include <vector>

#include "driver.h"
#include "textbook.h"

namespace {

enum { NO_HANDLE = 1, INVALID_VALUE = 3, INTERNAL_ERROR = 7 };

struct Context {
  std::vector<int> devices;
};

struct Grid {
  std::vector<int> devices;
};

// A matrix distributed to the devices of a grid, `width` columns at a time.
struct Distributed {
  Int rows, cols, width;
  int type;
  const Grid* grid;

  Int ranks() const { return Int(grid->devices.size()); }
  Int rank(Int column) const { return column / width % ranks(); }
  Int place(Int column) const { return column / (width * ranks()) * width + column % width; }
};

#define REFUSED \
  if (int status = driver::refused(__func__)) return status;
#define EXPECT(condition, status) \
  if (!(condition)) return status;

// The columns of all parts, in order.
template <typename T>
std::vector<T> collected(const Distributed& distributed, const Word* parts) {
  std::vector<T> whole(size_t(distributed.rows * distributed.cols));
  for (Int j = 0; j < distributed.cols; j++) {
    const T* part = reinterpret_cast<const T*>(parts[distributed.rank(j)]);
    std::memcpy(&whole[size_t(j * distributed.rows)],
                part + distributed.place(j) * distributed.rows,
                sizeof(T) * size_t(distributed.rows));
  }
  return whole;
}

// The reverse, by each device at the next wait for it.
template <typename T>
void distribute(const Distributed& distributed, const Word* parts, const std::vector<T>& whole) {
  for (Int rank = 0; rank < distributed.ranks(); rank++) {
    T* part = reinterpret_cast<T*>(parts[rank]);
    driver::on_own_stream(distributed.grid->devices[size_t(rank)], [=] {
      for (Int j = 0; j < distributed.cols; j++) {
        if (distributed.rank(j) != rank) continue;
        std::memcpy(part + distributed.place(j) * distributed.rows,
                    &whole[size_t(j * distributed.rows)], sizeof(T) * size_t(distributed.rows));
      }
    });
  }
}

// Elements of workspace on each device. It is filled, so that a test notices too few.
Int elements(Int n, Int k) { return 2 * n + k + 3; }

template <typename T>
void fill(const Word* work, Int ranks, Int count) {
  for (Int rank = 0; rank < ranks; rank++)
    std::memset(reinterpret_cast<void*>(work[rank]), 0xEE, sizeof(T) * size_t(count));
}

bool is_square(const void* handle, const Distributed* a, int n, int i, int j, int type) {
  const Context* context = static_cast<const Context*>(handle);
  const bool there = context && a && driver::context();
  return there && context->devices == a->grid->devices && a->rows == n && a->cols == n && i == 1 &&
         j == 1 && type == a->type && a->width * a->ranks() <= (n > 0 ? n : a->ranks());
}

bool is_rhs(const Distributed* a, const Distributed* b, int k, int i, int j) {
  return b && b->grid == a->grid && b->rows == a->rows && b->cols == k && b->type == a->type &&
         i == 1 && j == 1;
}

const Distributed* distributed(const void* descriptor) {
  return static_cast<const Distributed*>(descriptor);
}

// x <- op(L)^-1 x or op(U)^-1 x, with ones on the diagonal or not.
template <typename T>
void substitute(const Matrix<T>& a, Int n, bool down, bool unit, T* x) {
  for (Int step = 0; step < n; step++) {
    const Int i = down ? step : n - 1 - step;
    T sum = x[i];
    for (Int l = down ? 0 : i + 1; l < (down ? i : n); l++) sum -= a(i, l) * x[l];
    x[i] = unit ? sum : sum / a(i, i);
  }
}

// A step on the parts of a matrix, put together; work(whole) returns its status.
template <typename Work>
int step(const Distributed& a, int type, const Word* parts, const Word* memory, Int lwork,
         Work work) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    fill<T>(memory, a.ranks(), lwork);
    auto whole = collected<T>(a, parts);
    return work(whole);
  });
}

template <typename T>
Matrix<T> matrix_of(std::vector<T>& whole, Int n, int op = 0) {
  return {whole.data(), n, op};
}

}  // namespace

extern "C" {

int cusolverMgCreate(void** handle) {
  REFUSED
  *handle = new Context;
  return 0;
}

int cusolverMgDestroy(void* handle) {
  REFUSED
  EXPECT(handle, NO_HANDLE)
  delete static_cast<Context*>(handle);
  return 0;
}

int cusolverMgDeviceSelect(void* handle, int count, const int* devices) {
  REFUSED
  EXPECT(handle && count > 0, NO_HANDLE)
  for (int i = 0; i < count; i++) EXPECT(0 <= devices[i] && devices[i] < 3, INVALID_VALUE)
  static_cast<Context*>(handle)->devices.assign(devices, devices + count);
  return 0;
}

int cusolverMgCreateDeviceGrid(void** grid, int rows, int cols, const int* devices, int mapping) {
  REFUSED
  EXPECT(rows == 1 && cols > 0 && (mapping == 0 || mapping == 1), INVALID_VALUE)
  *grid = new Grid{{devices, devices + cols}};
  return 0;
}

int cusolverMgDestroyGrid(void* grid) {
  REFUSED
  EXPECT(grid, INVALID_VALUE)
  delete static_cast<Grid*>(grid);
  return 0;
}

int cusolverMgCreateMatrixDesc(void** descriptor, Int rows, Int cols, Int high, Int wide, int type,
                               const void* grid) {
  REFUSED
  EXPECT(grid && rows >= 0 && cols >= 0 && high == rows && wide > 0, INVALID_VALUE)
  *descriptor = new Distributed{rows, cols, wide, type, static_cast<const Grid*>(grid)};
  return 0;
}

int cusolverMgDestroyMatrixDesc(void* descriptor) {
  REFUSED
  EXPECT(descriptor, INVALID_VALUE)
  delete static_cast<Distributed*>(descriptor);
  return 0;
}

#define LIKE_POTRF(name)                                                                          \
  int cusolverMg##name##_bufferSize(void* handle, int fill, int n, const Word*, int i, int j,     \
                                    void* descriptor, int type, Int* lwork) {                     \
    REFUSED                                                                                       \
    EXPECT(is_square(handle, distributed(descriptor), n, i, j, type) && fill == 0, INVALID_VALUE) \
    *lwork = elements(n, 0);                                                                      \
    return 0;                                                                                     \
  }
LIKE_POTRF(Potrf)
LIKE_POTRF(Potri)

int cusolverMgPotrf(void* handle, int uplo, int n, const Word* parts, int i, int j,
                    void* descriptor, int type, const Word* work, Int lwork, int* info) {
  REFUSED
  const Distributed* a = distributed(descriptor);
  EXPECT(is_square(handle, a, n, i, j, type) && uplo == 0, INVALID_VALUE)
  EXPECT(lwork >= elements(n, 0), INVALID_VALUE)
  return step(*a, type, parts, work, lwork, [&](auto& whole) {
    const int minor = factor_cholesky(matrix_of(whole, n), n);
    distribute(*a, parts, whole);
    *info = minor;
    return minor ? INTERNAL_ERROR : 0;
  });
}

int cusolverMgPotri(void* handle, int uplo, int n, const Word* parts, int i, int j,
                    void* descriptor, int type, const Word* work, Int lwork, int* info) {
  REFUSED
  const Distributed* a = distributed(descriptor);
  EXPECT(is_square(handle, a, n, i, j, type) && uplo == 0, INVALID_VALUE)
  EXPECT(lwork >= elements(n, 0), INVALID_VALUE)
  return step(*a, type, parts, work, lwork, [&](auto& whole) {
    auto inverse = whole;
    for (Int column = 0; column < n; column++) {
      auto* x = &inverse[size_t(column * n)];
      for (Int row = 0; row < n; row++) x[row] = row == column;
      substitute(matrix_of(whole, n), n, true, false, x);
      substitute(matrix_of(whole, n, 2), n, false, false, x);
      // The upper triangle stays unchanged.
      for (Int row = 0; row < column; row++) x[row] = whole[size_t(column * n + row)];
    }
    distribute(*a, parts, inverse);
    *info = 0;
    return 0;
  });
}

// For a mode without vectors (0) and with them (1).
bool is_syevd(const void* handle, const Distributed* a, int mode, int fill, int n, int i, int j,
              int real, int type) {
  const bool is_single = type == 0 || type == 4;
  return is_square(handle, a, n, i, j, type) && (mode == 0 || mode == 1) && fill == 0 &&
         real == (is_single ? 0 : 1);
}

int cusolverMgSyevd_bufferSize(void* handle, int mode, int fill, int n, const Word*, int i, int j,
                               void* descriptor, void*, int real, int type, Int* lwork) {
  REFUSED
  EXPECT(is_syevd(handle, distributed(descriptor), mode, fill, n, i, j, real, type), INVALID_VALUE)
  *lwork = elements(n, mode);
  return 0;
}

int cusolverMgSyevd(void* handle, int mode, int fill, int n, const Word* parts, int i, int j,
                    void* descriptor, void* values, int real, int type, const Word* work, Int lwork,
                    int* info) {
  REFUSED
  const Distributed* a = distributed(descriptor);
  EXPECT(is_syevd(handle, a, mode, fill, n, i, j, real, type), INVALID_VALUE)
  EXPECT(lwork >= elements(n, mode), INVALID_VALUE)
  return step(*a, type, parts, work, lwork, [&](auto& whole) {
    std::vector<double> found(static_cast<size_t>(n));
    *info = decompose_hermitian(matrix_of(whole, n), n, found.data());
    for (Int k = 0; k < n; k++) {
      if (real == 0)
        static_cast<float*>(values)[k] = float(found[size_t(k)]);
      else
        static_cast<double*>(values)[k] = found[size_t(k)];
    }
    // Without vectors A is lost.
    if (mode == 0)
      std::memset(static_cast<void*>(whole.data()), 0xEE, sizeof(whole[0]) * whole.size());
    distribute(*a, parts, whole);
    return 0;
  });
}

int cusolverMgPotrs_bufferSize(void* handle, int fill, int n, int k, const Word*, int i, int j,
                               void* descriptor, const Word*, int ib, int jb, void* right, int type,
                               Int* lwork) {
  REFUSED
  const Distributed* a = distributed(descriptor);
  EXPECT(is_square(handle, a, n, i, j, type) && fill == 0, INVALID_VALUE)
  EXPECT(is_rhs(a, distributed(right), k, ib, jb), INVALID_VALUE)
  *lwork = elements(n, k);
  return 0;
}

int cusolverMgPotrs(void* handle, int uplo, int n, int k, const Word* parts, int i, int j,
                    void* descriptor, const Word* sides, int ib, int jb, void* right, int type,
                    const Word* work, Int lwork, int* info) {
  REFUSED
  const Distributed *a = distributed(descriptor), *b = distributed(right);
  EXPECT(is_square(handle, a, n, i, j, type) && uplo == 0, INVALID_VALUE)
  EXPECT(is_rhs(a, b, k, ib, jb) && lwork >= elements(n, k), INVALID_VALUE)
  return step(*a, type, parts, work, lwork, [&](auto& whole) {
    auto x = collected<typename std::decay_t<decltype(whole)>::value_type>(*b, sides);
    for (Int column = 0; column < k; column++) {
      substitute(matrix_of(whole, n), n, true, false, &x[size_t(column * n)]);
      substitute(matrix_of(whole, n, 2), n, false, false, &x[size_t(column * n)]);
    }
    distribute(*b, sides, x);
    *info = 0;
    return 0;
  });
}

int cusolverMgGetrf_bufferSize(void* handle, int m, int n, const Word*, int i, int j,
                               void* descriptor, const Word* rows, int type, Int* lwork) {
  REFUSED
  EXPECT(is_square(handle, distributed(descriptor), n, i, j, type) && m == n && rows, INVALID_VALUE)
  *lwork = elements(n, 1);
  return 0;
}

int cusolverMgGetrf(void* handle, int m, int n, const Word* parts, int i, int j, void* descriptor,
                    const Word* rows, int type, const Word* work, Int lwork, int* info) {
  REFUSED
  const Distributed* a = distributed(descriptor);
  EXPECT(is_square(handle, a, n, i, j, type) && m == n && lwork >= elements(n, 1), INVALID_VALUE)
  return step(*a, type, parts, work, lwork, [&](auto& whole) {
    std::vector<Int> pivots(static_cast<size_t>(n));
    *info = factor_lu(matrix_of(whole, n), n, n, pivots.data());
    distribute(*a, parts, whole);
    // A row of numbers with the matrix's distribution.
    distribute(Distributed{1, a->cols, a->width, 0, a->grid}, rows,
               std::vector<int>(pivots.begin(), pivots.end()));
    return 0;
  });
}

int cusolverMgGetrs_bufferSize(void* handle, int op, int n, int k, const Word*, int i, int j,
                               void* descriptor, const Word* rows, const Word*, int ib, int jb,
                               void* right, int type, Int* lwork) {
  REFUSED
  const Distributed* a = distributed(descriptor);
  EXPECT(is_square(handle, a, n, i, j, type) && op == 0 && rows, INVALID_VALUE)
  EXPECT(is_rhs(a, distributed(right), k, ib, jb), INVALID_VALUE)
  *lwork = elements(n, k);
  return 0;
}

int cusolverMgGetrs(void* handle, int op, int n, int k, const Word* parts, int i, int j,
                    void* descriptor, const Word* rows, const Word* sides, int ib, int jb,
                    void* right, int type, const Word* work, Int lwork, int* info) {
  REFUSED
  const Distributed *a = distributed(descriptor), *b = distributed(right);
  EXPECT(is_square(handle, a, n, i, j, type) && op == 0, INVALID_VALUE)
  EXPECT(is_rhs(a, b, k, ib, jb) && lwork >= elements(n, k), INVALID_VALUE)
  return step(*a, type, parts, work, lwork, [&](auto& whole) {
    auto x = collected<typename std::decay_t<decltype(whole)>::value_type>(*b, sides);
    const auto pivots = collected<int>(Distributed{1, a->cols, a->width, 0, a->grid}, rows);
    for (Int column = 0; column < k; column++) {
      auto* right_side = &x[size_t(column * n)];
      for (Int row = 0; row < n; row++) {
        const Int other = pivots[size_t(row)] - 1;
        if (row <= other && other < n) std::swap(right_side[row], right_side[other]);
      }
      substitute(matrix_of(whole, n), n, true, true, right_side);
      substitute(matrix_of(whole, n), n, false, false, right_side);
    }
    distribute(*b, sides, x);
    *info = 0;
    return 0;
  });
}

}  // extern "C"
