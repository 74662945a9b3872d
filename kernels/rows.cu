// Row interchanges of partial pivoting, applied to the columns of a block. Rows first + i and
// pivots[i] change places for all i, one after the other: ascending, or descending if `back`.
//
// In this order each access would wait for the one before. So find_moves finds once, with numbers
// instead of elements, the final place of each row. Then permute_rows moves all elements of a
// column at once, for as many blocks as have the same interchanges. A slot is a row that moves:
// `count` of them from `first` on, and one for each other pivot. A pivot may occur several times.
// Its first occurrence has the slot; the others name the row as its own source.

#include "common.cuh"

// The most interchanges of one search for moves.
constexpr int MOST = 1024;
constexpr int SLOTS = 2 * MOST;

struct Interchanges {
  int pivot[MOST];
  // The slot that changes places with slot i.
  int partner[MOST];
  // The slot of the elements in each slot.
  int holds[SLOTS];
};

__device__ inline int row_of(const Interchanges& all, int first, int count, int slot) {
  return slot < count ? first + slot : all.pivot[slot - count];
}

// For 2 * count slots: their rows, then the rows from which they take elements. `count` is at most
// MOST. One block does the work.
KERNEL find_moves(int* moves, int first, const int* pivots, int count, int back) {
  SHARED(Interchanges, all);
  if (blockIdx.x > 0) return;
  for (int i = threadIdx.x; i < count; i += THREADS) all.pivot[i] = pivots[i];
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += THREADS) {
    const int pivot = all.pivot[i], above = pivot - first;
    int partner = above;
    if (above < 0 || above >= count) {
      int same = 0;
      while (all.pivot[same] != pivot) same++;
      partner = count + same;
    }
    all.partner[i] = partner;
    all.holds[i] = i, all.holds[count + i] = count + i;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 0; k < count; k++) {
      const int i = back ? count - 1 - k : k, p = all.partner[i];
      const int held = all.holds[i];
      all.holds[i] = all.holds[p];
      all.holds[p] = held;
    }
  }
  __syncthreads();
  for (int s = threadIdx.x; s < 2 * count; s += THREADS) {
    moves[s] = row_of(all, first, count, s);
    moves[2 * count + s] = row_of(all, first, count, all.holds[s]);
  }
}

template <int S>
struct Kept {
  Element<S> element[SLOTS];
};

// Calls move(e, column, row, source) for each row that moves, in `width` columns. `e` counts the
// kept elements; neighbouring threads take neighbouring ones.
template <typename Move>
__device__ void visit_moves(int width, bool by_rows, const int* moves, int slots, Move move) {
  for (int e = threadIdx.x; e < slots * width; e += THREADS) {
    const int s = by_rows ? e / width : e % slots, column = by_rows ? e % width : e / slots;
    const int row = moves[s], source = moves[slots + s];
    if (row != source) move(e, column, row, source);
  }
  __syncthreads();
}

// Element (i, j) of the block is x[i * row_stride + j * col_stride]. A block of threads takes as
// many columns at a time as fit in its memory.
template <int S>
__device__ void permute_rows(Kept<S>& kept, Element<S>* x, Size row_stride, Size col_stride,
                             Size cols, const int* moves, int slots) {
  const int most = SLOTS / slots;
  const bool by_rows = col_stride < row_stride;
  for (Size j = Size(blockIdx.x) * most; j < cols; j += Size(gridDim.x) * most) {
    const int width = int(smaller(Size(most), cols - j));
    Element<S>* block = x + j * col_stride;
    visit_moves(width, by_rows, moves, slots, [&](int e, int column, int, int source) {
      kept.element[e] = block[column * col_stride + source * row_stride];
    });
    visit_moves(width, by_rows, moves, slots, [&](int e, int column, int row, int) {
      block[column * col_stride + row * row_stride] = kept.element[e];
    });
  }
}

// `slots` is not zero, and at most SLOTS: more slots need several launches.
#define ENTRY(S)                                                                      \
  KERNEL permute_rows_##S(Element<S>* x, Size row_stride, Size col_stride, Size cols, \
                          const int* moves, int slots) {                              \
    SHARED(Kept<S>, kept);                                                            \
    permute_rows<S>(kept, x, row_stride, col_stride, cols, moves, slots);             \
  }
EACH_SIZE(ENTRY)
