// The phase `Tiles` of a plan for squares: pairs of tiles change places across the diagonal. One
// pass, no scratch. Its own inverse.

#include "tiles.cuh"

// n x n, rows `stride` elements apart.
template <int S>
__device__ void transpose_square(PairOfTiles<S>& tiles, Element<S>* data, Size n, Size stride) {
  constexpr Size SIDE = Tile<S>::SIDE;
  const Triangle triangle = {ceil_div(n, SIDE)};
  for (Size number = blockIdx.x; number < triangle.count(); number += gridDim.x) {
    Size i, j;
    triangle.pair(number, i, j);
    i *= SIDE, j *= SIDE;
    Element<S>*x = data + i * stride + j, *y = data + j * stride + i;
    exchange<S>(tiles, {x, y, stride, int(smaller(SIDE, n - i)), int(smaller(SIDE, n - j))});
  }
}

// A matrix with order / parts rows in each of `parts` parts, at the addresses in `part`. They are
// the shards of a matrix, also those of other devices within reach. A tile is within one part. Each
// device exchanges its own pairs, from `first` to `end`.
template <int S>
__device__ void transpose_shards(PairOfTiles<S>& tiles, Element<S>* const* part, Size parts,
                                 Size order, Size first, Size end) {
  constexpr Size SIDE = Tile<S>::SIDE;
  const Size height = order / parts, pieces = ceil_div(height, SIDE);
  const Triangle triangle = {parts * pieces};
  for (Size number = first + blockIdx.x; number < end; number += gridDim.x) {
    Size i, j;
    triangle.pair(number, i, j);
    const Size above = i / pieces, row = i % pieces * SIDE;
    const Size left = j / pieces, column = j % pieces * SIDE;
    Element<S>* x = part[above] + row * order + left * height + column;
    Element<S>* y = part[left] + column * order + above * height + row;
    exchange<S>(tiles, {x, y, order, int(smaller(SIDE, height - row)),
                        int(smaller(SIDE, height - column))});
  }
}

#define ENTRY(S)                                                                           \
  KERNEL transpose_square_##S(Element<S>* data, Size n, Size stride) {                     \
    SHARED(PairOfTiles<S>, tiles);                                                         \
    transpose_square<S>(tiles, data, n, stride);                                           \
  }                                                                                        \
  KERNEL transpose_shards_##S(Element<S>* const* part, Size parts, Size order, Size first, \
                              Size end) {                                                  \
    SHARED(PairOfTiles<S>, tiles);                                                         \
    transpose_shards<S>(tiles, part, parts, order, first, end);                            \
  }
EACH_SIZE(ENTRY)
