// Sums of moduli for 1-norms, in double whatever the entries are; columns are `stride` elements
// apart.
//
// Each sum is one block's (of a column) or one thread's (of a row), in an order that does not
// depend on the grid: the same bits in every run.

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

// sums[j] <- the sum of column j and largest[j] <- its largest |Re| + |Im|, NaN passed over. Of a
// Hermitian matrix, whose columns begin with an entry on the diagonal each, sums[j] is raised by
// what lies on and below the diagonal, the former being real.
template <typename T>
__device__ void column_moduli(Found& found, const T* x, Size stride, Size rows, Size cols,
                              bool hermitian, double* sums, double* largest) {
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
      sums[j] = hermitian ? sums[j] + found.sum[0] : found.sum[0];
      if (!hermitian) largest[j] = found.largest[0];
    }
    __syncthreads();
  }
}

// sums[i] is raised by the sum of row i, of a Hermitian matrix by what lies below the diagonal.
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

KERNEL column_moduli_f32(const float* x, Size stride, Size rows, Size cols, int hermitian,
                         double* sums, double* largest) {
  SHARED(Found, found);
  column_moduli(found, x, stride, rows, cols, hermitian != 0, sums, largest);
}
KERNEL row_moduli_f32(const float* x, Size stride, Size rows, Size cols, int hermitian,
                      double* sums) {
  row_moduli(x, stride, rows, cols, hermitian != 0, sums);
}
KERNEL column_moduli_f64(const double* x, Size stride, Size rows, Size cols, int hermitian,
                         double* sums, double* largest) {
  SHARED(Found, found);
  column_moduli(found, x, stride, rows, cols, hermitian != 0, sums, largest);
}
KERNEL row_moduli_f64(const double* x, Size stride, Size rows, Size cols, int hermitian,
                      double* sums) {
  row_moduli(x, stride, rows, cols, hermitian != 0, sums);
}
KERNEL column_moduli_c64(const Complex<float>* x, Size stride, Size rows, Size cols, int hermitian,
                         double* sums, double* largest) {
  SHARED(Found, found);
  column_moduli(found, x, stride, rows, cols, hermitian != 0, sums, largest);
}
KERNEL row_moduli_c64(const Complex<float>* x, Size stride, Size rows, Size cols, int hermitian,
                      double* sums) {
  row_moduli(x, stride, rows, cols, hermitian != 0, sums);
}
KERNEL column_moduli_c128(const Complex<double>* x, Size stride, Size rows, Size cols,
                          int hermitian, double* sums, double* largest) {
  SHARED(Found, found);
  column_moduli(found, x, stride, rows, cols, hermitian != 0, sums, largest);
}
KERNEL row_moduli_c128(const Complex<double>* x, Size stride, Size rows, Size cols, int hermitian,
                       double* sums) {
  row_moduli(x, stride, rows, cols, hermitian != 0, sums);
}
