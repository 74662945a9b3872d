// cuBLAS and cuSOLVER on a machine without a GPU, as far as meshsolve calls them. Textbook loops
// run in the emulated driver's streams at a wait for them. They refuse calls that a real library
// would refuse.

#include <atomic>
#include <complex>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "driver.h"
#include "textbook.h"

namespace {

enum { NO_HANDLE = 1, OUT_OF_MEMORY = 3, FAILED = 13 };

struct Handle {
  void* context;
  void* stream = nullptr;
  // Rows, columns and leading dimensions of earlier queries for workspace.
  std::set<std::vector<Int>> asked = {};
  // Functions that have used it.
  std::set<std::string> used = {};
};

// The first use of a handle by a function, such as loading kernels and taking memory, may wait for
// all work of the device.
bool may(Handle* handle, const char* function) {
  return !handle || !handle->used.insert(function).second || !driver::is_awaited();
}

bool fits(Int rows, Int leading) { return leading >= (rows > 1 ? rows : 1); }

Handle* here(void* handle) {
  Handle* known = static_cast<Handle*>(handle);
  return known && known->context == driver::context() ? known : nullptr;
}

#define REFUSED \
  if (int status = driver::refused(__func__)) return status;
#define EXPECT(condition, status) \
  if (!(condition)) return status;
#define AT_WORK(handle) \
  REFUSED               \
  EXPECT(may(here(handle), __func__), FAILED)

int give(Handle* handle, std::function<int()> work) {
  return driver::enqueue(handle->stream, std::move(work)) == 0 ? 0 : FAILED;
}

template <typename T>
int gemm(Handle* handle, int ta, int tb, Int m, Int n, Int k, const T* alpha, Word a, Int lda,
         Word b, Int ldb, const T* beta, Word c, Int ldc) {
  EXPECT(handle, NO_HANDLE)
  EXPECT(0 <= ta && ta < 3 && 0 <= tb && tb < 3 && m >= 0 && n >= 0 && k >= 0, INVALID)
  EXPECT(fits(ta ? k : m, lda) && fits(tb ? n : k, ldb) && fits(m, ldc), INVALID)
  const T x = *alpha, y = *beta;
  return give(handle, [=] {
    const Matrix<T> A = matrix<T>(a, lda, ta), B = matrix<T>(b, ldb, tb), C = matrix<T>(c, ldc);
    for (Int j = 0; j < n; j++) {
      for (Int i = 0; i < m; i++) {
        T sum = 0;
        for (Int l = 0; l < k; l++) sum += A(i, l) * B(l, j);
        C.stored(i, j) = y * C.stored(i, j) + x * sum;
      }
    }
    return 0;
  });
}

// An entry of op(A), A a triangle; it reads nothing outside of the triangle.
template <typename T>
T entry(const Matrix<T>& a, bool lower, bool unit, Int i, Int j) {
  const Int row = a.op ? j : i, column = a.op ? i : j;
  if (row == column && unit) return 1;
  if (lower ? row < column : row > column) return 0;
  return a(i, j);
}

template <typename T>
int trsm(Handle* handle, int side, int fill, int op, int diagonal, Int m, Int n, const T* alpha,
         Word a, Int lda, Word b, Int ldb) {
  EXPECT(handle, NO_HANDLE)
  EXPECT(0 <= op && op < 3 && m >= 0 && n >= 0, INVALID)
  const Int order = side ? n : m;
  EXPECT(fits(order, lda) && fits(m, ldb) && *alpha == T(1), INVALID)
  return give(handle, [=] {
    const Matrix<T> A = matrix<T>(a, lda, op), X = matrix<T>(b, ldb);
    const bool lower = fill == 0, unit = diagonal == 1;
    // op(A) is lower where the substitution runs downwards.
    const bool down = (lower == (op == 0)) == (side == 0);
    for (Int line = 0; line < (side ? m : n); line++) {
      auto x = [&](Int i) -> T& { return side ? X.stored(line, i) : X.stored(i, line); };
      for (Int step = 0; step < order; step++) {
        const Int i = down ? step : order - 1 - step;
        T sum = x(i);
        for (Int l = 0; l < order; l++) {
          if (down ? l >= i : l <= i) continue;
          sum -= (side ? entry(A, lower, unit, l, i) : entry(A, lower, unit, i, l)) * x(l);
        }
        x(i) = unit ? sum : sum / A(i, i);
      }
    }
    return 0;
  });
}

template <typename T>
int trmm(Handle* handle, int side, int fill, int op, int diagonal, Int m, Int n, const T* alpha,
         Word a, Int lda, Word b, Int ldb, Word c, Int ldc) {
  EXPECT(handle, NO_HANDLE)
  EXPECT(side == 0 && 0 <= op && op < 3 && fits(m, lda) && fits(m, ldb) && fits(m, ldc), INVALID)
  const T factor = *alpha;
  return give(handle, [=] {
    const Matrix<T> A = matrix<T>(a, lda, op), B = matrix<T>(b, ldb), C = matrix<T>(c, ldc);
    std::vector<T> product(static_cast<size_t>(m));
    for (Int j = 0; j < n; j++) {
      for (Int i = 0; i < m; i++) {
        T sum = 0;
        for (Int l = 0; l < m; l++) {
          const T x = entry(A, fill == 0, diagonal == 1, i, l);
          if (x != T(0)) sum += x * B.stored(l, j);
        }
        product[size_t(i)] = factor * sum;
      }
      for (Int i = 0; i < m; i++) C.stored(i, j) = product[size_t(i)];
    }
    return 0;
  });
}

template <typename T>
int geam(Handle* handle, int ta, int tb, Int m, Int n, const T* alpha, Word a, Int lda,
         const T* beta, Word b, Int ldb, Word c, Int ldc) {
  EXPECT(handle, NO_HANDLE)
  EXPECT(fits(ta ? n : m, lda) && fits(tb ? n : m, ldb) && fits(m, ldc), INVALID)
  // In place only if it is not transposed and has the same leading dimension.
  EXPECT(a != c || (ta == 0 && lda == ldc), INVALID)
  EXPECT(b != c || (tb == 0 && ldb == ldc), INVALID)
  const T x = *alpha, y = *beta;
  return give(handle, [=] {
    const Matrix<T> A = matrix<T>(a, lda, ta), B = matrix<T>(b, ldb, tb), C = matrix<T>(c, ldc);
    for (Int j = 0; j < n; j++) {
      for (Int i = 0; i < m; i++) C.stored(i, j) = x * A(i, j) + y * B(i, j);
    }
    return 0;
  });
}

// Bytes of workspace. It is filled, so that a test notices too few.
size_t device_bytes(Int m, Int n) { return size_t(16 * (m + n) + 32); }
constexpr size_t HOST_BYTES = 24;

// A factorisation may write its host workspace at the call and read it when it runs.
Word note(void* host) {
  static std::atomic<Word> calls;
  return *static_cast<Word*>(host) = ++calls;
}

bool noted(const void* host, Word call) { return *static_cast<const Word*>(host) == call; }

// Answers a query for the workspace of a factorisation.
int answer(void* handle, Int m, Int n, Int lda, size_t* device, size_t* host) {
  EXPECT(here(handle), NO_HANDLE)
  EXPECT(fits(m, lda), INVALID)
  here(handle)->asked.insert({m, n, lda});
  *device = device_bytes(m, n), *host = HOST_BYTES;
  return 0;
}

// Whether the handle has been asked for that workspace, and has it.
bool ready(void* handle, Int m, Int n, Int lda, size_t bytes, void* host, size_t host_bytes) {
  return fits(m, lda) && here(handle)->asked.count({m, n, lda}) && bytes >= device_bytes(m, n) &&
         host && host_bytes >= HOST_BYTES;
}

}  // namespace

