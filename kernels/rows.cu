// Row interchanges of partial pivoting, applied to the columns of a block: rows first + i and
// pivots[i] change places for all i, one after the other, ascending or, if `back`, descending.
//
// One after the other would be one access waiting for another. So every block first finds out, with
// numbers instead of elements, which row ends up where; then all elements of a column move at once.
// A slot is a row that is touched: `count` of them from `first` on, and one for each pivot
// elsewhere. The same pivot may come several times: its first one has the slot.

#include "common.cuh"

// Interchanges of one launch, at most.
constexpr int MOST = 128;
constexpr int SLOTS = 2 * MOST;

struct Moves {
  // The row of a slot, and the row whose elements it takes.
  int row[SLOTS], source[SLOTS];
  // The slot that changes places with slot i.
  int partner[MOST];
  // Which slot's elements are in a slot.
  int holds[SLOTS];
};

__device__ inline void find_moves(Moves& moves, int first, const int* pivots, int count,
                                  bool back) {
  for (int i = threadIdx.x; i < count; i += THREADS) {
    const int pivot = pivots[i], above = pivot - first;
    int same = 0;
    while (pivots[same] != pivot) same++;
    moves.partner[i] = 0 <= above && above < count ? above : count + same;
    moves.row[i] = first + i, moves.row[count + i] = pivot;
    moves.holds[i] = i, moves.holds[count + i] = count + i;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 0; k < count; k++) {
      const int i = back ? count - 1 - k : k, p = moves.partner[i];
      const int held = moves.holds[i];
      moves.holds[i] = moves.holds[p];
      moves.holds[p] = held;
    }
  }
  __syncthreads();
  for (int s = threadIdx.x; s < 2 * count; s += THREADS) {
    moves.source[s] = moves.row[moves.holds[s]];
  }
  __syncthreads();
}

// Element (i, j) of the block is x[i * row_stride + j * col_stride]. A warp has a column.
template <int S>
__device__ void swap_rows(Moves& moves, Element<S>* x, Size row_stride, Size col_stride, Size cols,
                          int first, const int* pivots, int count, bool back) {
  constexpr int KEPT = SLOTS / WARP;
  find_moves(moves, first, pivots, count, back);
  for (Size j = warp_index(); j < cols; j += warp_count()) {
    Element<S>* column = x + j * col_stride;
    Element<S> kept[KEPT];
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
      const int s = k * WARP + lane_index();
      if (s < 2 * count) kept[k] = column[moves.source[s] * row_stride];
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
      const int s = k * WARP + lane_index();
      if (s < 2 * count && moves.source[s] != moves.row[s]) {
        column[moves.row[s] * row_stride] = kept[k];
      }
    }
    __syncwarp();
  }
}

// `count` is MOST at most: more are several launches.
#define ENTRY(S)                                                                              \
  KERNEL swap_rows_##S(Element<S>* x, Size row_stride, Size col_stride, Size cols, int first, \
                       const int* pivots, int count, int back) {                              \
    SHARED(Moves, moves);                                                                     \
    swap_rows<S>(moves, x, row_stride, col_stride, cols, first, pivots, count, back != 0);    \
  }
EACH_SIZE(ENTRY)
