// Sums of moduli for 1-norms, in double for entries of any dtype. Columns are `stride` elements
// apart.
//
// One block adds the sum of a column, and one thread the sum of a row. The order does not depend on
// the grid: every run gives the same bits.

#include "common.cuh"

template <typename T>
struct Complex {
  T real, imaginary;
};

__device__ inline double size_of_parts(float x) { return fabs(double(x)); }
__device__ inline double size_of_parts(double x) { return fabs(x); }
template <typename T>
__device__ inline double size_of_parts(Complex<T> x) {
  return fabs(double(x.real)) + fabs(double(x.imaginary));
}

__device__ inline double modulus(float x) { return fabs(double(x)); }
__device__ inline double modulus(double x) { return fabs(x); }
template <typename T>
__device__ inline double modulus(Complex<T> x) {
  return hypot(double(x.real), double(x.imaginary));
}

__device__ inline double real_size(float x) { return fabs(double(x)); }
__device__ inline double real_size(double x) { return fabs(x); }
template <typename T>
__device__ inline double real_size(Complex<T> x) {
  return fabs(double(x.real));
}

struct Found {
  double sum[THREADS], largest[THREADS];
};

// The mode of the sums of columns.
enum How { SET, HERMITIAN, ADDED };

// Writes the sum of column j to sums[j] and its largest |Re| + |Im|, without NaN entries, to
// largest[j]; or adds the sum to sums[j]. Columns of a Hermitian matrix begin with the diagonal
// entry, which is real. Then the sum is over the entries on and below the diagonal.
template <typename T>
__device__ void column_moduli(Found& found, const T* x, Size stride, Size rows, Size cols, int how,
                              double* sums, double* largest) {
  const bool hermitian = how == HERMITIAN;
  for (Size j = blockIdx.x; j < cols; j += gridDim.x) {
    const T* column = x + j * stride;
    double sum = 0, most = 0;
    for (Size i = (hermitian ? j : 0) + threadIdx.x; i < rows; i += THREADS) {
      sum += hermitian && i == j ? real_size(column[i]) : modulus(column[i]);
      const double size = size_of_parts(column[i]);
      if (size > most) most = size;
    }
    found.sum[threadIdx.x] = sum, found.largest[threadIdx.x] = most;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
      const int other = threadIdx.x + half;
      if (int(threadIdx.x) < half) {
        found.sum[threadIdx.x] += found.sum[other];
        const double size = found.largest[other];
        if (size > found.largest[threadIdx.x]) found.largest[threadIdx.x] = size;
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      sums[j] = how == SET ? found.sum[0] : sums[j] + found.sum[0];
      if (how == SET) largest[j] = found.largest[0];
    }
    __syncthreads();
  }
}

// Adds the sum of row i to sums[i]; for a Hermitian matrix, only the entries below the diagonal.
template <typename T>
__device__ void row_moduli(const T* x, Size stride, Size rows, Size cols, bool hermitian,
                           double* sums) {
  for (Size i = thread_index(); i < rows; i += thread_count()) {
    const Size end = hermitian ? smaller(i, cols) : cols;
    double sum = 0;
    for (Size j = 0; j < end; j++) sum += modulus(x[j * stride + i]);
    sums[i] += sum;
  }
}

// Squares of numbers of three sizes, small ones times 2^1200 and large ones times 2^-1200
// (`src/device/squares.rs`).
struct Squares {
  double small, medium, large;
};
constexpr double SMALL = 1e-140, LARGE = 1e140;

__device__ inline double scale_up(double x) { return ldexp(x, 600); }
__device__ inline double scale_down(double x) { return ldexp(x, -600); }

__device__ inline void raise(Squares& all, double x) {
  const double size = fabs(x);
  if (size >= LARGE) {
    all.large += scale_down(x) * scale_down(x);
  } else if (size < SMALL) {
    all.small += scale_up(x) * scale_up(x);
  } else {
    all.medium += x * x;
  }
}

// squares[j] <- the squares of column j.
template <typename T>
__device__ void column_squares(Squares* held, const T* x, Size stride, Size rows, Size cols,
                               Squares* squares) {
  for (Size j = blockIdx.x; j < cols; j += gridDim.x) {
    Squares own = {0, 0, 0};
    for (Size i = threadIdx.x; i < rows; i += THREADS) raise(own, double(x[j * stride + i]));
    held[threadIdx.x] = own;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
      if (int(threadIdx.x) < half) {
        const Squares other = held[threadIdx.x + half];
        held[threadIdx.x].small += other.small;
        held[threadIdx.x].medium += other.medium;
        held[threadIdx.x].large += other.large;
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) squares[j] = held[0];
    __syncthreads();
  }
}

struct AllSquares {
  Squares of[THREADS];
};

KERNEL column_squares_f32(const float* x, Size stride, Size rows, Size cols, Squares* squares) {
  SHARED(AllSquares, held);
  column_squares(held.of, x, stride, rows, cols, squares);
}
KERNEL column_squares_f64(const double* x, Size stride, Size rows, Size cols, Squares* squares) {
  SHARED(AllSquares, held);
  column_squares(held.of, x, stride, rows, cols, squares);
}
KERNEL column_moduli_f32(const float* x, Size stride, Size rows, Size cols, int how, double* sums,
                         double* largest) {
  SHARED(Found, found);
  column_moduli(found, x, stride, rows, cols, how, sums, largest);
}
KERNEL row_moduli_f32(const float* x, Size stride, Size rows, Size cols, int hermitian,
                      double* sums) {
  row_moduli(x, stride, rows, cols, hermitian != 0, sums);
}
KERNEL column_moduli_f64(const double* x, Size stride, Size rows, Size cols, int how, double* sums,
                         double* largest) {
  SHARED(Found, found);
  column_moduli(found, x, stride, rows, cols, how, sums, largest);
}
KERNEL row_moduli_f64(const double* x, Size stride, Size rows, Size cols, int hermitian,
                      double* sums) {
  row_moduli(x, stride, rows, cols, hermitian != 0, sums);
}
KERNEL column_moduli_c64(const Complex<float>* x, Size stride, Size rows, Size cols, int how,
                         double* sums, double* largest) {
  SHARED(Found, found);
  column_moduli(found, x, stride, rows, cols, how, sums, largest);
}
KERNEL row_moduli_c64(const Complex<float>* x, Size stride, Size rows, Size cols, int hermitian,
                      double* sums) {
  row_moduli(x, stride, rows, cols, hermitian != 0, sums);
}
KERNEL column_moduli_c128(const Complex<double>* x, Size stride, Size rows, Size cols, int how,
                          double* sums, double* largest) {
  SHARED(Found, found);
  column_moduli(found, x, stride, rows, cols, how, sums, largest);
}
KERNEL row_moduli_c128(const Complex<double>* x, Size stride, Size rows, Size cols, int hermitian,
                       double* sums) {
  row_moduli(x, stride, rows, cols, hermitian != 0, sums);
}