extern "C" {

int cublasCreate_v2(void** handle) {
  REFUSED
  EXPECT(driver::context(), NO_HANDLE)
  *handle = new Handle{driver::context()};
  return 0;
}

int cublasDestroy_v2(void* handle) {
  REFUSED
  EXPECT(here(handle), NO_HANDLE)
  delete static_cast<Handle*>(handle);
  return 0;
}

int cublasSetStream_v2(void* handle, void* stream) {
  REFUSED
  EXPECT(here(handle), NO_HANDLE)
  here(handle)->stream = stream;
  return 0;
}

int cublasSetWorkspace_v2(void* handle, Word at, size_t bytes) {
  REFUSED
  EXPECT(here(handle), NO_HANDLE)
  EXPECT(at % 256 == 0 && bytes >= (4 << 20), INVALID)
  return 0;
}

// CUBLAS_DEFAULT_MATH and CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH.
int cublasSetMathMode(void* handle, int mode) {
  REFUSED
  EXPECT(here(handle), NO_HANDLE)
  EXPECT(mode == 0 || mode == 8, INVALID)
  return 0;
}

const char* cublasGetStatusString(int status) {
  switch (status) {
    case NO_HANDLE:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case OUT_OF_MEMORY:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case INVALID:
      return "CUBLAS_STATUS_INVALID_VALUE";
  }
  return "CUBLAS_STATUS_EXECUTION_FAILED";
}

#define BLAS(X, T)                                                                                 \
  int cublas##X##gemm_v2_64(void* h, int ta, int tb, Int m, Int n, Int k, const void* alpha,       \
                            Word a, Int lda, Word b, Int ldb, const void* beta, Word c, Int ldc) { \
    AT_WORK(h)                                                                                     \
    return gemm<T>(here(h), ta, tb, m, n, k, static_cast<const T*>(alpha), a, lda, b, ldb,         \
                   static_cast<const T*>(beta), c, ldc);                                           \
  }                                                                                                \
  int cublas##X##trsm_v2_64(void* h, int side, int fill, int op, int diagonal, Int m, Int n,       \
                            const void* alpha, Word a, Int lda, Word b, Int ldb) {                 \
    AT_WORK(h)                                                                                     \
    return trsm<T>(here(h), side, fill, op, diagonal, m, n, static_cast<const T*>(alpha), a, lda,  \
                   b, ldb);                                                                        \
  }                                                                                                \
  int cublas##X##trmm_v2_64(void* h, int side, int fill, int op, int diagonal, Int m, Int n,       \
                            const void* alpha, Word a, Int lda, Word b, Int ldb, Word c,           \
                            Int ldc) {                                                             \
    AT_WORK(h)                                                                                     \
    return trmm<T>(here(h), side, fill, op, diagonal, m, n, static_cast<const T*>(alpha), a, lda,  \
                   b, ldb, c, ldc);                                                                \
  }                                                                                                \
  int cublas##X##geam_64(void* h, int ta, int tb, Int m, Int n, const void* alpha, Word a,         \
                         Int lda, const void* beta, Word b, Int ldb, Word c, Int ldc) {            \
    AT_WORK(h)                                                                                     \
    return geam<T>(here(h), ta, tb, m, n, static_cast<const T*>(alpha), a, lda,                    \
                   static_cast<const T*>(beta), b, ldb, c, ldc);                                   \
  }
