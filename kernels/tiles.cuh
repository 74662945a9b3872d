// Tiles transposed through shared memory. A tile is 256 bytes wide, so reads and writes are whole
// lines on both sides. A row of padding keeps a column of a tile in different banks.
#ifndef MESHSOLVE_TILES_CUH
#define MESHSOLVE_TILES_CUH

#include "common.cuh"

template <int S>
struct Tile {
  static constexpr int SIDE = 256 / S;
  Element<S> at[SIDE][SIDE + 1];
};

// Calls visit(row, column) for this thread's part of a tile with at most SIDE rows and columns.
// Neighbours have neighbouring columns, or pieces of WIDTH columns, all of them whole.
template <int S, int WIDTH = 1, typename Visit>
__device__ inline void visit_tile(int rows, int columns, Visit visit) {
  constexpr int SIDE = Tile<S>::SIDE, ACROSS = SIDE / WIDTH, STEP = THREADS / ACROSS;
  static_assert(THREADS % ACROSS == 0 && SIDE % STEP == 0, "whole rows of a tile at a time");
  const int column = threadIdx.x % ACROSS * WIDTH, first = threadIdx.x / ACROSS;
#pragma unroll 8
  for (int k = 0; k < SIDE; k += STEP) {
    if (first + k < rows && column < columns) visit(first + k, column);
  }
}

// WIDTH adjacent elements, one or 16 bytes of them, by one access of the device's memory. `load`
// puts them next to each other in a row of a tile, `store` takes them from one column. The compiler
// splits a plain store of 16 bytes from several places into several stores. Hence __stwb, which is
// otherwise an ordinary store.
template <int S, int WIDTH>
struct Access {
  static_assert(WIDTH == 1, "16 bytes of smaller elements are below");
  static __device__ void load(Element<S>* row, const Element<S>* from) { *row = *from; }
  static __device__ void store(Element<S>* to, const Element<S>* below) { *to = *below; }
};
template <>
struct Access<4, 4> {
  static __device__ void load(unsigned* row, const unsigned* from) {
    const uint4 all = *reinterpret_cast<const uint4*>(from);
    row[0] = all.x, row[1] = all.y, row[2] = all.z, row[3] = all.w;
  }
  static __device__ void store(unsigned* to, const unsigned* below) {
    constexpr int ROW = Tile<4>::SIDE + 1;
    const uint4 all = {below[0], below[ROW], below[2 * ROW], below[3 * ROW]};
    __stwb(reinterpret_cast<uint4*>(to), all);
  }
};
template <>
struct Access<8, 2> {
  static __device__ void load(uint2* row, const uint2* from) {
    const uint4 all = *reinterpret_cast<const uint4*>(from);
    row[0] = uint2{all.x, all.y}, row[1] = uint2{all.z, all.w};
  }
  static __device__ void store(uint2* to, const uint2* below) {
    const uint2 first = below[0], second = below[Tile<8>::SIDE + 1];
    __stwb(reinterpret_cast<uint4*>(to), uint4{first.x, first.y, second.x, second.y});
  }
};

// Whether the bitwise or of addresses and bytes is a multiple of 16.
__device__ inline bool is_aligned(Size bits) { return bits % 16 == 0; }
__device__ inline Size bits_of(const void* at) { return reinterpret_cast<Size>(at); }

// Elements of one access where all addresses and lengths are multiples of 16 bytes.
template <int S>
constexpr int WIDE = 16 / S;

// Two blocks of an array with rows `stride` elements apart: `x` is rows x columns and `y`
// columns x rows. They are the same or do not overlap.
template <int S>
struct Pair {
  Element<S>* x;
  Element<S>* y;
  Size stride;
  int rows, columns;

  // Whether every line begins and ends at a multiple of 16 bytes.
  __device__ bool is_wide() const {
    return is_aligned(bits_of(x) | bits_of(y) | (stride | Size(rows) | Size(columns)) * S);
  }
};

template <int S>
struct PairOfTiles {
  Tile<S> x, y;
};

template <int S, int WIDTH>
__device__ void exchange_by(PairOfTiles<S>& tiles, const Pair<S>& pair) {
  using By = Access<S, WIDTH>;
  const Size stride = pair.stride;
  const bool two = pair.x != pair.y;
  visit_tile<S, WIDTH>(pair.rows, pair.columns,
                       [&](int i, int j) { By::load(&tiles.x.at[i][j], pair.x + i * stride + j); });
  if (two) {
    visit_tile<S, WIDTH>(pair.columns, pair.rows, [&](int i, int j) {
      By::load(&tiles.y.at[i][j], pair.y + i * stride + j);
    });
  }
  __syncthreads();
  visit_tile<S, WIDTH>(pair.columns, pair.rows, [&](int i, int j) {
    By::store(pair.y + i * stride + j, &tiles.x.at[j][i]);
  });
  if (two) {
    visit_tile<S, WIDTH>(pair.rows, pair.columns, [&](int i, int j) {
      By::store(pair.x + i * stride + j, &tiles.y.at[j][i]);
    });
  }
  __syncthreads();
}

// Exchanges the two blocks, transposed.
template <int S>
__device__ void exchange(PairOfTiles<S>& tiles, const Pair<S>& pair) {
  if (WIDE<S> > 1 && pair.is_wide()) {
    exchange_by<S, WIDE<S>>(tiles, pair);
  } else {
    exchange_by<S, 1>(tiles, pair);
  }
}

// The pairs (i, j), j <= i, of `tiles` tile rows as a rectangle: tiles + 1 rows if `tiles` is even,
// else `tiles`. Next to a row of the lower triangle is one that the rectangle cuts off, upside
// down.
struct Triangle {
  Size tiles;

  __device__ Size count() const { return tiles * (tiles + 1) / 2; }

  __device__ void pair(Size number, Size& i, Size& j) const {
    const Size width = (tiles + 1) / 2, even = tiles % 2 == 0;
    const Size row = number / width, column = number % width;
    const bool within = column + even <= row;
    i = within ? row - even : tiles - 1 - row;
    j = within ? column : tiles - even - column;
  }
};

#endif
