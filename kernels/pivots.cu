// Work after factorisations of tiles and panels: the library's numbers of pivots, and pivots that
// are not finite.

#include "common.cuh"

template <typename T>
struct Complex {
  T real, imaginary;
};

// to[i] <- from[i] - 1 + first: from numbers of a panel's rows from 1 to those of the matrix. A
// number of no remaining row, as from a panel of NaN, becomes that of its own row.
KERNEL number_pivots(int* to, const long long* from, Size count, int first, Size rows) {
  for (Size i = thread_index(); i < count; i += thread_count()) {
    const long long pivot = from[i] - 1;
    const bool there = (long long)i <= pivot && pivot < (long long)rows;
    to[i] = int(there ? pivot : (long long)i) + first;
  }
}

__device__ inline bool is_finite(float x) { return x - x == 0; }
__device__ inline bool is_finite(double x) { return x - x == 0; }
template <typename T>
__device__ inline bool is_finite(Complex<T> x) {
  return is_finite(x.real) && is_finite(x.imaginary);
}

// Added to the number of a pivot that is not finite.
constexpr int NOT_FINITE = 1 << 30;

// `info` becomes the number, from 1, of the first diagonal entry that is not finite, if there is
// one, with `NOT_FINITE`. It keeps smaller positive values, and negative ones.
template <typename T>
__device__ void find_no_number(int* least, const T* a, Size stride, Size order, int* info) {
  int found = int(order);
  for (Size i = threadIdx.x; i < order && found == int(order); i += THREADS) {
    if (!is_finite(a[i * (stride + 1)])) found = int(i);
  }
  least[threadIdx.x] = found;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < THREADS; i++) found = smaller(found, least[i]);
  if (found < int(order) && (*info == 0 || found < *info)) *info = (found + 1) | NOT_FINITE;
}

struct Least {
  int of[THREADS];
};

KERNEL find_no_number_f32(const float* a, Size stride, Size order, int* info) {
  SHARED(Least, least);
  find_no_number(least.of, a, stride, order, info);
}
KERNEL find_no_number_f64(const double* a, Size stride, Size order, int* info) {
  SHARED(Least, least);
  find_no_number(least.of, a, stride, order, info);
}
KERNEL find_no_number_c64(const Complex<float>* a, Size stride, Size order, int* info) {
  SHARED(Least, least);
  find_no_number(least.of, a, stride, order, info);
}
KERNEL find_no_number_c128(const Complex<double>* a, Size stride, Size order, int* info) {
  SHARED(Least, least);
  find_no_number(least.of, a, stride, order, info);
}