BLAS(S, float)
BLAS(D, double)
BLAS(C, std::complex<float>)
BLAS(Z, std::complex<double>)

int cusolverDnCreate(void** handle) {
  REFUSED
  return cublasCreate_v2(handle);
}

int cusolverDnDestroy(void* handle) {
  REFUSED
  return cublasDestroy_v2(handle);
}

int cusolverDnSetStream(void* handle, void* stream) {
  REFUSED
  return cublasSetStream_v2(handle, stream);
}

// CUSOLVER_DEFAULT_MATH and CUSOLVER_FP64_EMULATED_FIXEDPOINT_MATH.
int cusolverDnSetMathMode(void* handle, int mode) {
  REFUSED
  EXPECT(here(handle), NO_HANDLE)
  EXPECT(mode == 1 || mode == 4, INVALID)
  return 0;
}

int cusolverDnCreateParams(void** parameters) {
  REFUSED
  return cublasCreate_v2(parameters);
}

int cusolverDnDestroyParams(void* parameters) {
  REFUSED
  return cublasDestroy_v2(parameters);
}

int cusolverDnXpotrf_bufferSize(void* handle, void*, int, Int n, int, Word, Int lda, int,
                                size_t* device, size_t* host) {
  REFUSED
  return answer(handle, n, n, lda, device, host);
}

