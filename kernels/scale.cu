// A block of numbers multiplied by one, element by element; columns are `stride` elements apart.

#include "common.cuh"

template <typename T>
struct Complex {
  T real, imaginary;
};

__device__ inline float multiply(float x, float y) { return x * y; }
__device__ inline double multiply(double x, double y) { return x * y; }
template <typename T>
__device__ inline Complex<T> multiply(Complex<T> x, Complex<T> y) {
  return {x.real * y.real - x.imaginary * y.imaginary, x.real * y.imaginary + x.imaginary * y.real};
}

template <typename T>
__device__ void scale(T* x, Size stride, Size rows, Size cols, T by) {
  for (Size j = blockIdx.x; j < cols; j += gridDim.x) {
    T* column = x + j * stride;
    for (Size i = threadIdx.x; i < rows; i += THREADS) column[i] = multiply(column[i], by);
  }
}

KERNEL scale_f32(float* x, Size stride, Size rows, Size cols, float by) {
  scale(x, stride, rows, cols, by);
}
KERNEL scale_f64(double* x, Size stride, Size rows, Size cols, double by) {
  scale(x, stride, rows, cols, by);
}
KERNEL scale_c64(Complex<float>* x, Size stride, Size rows, Size cols, float real,
                 float imaginary) {
  scale(x, stride, rows, cols, {real, imaginary});
}
KERNEL scale_c128(Complex<double>* x, Size stride, Size rows, Size cols, double real,
                  double imaginary) {
  scale(x, stride, rows, cols, {real, imaginary});
}
