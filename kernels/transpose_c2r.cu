// C2R and R2C, the decomposition of Catanzaro, Keller and Garland (PPoPP'14), for an array as
// m x n. Columns are permuted, rows are shuffled, columns are permuted again. With c = gcd(m, n),
// a = m/c and b = n/c, C2R gathers
//
//   Rotate   row i of column j from row i + floor(j/b)           eq. 23; nothing where c = 1
//   Rows     element j of row i from where d'_i puts it           eq. 31
//   Permute  row i of column j from row (j + i*n - floor(i/a))    eq. 26
//
// (rows modulo m), and R2C gathers by the inverses in reverse order.
//
// Columns move in groups of 256 bytes. Within a group a column step is one map of whole sub-rows,
// which move along its cycles (`move_rows`), and a fine rotation (`sweep_columns`). The rotation is
// by less than the group's width, before the map in C2R and after it in R2C. A sweep goes down the
// rows (R2C: up), by slabs at the same time. Scratch holds the first rows of each slab
// (`hold_rows`) for the slab before.

#include "pieces.cuh"

// A group of columns, so many rows of it at a time.
template <int S>
struct Window {
  static constexpr int WIDTH = 256 / S, ROWS = 32, RING = ROWS + WIDTH;
  Element<S> at[RING][WIDTH];
  int amount[WIDTH];
};

// Columns in the order of a fine rotation: position p is row p, or counts from the last row.
struct Columns {
  Size m, n, width, slabs, up;

  __device__ Size row(Size p) const { return up ? p : m - 1 - p; }
  // The first position of a slab, of `width` rows or more.
  __device__ Size begin(Size slab) const { return m / slabs * slab + smaller(slab, m % slabs); }
};

template <int S>
__device__ void hold_rows(const Columns& columns, const Element<S>* data, Element<S>* held) {
  const Size n = columns.n, depth = columns.width - 1;
  for (Size k = thread_index(); k < columns.slabs * depth * n; k += thread_count()) {
    const Size line = k / n, p = columns.begin(line / depth) + line % depth;
    held[k] = data[columns.row(p) * n + k % n];
  }
}

// Position p of column j takes from position p + floor(j/b) - floor(j0/b), j0 the first column of
// its group. With b = 1 that is j - j0.
template <int S>
__device__ void sweep_columns(Window<S>& window, const Columns& columns, Element<S>* data,
                              const Element<S>* held, Size b) {
  constexpr int WIDTH = Window<S>::WIDTH, ROWS = Window<S>::ROWS, RING = Window<S>::RING;
  static_assert(THREADS % WIDTH == 0, "whole sub-rows at a time");
  const Size n = columns.n, groups = ceil_div(n, columns.width);
  const int t = threadIdx.x % WIDTH, first = threadIdx.x / WIDTH;
  for (Size unit = blockIdx.x; unit < groups * columns.slabs; unit += gridDim.x) {
    const Size j0 = unit % groups * columns.width, slab = unit / groups;
    const int width = int(smaller(columns.width, n - j0));
    const int depth = int((j0 + width - 1) / b - j0 / b);
    if (depth == 0) continue;
    const Size begin = columns.begin(slab), end = columns.begin(slab + 1);
    const Size next = (slab + 1) % columns.slabs * (columns.width - 1) * n;
    if (first == 0 && t < width) window.amount[t] = int((j0 + t) / b - j0 / b);
    // Positions from begin + k0 to begin + k1; past the slab's end they are the next slab's.
    auto fill = [&](Size k0, Size k1) {
      for (Size k = k0 + first; k < k1; k += THREADS / WIDTH) {
        if (t >= width) continue;
        const Size p = begin + k;
        window.at[k % RING][t] =
            p < end ? data[columns.row(p) * n + j0 + t] : held[next + (p - end) * n + j0 + t];
      }
    };
    fill(0, depth);
    for (Size k0 = 0; k0 < end - begin; k0 += ROWS) {
      const Size k1 = smaller(k0 + ROWS, end - begin);
      fill(k0 + depth, k1 + depth);
      __syncthreads();
      for (Size k = k0 + first; k < k1; k += THREADS / WIDTH) {
        if (t >= width) continue;
        const Size from = k + window.amount[t];
        data[columns.row(begin + k) * n + j0 + t] = window.at[from % RING][t];
      }
      __syncthreads();
    }
  }
}

// The sub-rows of a group as pieces: the coarse part of a column step.
struct SubRows {
  Size m, n, c, inverse, permute, forward, j0;

  __device__ Size at(Size h) const { return h * n; }

  // Where sub-row h belongs; `inverse` is that of b modulo a.
  __device__ Size target(Size h) const {
    const Size a = m / c;
    if (!permute) {
      const Size by = j0 / (n / c);
      return (forward ? h + m - by : h + by) % m;
    }
    if (!forward) return (j0 + h * n - h / a) % m;
    // The inverse of eq. 32 and of eq. 33, which is eq. 34.
    const Size i = (h + m - j0 % m) % m;
    return (i + c - 1) / c * inverse % a + (c - i % c) % c * a;
  }
};