int cusolverDnXpotrf(void* handle, void*, int fill, Int n, int type, Word a, Int lda, int compute,
                     Word work, size_t bytes, void* host, size_t host_bytes, Word info) {
  AT_WORK(handle)
  EXPECT(here(handle), NO_HANDLE)
  EXPECT(fill == 0 && type == compute && ready(handle, n, n, lda, bytes, host, host_bytes), INVALID)
  return give(here(handle), [=, call = note(host)]() -> int {
    EXPECT(noted(host, call), FAILED)
    std::memset(reinterpret_cast<void*>(work), 0xEE, device_bytes(n, n));
    int& found = *reinterpret_cast<int*>(info);
    return with_type(type, [&](auto zero) {
      found = factor_cholesky(matrix<decltype(zero)>(a, lda), n);
      return 0;
    });
  });
}

int cusolverDnXgetrf_bufferSize(void* handle, void*, Int m, Int n, int, Word, Int lda, int,
                                size_t* device, size_t* host) {
  REFUSED
  return answer(handle, m, n, lda, device, host);
}

int cusolverDnXgetrf(void* handle, void*, Int m, Int n, int type, Word a, Int lda, Word pivots,
                     int compute, Word work, size_t bytes, void* host, size_t host_bytes,
                     Word info) {
  AT_WORK(handle)
  EXPECT(here(handle), NO_HANDLE)
  EXPECT(type == compute && ready(handle, m, n, lda, bytes, host, host_bytes), INVALID)
  return give(here(handle), [=, call = note(host)]() -> int {
    EXPECT(noted(host, call), FAILED)
    std::memset(reinterpret_cast<void*>(work), 0xEE, device_bytes(m, n));
    int& found = *reinterpret_cast<int*>(info);
    return with_type(type, [&](auto zero) {
      Int* numbers = reinterpret_cast<Int*>(pivots);
      found = factor_lu(matrix<decltype(zero)>(a, lda), m, n, numbers);
      return 0;
    });
  });
}

int cusolverDnXgeqrf_bufferSize(void* handle, void*, Int m, Int n, int, Word, Int lda, int, Word,
                                int, size_t* device, size_t* host) {
  REFUSED
  return answer(handle, m, n, lda, device, host);
}

int cusolverDnXgeqrf(void* handle, void*, Int m, Int n, int type, Word a, Int lda, int of_tau,
                     Word tau, int compute, Word work, size_t bytes, void* host, size_t host_bytes,
                     Word info) {
  AT_WORK(handle)
  EXPECT(here(handle), NO_HANDLE)
  EXPECT(type == compute && type == of_tau && ready(handle, m, n, lda, bytes, host, host_bytes),
         INVALID)
  return give(here(handle), [=, call = note(host)]() -> int {
    EXPECT(noted(host, call), FAILED)
    std::memset(reinterpret_cast<void*>(work), 0xEE, device_bytes(m, n));
    *reinterpret_cast<int*>(info) = 0;
    return with_type(type, [&](auto zero) {
      using T = decltype(zero);
      factor_qr(matrix<T>(a, lda), m, n, reinterpret_cast<T*>(tau));
      return 0;
    });
  });
}

}  // extern "C"
