// Fills a block with one value. Columns are `stride` elements apart, and the elements between them
// keep their values.

#include "common.cuh"

template <int S>
__device__ void fill(Element<S>* block, Size stride, Size rows, Size cols, Element<S> value) {
  for (Size j = blockIdx.x; j < cols; j += gridDim.x) {
    for (Size i = threadIdx.x; i < rows; i += THREADS) block[j * stride + i] = value;
  }
}

#define ENTRY(S)                                                                            \
  KERNEL fill_##S(Element<S>* block, Size stride, Size rows, Size cols, Element<S> value) { \
    fill<S>(block, stride, rows, cols, value);                                              \
  }
EACH_SIZE(ENTRY)
