// The two phases of a plan by blocks. `Tiles` transposes the d x d blocks in place. Then `Segments`
// moves their rows, contiguous segments, from the order (i, j, k) to (k, j, i), where i < down,
// j < side, k < across. The inverse has down and across exchanged.

#include "pieces.cuh"
#include "tiles.cuh"

// down x across blocks, side x side each.
template <int S>
__device__ void transpose_blocks(PairOfTiles<S>& tiles, Element<S>* data, Size down, Size across,
                                 Size side) {
  constexpr Size SIDE = Tile<S>::SIDE;
  const Triangle triangle = {ceil_div(side, SIDE)};
  const Size pairs = triangle.count(), stride = across * side;
  for (Size unit = blockIdx.x; unit < down * across * pairs; unit += gridDim.x) {
    const Size block = unit / pairs;
    Size i, j;
    triangle.pair(unit % pairs, i, j);
    i *= SIDE, j *= SIDE;
    Element<S>* base = data + (block / across) * side * stride + (block % across) * side;
    Element<S>*x = base + i * stride + j, *y = base + j * stride + i;
    exchange<S>(tiles, {x, y, stride, int(smaller(SIDE, side - i)), int(smaller(SIDE, side - j))});
  }
}

struct Segments {
  Size down, across, side, length;

  __device__ Size target(Size h) const {
    const Size k = h % across, ij = h / across, j = ij % side, i = ij / side;
    return (k * side + j) * down + i;
  }
  __device__ Size at(Size h) const { return h * length; }
};

// `length` counts elements of S bytes in a segment. The widest to which segments and array are
// aligned are the fastest, also where `side` counts smaller ones. `bits` as for move_pieces.
#define ENTRY(S)                                                                             \
  KERNEL transpose_blocks_##S(Element<S>* data, Size down, Size across, Size side) {         \
    SHARED(PairOfTiles<S>, tiles);                                                           \
    transpose_blocks<S>(tiles, data, down, across, side);                                    \
  }                                                                                          \
  KERNEL move_segments_##S(Element<S>* data, Size down, Size across, Size side, Size length, \
                           unsigned* bits) {                                                 \
    const Segments segments = {down, across, side, length};                                  \
    SHARED(Buffers<S>, buffers);                                                             \
    move_pieces<S>(buffers, segments, down * side * across, length, data, bits);             \
  }
EACH_SIZE(ENTRY)
