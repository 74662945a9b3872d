// Out-of-place copy: the baseline for all shares of a copy. It also saves and restores contiguous
// pieces. `copy_16` is the baseline; the others are for addresses of smaller alignment.

#include "common.cuh"

// Elements that a thread loads at once.
constexpr int AT_ONCE = 4;

template <int S>
__device__ void copy(Element<S>* __restrict__ to, const Element<S>* __restrict__ from, Size count) {
  const Size step = thread_count();
  Size i = thread_index();
  for (; i + (AT_ONCE - 1) * step < count; i += AT_ONCE * step) {
    Element<S> kept[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) kept[k] = from[i + k * step];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) to[i + k * step] = kept[k];
  }
  for (; i < count; i += step) to[i] = from[i];
}

#define ENTRY(S) \
  KERNEL copy_##S(Element<S>* to, const Element<S>* from, Size count) { copy<S>(to, from, count); }
EACH_SIZE(ENTRY)
