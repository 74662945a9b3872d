// Triangles of a matrix, columns `stride` elements apart: one made from the other, zeros outside.

#include "bits.cuh"
#include "tiles.cuh"

// The part of a block that is touched.
enum Part { WHOLE, LOWER, UPPER };

__device__ inline bool within(int part, Size i, Size j) {
  return part == WHOLE || (part == LOWER ? i >= j : i <= j);
}

// to(i, j) <- from(j, i) for i < rows and j < cols within `part`. If `conjugated`, it takes the
// conjugate, and a diagonal that is the edge of a part becomes real. It touches only elements
// within the part, so both may be the triangles of one block.
template <int S>
__device__ void mirror(Tile<S>& tile, Element<S>* to, Size to_stride, const Element<S>* from,
                       Size from_stride, Size rows, Size cols, int part, bool conjugated) {
  constexpr Size SIDE = Tile<S>::SIDE;
  const Size down = ceil_div(rows, SIDE), across = ceil_div(cols, SIDE);
  for (Size unit = blockIdx.x; unit < down * across; unit += gridDim.x) {
    const Size top = unit % down * SIDE, left = unit / down * SIDE;
    const int height = int(smaller(SIDE, rows - top)), width = int(smaller(SIDE, cols - left));
    visit_tile<S>(height, width, [&](int i, int j) {
      if (within(part, top + i, left + j)) {
        tile.at[i][j] = from[(top + i) * from_stride + left + j];
      }
    });
    __syncthreads();
    visit_tile<S>(width, height, [&](int j, int i) {
      if (!within(part, top + i, left + j)) return;
      Element<S> x = tile.at[i][j];
      if (conjugated) {
        const bool edge = part != WHOLE && top + i == left + j;
        x = edge ? ComplexBits<S>::real(x) : ComplexBits<S>::conjugate(x);
      }
      to[(left + j) * to_stride + top + i] = x;
    });
    __syncthreads();
  }
}

// Zeros outside a triangle with its diagonal.
template <int S>
__device__ void clear_outside(Element<S>* a, Size stride, Size rows, Size cols, bool lower) {
  for (Size j = blockIdx.x; j < cols; j += gridDim.x) {
    const Size first = lower ? 0 : j + 1, end = lower ? smaller(rows, j) : rows;
    for (Size i = first + threadIdx.x; i < end; i += THREADS) a[j * stride + i] = Element<S>{};
  }
}

#define ENTRY(S)                                                                              \
  KERNEL mirror_##S(Element<S>* to, Size to_stride, const Element<S>* from, Size from_stride, \
                    Size rows, Size cols, int part, int conjugated) {                         \
    SHARED(Tile<S>, tile);                                                                    \
    mirror<S>(tile, to, to_stride, from, from_stride, rows, cols, part, conjugated != 0);     \
  }                                                                                           \
  KERNEL clear_outside_##S(Element<S>* a, Size stride, Size rows, Size cols, int lower) {     \
    clear_outside<S>(a, stride, rows, cols, lower != 0);                                      \
  }
EACH_SIZE(ENTRY)