template <int S>
__device__ void move_rows(SubRows rows, Element<S>* data, Size width, unsigned* bits) {
  begin_everywhere(rows.m, ceil_div(rows.n, width), bits, [&](Size group, unsigned* mine, Size h) {
    rows.j0 = group * width;
    const int length = int(smaller(width, rows.n - rows.j0));
    using Part = Slice<S, (Window<S>::WIDTH + WARP - 1) / WARP>;
    InRegisters<Part> carrier;
    follow<S>(carrier, rows, data + rows.j0, length, mine, h);
  });
}

// A row on chip, if it fits.
template <int S>
struct Row {
  static constexpr int LENGTH = (32 << 10) / S;
  Element<S> elements[LENGTH];
};

__device__ inline Size wrap(Size x, Size modulus) { return x >= modulus ? x - modulus : x; }

// The shuffle of row i. Take a row as c x b before, element l*b + h, and as b x c after, element
// v*c + r. There R = (i + l) mod m, r = R mod c and v = (R/c + h*a) mod b (eq. 24). As l < c, R/c
// is one of two numbers. No element needs a division, because a thread's next one is THREADS away.
template <int S>
struct Shuffle {
  Size m, n, c, inverse;  // of a modulo b
  Size a, b, own, shift, turn, next;

  __device__ Shuffle(Size m, Size n, Size c, Size inverse)
      : m(m), n(n), c(c), inverse(inverse), a(m / c), b(n / c), own(threadIdx.x) {}

  __device__ void begin(Size i) {
    const Size block = i / c;
    shift = i % c, turn = block % b, next = wrap(block + 1, a) % b;
  }

  __device__ void forward(Element<S>* row, const Element<S>* kept) const {
    const Size t1 = (b - turn) % b * inverse % b, t2 = (b - next) % b * inverse % b;
    const Size dr = THREADS % c, dy = THREADS / c % b * inverse % b;
    Size r = own % c, y = own / c % b * inverse % b;  // v / a
    for (Size j = own; j < n; j += THREADS) {
      const bool whole = r >= shift;
      const Size l = whole ? r - shift : r + c - shift;
      row[j] = kept[l * b + wrap(y + (whole ? t1 : t2), b)];
      r += dr, y = wrap(y + dy, b);
      if (r >= c) r -= c, y = wrap(y + inverse, b);
    }
  }

  __device__ void back(Element<S>* row, const Element<S>* kept) const {
    const Size dl = THREADS / b, dh = THREADS % b, dz = dh * (a % b) % b;
    Size l = own / b, h = own % b, z = h * (a % b) % b;  // h * a
    for (Size j = own; j < n; j += THREADS) {
      const bool whole = l < c - shift;
      const Size r = whole ? l + shift : l + shift - c;
      row[j] = kept[wrap(z + (whole ? turn : next), b) * c + r];
      l += dl, h += dh, z = wrap(z + dz, b);
      if (h >= b) h -= b, l++;
    }
  }
};

// Scratch holds rows that are too long for the chip, one for each of `workers` blocks.
template <int S>
__device__ void shuffle_rows(Row<S>& row, Shuffle<S> shuffle, Element<S>* data, Element<S>* scratch,
                             bool forward, Size workers) {
  const Size n = shuffle.n;
  const bool fits = n <= Size(Row<S>::LENGTH);
  const Size step = fits ? gridDim.x : smaller(workers, Size(gridDim.x));
  if (blockIdx.x >= step) return;
  Element<S>* kept = fits ? row.elements : scratch + blockIdx.x * n;
  for (Size i = blockIdx.x; i < shuffle.m; i += step) {
    Element<S>* own = data + i * n;
    for (Size j = threadIdx.x; j < n; j += THREADS) kept[j] = own[j];
    __syncthreads();
    shuffle.begin(i);
    if (forward) {
      shuffle.forward(own, kept);
    } else {
      shuffle.back(own, kept);
    }
    __syncthreads();
  }
}

#define ENTRY(S)                                                                                 \
  KERNEL hold_rows_##S(const Element<S>* data, Element<S>* held, Size m, Size n, Size width,     \
                       Size slabs, Size up) {                                                    \
    hold_rows<S>({m, n, width, slabs, up}, data, held);                                          \
  }                                                                                              \
  KERNEL sweep_columns_##S(Element<S>* data, const Element<S>* held, Size m, Size n, Size width, \
                           Size slabs, Size up, Size b) {                                        \
    SHARED(Window<S>, window);                                                                   \
    sweep_columns<S>(window, {m, n, width, slabs, up}, data, held, b);                           \
  }                                                                                              \
  KERNEL move_rows_##S(Element<S>* data, Size m, Size n, Size width, Size c, Size inverse,       \
                       Size permute, Size forward, unsigned* bits) {                             \
    move_rows<S>({m, n, c, inverse, permute, forward, 0}, data, width, bits);                    \
  }                                                                                              \
  KERNEL shuffle_rows_##S(Element<S>* data, Element<S>* scratch, Size m, Size n, Size c,         \
                          Size inverse, Size forward, Size workers) {                            \
    SHARED(Row<S>, row);                                                                         \
    shuffle_rows<S>(row, Shuffle<S>(m, n, c, inverse), data, scratch, forward != 0, workers);    \
  }
EACH_SIZE(ENTRY)
