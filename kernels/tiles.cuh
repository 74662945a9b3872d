// Tiles transposed by way of shared memory. A tile is 256 bytes wide, so that whole lines are read
// and written on both sides; a row of padding keeps a column of a tile in different banks.
#ifndef MESHSOLVE_TILES_CUH
#define MESHSOLVE_TILES_CUH

#include "common.cuh"

template <int S>
struct Tile {
  static constexpr int SIDE = 256 / S;
  Element<S> at[SIDE][SIDE + 1];
};

// Calls visit(row, column) for this thread's part of a tile with at most SIDE rows and columns;
// neighbours have neighbouring columns.
template <int S, typename Visit>
__device__ inline void visit_tile(int rows, int columns, Visit visit) {
  constexpr int SIDE = Tile<S>::SIDE, STEP = THREADS / SIDE;
  static_assert(THREADS % SIDE == 0 && SIDE % STEP == 0, "whole rows of a tile at a time");
  const int column = threadIdx.x % SIDE, first = threadIdx.x / SIDE;
#pragma unroll 8
  for (int k = 0; k < SIDE; k += STEP) {
    if (first + k < rows && column < columns) visit(first + k, column);
  }
}

// Two places in an array of rows `stride` elements apart: `x` is rows x columns and `y` columns x
// rows. They are the same or do not overlap.
template <int S>
struct Pair {
  Element<S>* x;
  Element<S>* y;
  Size stride;
  int rows, columns;
};

template <int S>
struct PairOfTiles {
  Tile<S> x, y;
};

// The tiles at both places change places, transposed.
template <int S>
__device__ void exchange(PairOfTiles<S>& tiles, const Pair<S>& pair) {
  const Size stride = pair.stride;
  const bool two = pair.x != pair.y;
  visit_tile<S>(pair.rows, pair.columns,
                [&](int i, int j) { tiles.x.at[i][j] = pair.x[i * stride + j]; });
  if (two) {
    visit_tile<S>(pair.columns, pair.rows,
                  [&](int i, int j) { tiles.y.at[i][j] = pair.y[i * stride + j]; });
  }
  __syncthreads();
  visit_tile<S>(pair.columns, pair.rows,
                [&](int i, int j) { pair.y[i * stride + j] = tiles.x.at[j][i]; });
  if (two) {
    visit_tile<S>(pair.rows, pair.columns,
                  [&](int i, int j) { pair.x[i * stride + j] = tiles.y.at[j][i]; });
  }
  __syncthreads();
}

// The pairs (i, j), j <= i, of `tiles` things as a rectangle of tiles + 1 rows if their number is
// even, else of as many: beside a row of the lower triangle lies one of what the rectangle cuts
// off, upside down.
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
