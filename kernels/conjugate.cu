// The conjugate of a block of complex numbers, in its place or at another. Columns are `to_stride`
// and `from_stride` elements apart.

#include "bits.cuh"

template <int S>
__device__ void conjugate(Element<S>* to, Size to_stride, const Element<S>* from, Size from_stride,
                          Size rows, Size cols) {
  for (Size j = blockIdx.x; j < cols; j += gridDim.x) {
    const Element<S>* source = from + j * from_stride;
    Element<S>* target = to + j * to_stride;
    for (Size i = threadIdx.x; i < rows; i += THREADS) {
      target[i] = ComplexBits<S>::conjugate(source[i]);
    }
  }
}

#define ENTRY(S)                                                                                 \
  KERNEL conjugate_##S(Element<S>* to, Size to_stride, const Element<S>* from, Size from_stride, \
                       Size rows, Size cols) {                                                   \
    conjugate<S>(to, to_stride, from, from_stride, rows, cols);                                  \
  }
EACH_SIZE(ENTRY)
