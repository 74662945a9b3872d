// The phases of a plan by panels: `Turn` (a panel from rows to chunks, or back), `Hold` (between
// scratch and the array), `Permute` (chunks move to their places).
//
// The long side is count * height + rest. Rows are short and lie one after the other on one side of
// the transposition; on the other the lines are long, and chunk s, `height` elements, begins at s *
// height + s / count * rest. A tall array goes from rows to lines, a wide one back. `shared` has
// (height + rest) * short elements: the last panel as chunks, then the tail of `rest` rows.

#include "pieces.cuh"
#include "tiles.cuh"

struct Panels {
  Size tall, shorter, height, count, rest;

  __device__ Size at(Size s) const { return s * height + s / count * rest; }

  // Where chunk s belongs.
  __device__ Size target(Size s) const {
    if (tall) {
      const Size i = s / shorter, c = s % shorter;
      return c * count + (i == 0 ? count : i) - 1;
    }
    const Size c = s / count, i = s % count + 1;
    return (i == count ? 0 : i) * shorter + c;
  }
};

// A tile and where its lines are: finding that takes a division.
template <int S>
struct Turner {
  Tile<S> tile;
  Element<S>* line[Tile<S>::SIDE];
};

// `lines` lines of length `length`, the elements of line c at line(c), from or to rows of `lines`
// elements each.
template <int S, typename Line>
__device__ void turn(Turner<S>& turner, Element<S>* rows, Size lines, Size length, bool to_lines,
                     Line line) {
  constexpr Size SIDE = Tile<S>::SIDE;
  Tile<S>& tile = turner.tile;
  const Size down = ceil_div(length, SIDE), across = ceil_div(lines, SIDE);
  for (Size unit = blockIdx.x; unit < down * across; unit += gridDim.x) {
    const Size t = unit / across * SIDE, c = unit % across * SIDE;
    const int height = int(smaller(SIDE, length - t)), width = int(smaller(SIDE, lines - c));
    if (threadIdx.x < unsigned(width)) turner.line[threadIdx.x] = line(c + threadIdx.x) + t;
    __syncthreads();
    if (to_lines) {
      visit_tile<S>(height, width,
                    [&](int i, int j) { tile.at[i][j] = rows[(t + i) * lines + c + j]; });
    } else {
      visit_tile<S>(width, height, [&](int j, int i) { tile.at[j][i] = turner.line[j][i]; });
    }
    __syncthreads();
    if (to_lines) {
      visit_tile<S>(width, height, [&](int j, int i) { turner.line[j][i] = tile.at[i][j]; });
    } else {
      visit_tile<S>(height, width,
                    [&](int i, int j) { rows[(t + i) * lines + c + j] = tile.at[j][i]; });
    }
    __syncthreads();
  }
}

// Contiguous elements.
template <int S>
__device__ void move(Element<S>* to, const Element<S>* from, Size count) {
  for (Size i = thread_index(); i < count; i += thread_count()) to[i] = from[i];
}

// Panel `p`; the last one is in scratch on the side of the chunks, and the tail moves with it.
template <int S>
__device__ void turn_panel(Turner<S>& turner, const Panels& panels, Element<S>* data,
                           Element<S>* shared, Size p) {
  const Size lines = panels.shorter, height = panels.height, count = panels.count;
  const bool last = p + 1 == count;
  turn<S>(turner, data + p * height * lines, lines, height, panels.tall, [&](Size c) {
    return last ? shared + c * height : data + panels.at((p + 1) * lines + c);
  });
  if (last) {
    Element<S>*rows = data + count * height * lines, *tail = shared + height * lines;
    move<S>(panels.tall ? tail : rows, panels.tall ? rows : tail, panels.rest * lines);
  }
}

template <int S>
__device__ void hold_panel(Turner<S>& turner, const Panels& panels, Element<S>* data,
                           Element<S>* shared) {
  const Size lines = panels.shorter, height = panels.height, count = panels.count;
  for (Size k = thread_index(); k < lines * height; k += thread_count()) {
    Element<S>* there = data + panels.at(k / height) + k % height;
    if (panels.tall) {
      *there = shared[k];
    } else {
      shared[k] = *there;
    }
  }
  turn<S>(turner, shared + height * lines, lines, panels.rest, panels.tall,
          [&](Size c) { return data + c * (count * height + panels.rest) + count * height; });
}

#define ENTRY(S)                                                                             \
  KERNEL turn_panel_##S(Element<S>* data, Element<S>* shared, Size tall, Size shorter,       \
                        Size height, Size count, Size rest, Size p) {                        \
    SHARED(Turner<S>, turner);                                                               \
    turn_panel<S>(turner, {tall, shorter, height, count, rest}, data, shared, p);            \
  }                                                                                          \
  KERNEL hold_panel_##S(Element<S>* data, Element<S>* shared, Size tall, Size shorter,       \
                        Size height, Size count, Size rest) {                                \
    SHARED(Turner<S>, turner);                                                               \
    hold_panel<S>(turner, {tall, shorter, height, count, rest}, data, shared);               \
  }                                                                                          \
  KERNEL move_chunks_##S(Element<S>* data, Size tall, Size shorter, Size height, Size count, \
                         Size rest, unsigned* bits) {                                        \
    const Panels panels = {tall, shorter, height, count, rest};                              \
    SHARED(Buffers<S>, buffers);                                                             \
    move_pieces<S>(buffers, panels, count * shorter, height, data, bits);                    \
  }
EACH_SIZE(ENTRY)
