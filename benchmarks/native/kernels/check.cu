// Arrays for measurements: every element encodes its index, so that a check needs no second array.

#include "common.cuh"

// The words of element `number`.
template <int S>
__device__ Element<S> numbered(Size number) {
  union {
    Element<S> element;
    unsigned word[S / 4];
  } x;
#pragma unroll
  for (int k = 0; k < S / 4; k++) {
    x.word[k] = unsigned(number >> 32 * (k % 2)) * 2654435761u + unsigned(k) * 40503u;
  }
  return x.element;
}

template <int S>
__device__ bool same(Element<S> x, Element<S> y) {
  union {
    Element<S> element;
    unsigned word[S / 4];
  } p = {x}, q = {y};
  bool all = true;
#pragma unroll
  for (int k = 0; k < S / 4; k++) all = all && p.word[k] == q.word[k];
  return all;
}

// Sets *wrong where element (j, i) of the cols x rows transpose is not the original element (i, j).
template <int S>
__device__ void check(const Element<S>* data, Size rows, Size cols, unsigned* wrong) {
  for (Size k = thread_index(); k < rows * cols; k += thread_count()) {
    const Size number = k % rows * cols + k / rows;
    if (!same<S>(data[k], numbered<S>(number))) atomicOr(wrong, 1u);
  }
}

#define ENTRY(S)                                                                            \
  KERNEL number_##S(Element<S>* data, Size count) {                                         \
    for (Size k = thread_index(); k < count; k += thread_count()) data[k] = numbered<S>(k); \
  }                                                                                         \
  KERNEL check_##S(const Element<S>* data, Size rows, Size cols, unsigned* wrong) {         \
    check<S>(data, rows, cols, wrong);                                                      \
  }
EACH_SIZE(ENTRY)
