// The phases of a plan by panels. `Turn` transposes a panel from rows to chunks, or back. `Hold`
// copies between scratch and the array. `Permute` moves chunks to their places. Only CPU devices
// need `Mark` before it.
//
// The long side is count * height + rest. On one side of the transposition, rows are short and
// consecutive. On the other the lines are long, and chunk s, `height` elements, begins at
// s * height + s / count * rest. A tall array goes from rows to lines, a wide one back. `shared`
// has (height + rest) * short elements: the last panel as chunks, then the tail of `rest` rows.

#include "pieces.cuh"
#include "tiles.cuh"

struct Panels {
  Size tall, shorter, height, count, rest;

  __device__ Size at(Size s) const { return s * height + s / count * rest; }

  // The bits of all beginnings and ends of chunks and the tail's lines, of elements of S bytes.
  template <int S>
  __device__ Size bits(const void* data) const {
    return bits_of(data) | (height | rest) * S;
  }

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

// A tile and its lines' addresses, because each takes a division.
template <int S>
struct Turner {
  Tile<S> tile;
  Element<S>* line[Tile<S>::SIDE];
};

// Whether accesses have 16 bytes: lines begin at such multiples if `bits` is one.
template <int S>
__device__ bool by_16(Size bits) {
  return WIDE<S> > 1 && is_aligned(bits);
}

// Reads a tile of `height` rows and `width` columns; line i begins at line(i).
template <int S, typename Line>
__device__ void fetch(Tile<S>& tile, bool wide, int height, int width, Line line) {
  if (wide) {
    constexpr int WIDTH = WIDE<S>;
    visit_tile<S, WIDTH>(
        height, width, [&](int i, int j) { Access<S, WIDTH>::load(&tile.at[i][j], line(i) + j); });
  } else {
    visit_tile<S>(height, width, [&](int i, int j) { tile.at[i][j] = line(i)[j]; });
  }
}

// Writes its transpose, of `height` rows and `width` columns.
template <int S, typename Line>
__device__ void put(Tile<S>& tile, bool wide, int height, int width, Line line) {
  if (wide) {
    constexpr int WIDTH = WIDE<S>;
    visit_tile<S, WIDTH>(
        height, width, [&](int i, int j) { Access<S, WIDTH>::store(line(i) + j, &tile.at[j][i]); });
  } else {
    visit_tile<S>(height, width, [&](int i, int j) { line(i)[j] = tile.at[j][i]; });
  }
}

// Transposes `lines` lines of length `length`, with line c at line(c), from or to rows of `lines`
// elements each. If `bits` is a multiple of 16, all lines begin and end at such multiples.
template <int S, typename Line>
__device__ void turn(Turner<S>& turner, Element<S>* rows, Size lines, Size length, bool to_lines,
                     Size bits, Line line) {
  constexpr Size SIDE = Tile<S>::SIDE;
  Tile<S>& tile = turner.tile;
  const bool wide_rows = by_16<S>(bits_of(rows) | lines * S), wide_lines = by_16<S>(bits);
  const Size down = ceil_div(length, SIDE), across = ceil_div(lines, SIDE);
  for (Size unit = blockIdx.x; unit < down * across; unit += gridDim.x) {
    const Size t = unit / across * SIDE, c = unit % across * SIDE;
    const int height = int(smaller(SIDE, length - t)), width = int(smaller(SIDE, lines - c));
    if (threadIdx.x < unsigned(width)) turner.line[threadIdx.x] = line(c + threadIdx.x) + t;
    const auto row = [&](int i) { return rows + (t + i) * lines + c; };
    const auto line_of = [&](int i) { return turner.line[i]; };
    __syncthreads();
    if (to_lines) {
      fetch<S>(tile, wide_rows, height, width, row);
    } else {
      fetch<S>(tile, wide_lines, width, height, line_of);
    }
    __syncthreads();
    if (to_lines) {
      put<S>(tile, wide_lines, width, height, line_of);
    } else {
      put<S>(tile, wide_rows, height, width, row);
    }
    __syncthreads();
  }
}

// Copies contiguous elements.
template <int S>
__device__ void move(Element<S>* to, const Element<S>* from, Size count) {
  for (Size i = thread_index(); i < count; i += thread_count()) to[i] = from[i];
}

// Panel `p`. The last one is in scratch on the side of the chunks, and the tail moves with it.
template <int S>
__device__ void turn_panel(Turner<S>& turner, const Panels& panels, Element<S>* data,
                           Element<S>* shared, Size p) {
  const Size lines = panels.shorter, height = panels.height, count = panels.count;
  const bool last = p + 1 == count;
  const Size bits = last ? bits_of(shared) | height * S : panels.bits<S>(data);
  turn<S>(turner, data + p * height * lines, lines, height, panels.tall, bits, [&](Size c) {
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
  turn<S>(turner, shared + height * lines, lines, panels.rest, panels.tall, panels.bits<S>(data),
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
