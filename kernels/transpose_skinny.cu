// The phases of a plan for skinny arrays, with a side of 2 to 32: `Hold` (what would be overwritten
// goes to scratch), `Turn` (panels from rows to chunks, or back, about where they were), `Permute`
// (chunks move to their places; before or after, the tail of a tall array goes to its own,
// `place_tail`).
//
// Rows, lines, chunks and the tail are as in transpose_panels.cu. A block of threads has a run of
// panels, each of which is in shared memory while it is turned, so a panel has at most 32 KiB.
// `scratch` holds the tail as rows, then (shorter - 1) * rest elements for each run but the first:
// the beginning of the run's place, where the chunks of the run before reach.

#include "pieces.cuh"

struct Skinny {
  Size tall, shorter, height, count, rest, runs;

  __device__ Size at(Size chunk) const { return chunk * height + chunk / count * rest; }

  // Where a chunk belongs.
  __device__ Size target(Size s) const {
    if (tall) return s % shorter * count + s / shorter;
    return s % count * shorter + s / count;
  }

  // The first panel of a run, and where panel p lies as rows.
  __device__ Size first(Size run) const { return count * run / runs; }
  __device__ Size rows(Size p) const { return p * height * shorter; }

  // How far the chunks of the panels before reach into the place of panel p.
  __device__ Size reach(Size p) const { return p == 0 ? 0 : (p * shorter - 1) / count * rest; }

  // Where in scratch the beginning of a run's place is held; not for the first one.
  __device__ Size held(Size run) const { return shorter * rest + (run - 1) * (shorter - 1) * rest; }
};

// A panel, element (t, c) at t * shorter + c, with an element of padding for each 128 bytes:
// neighbours along either side are in different banks, for most lengths of the shorter one.
template <int S>
struct Panel {
  static constexpr int LENGTH = (32 << 10) / S, LINE = 128 / S;
  Element<S> elements[LENGTH + LENGTH / LINE];

  __device__ Element<S>& at(int i) { return elements[i + i / LINE]; }
};

// The tail between scratch and the array, where it lies as rows or at the ends of the lines; by
// `threads` threads, of which this is number `thread`.
template <int S>
__device__ void move_tail(const Skinny& skinny, Element<S>* data, Element<S>* scratch, bool rows,
                          bool hold, Size thread, Size threads) {
  const Size lines = skinny.shorter, before = skinny.count * skinny.height;
  for (Size k = thread; k < skinny.rest * lines; k += threads) {
    const Size t = k / lines, c = k % lines;
    Element<S>* there =
        data + (rows ? before * lines + k : c * (before + skinny.rest) + before + t);
    if (hold) {
      scratch[k] = *there;
    } else {
      *there = scratch[k];
    }
  }
}

// Calls visit(offset, i) for this thread's part of a panel in chunks: element i of the panel
// belongs `offset` elements after the start of the array.
template <typename Visit>
__device__ void visit_chunks(const Skinny& skinny, Size p, Visit visit) {
  const int lines = int(skinny.shorter), height = int(skinny.height);
  const int units = (height + WARP - 1) / WARP * lines;
  for (int unit = threadIdx.x / WARP; unit < units; unit += THREADS / WARP) {
    const int c = unit % lines, t = unit / lines * WARP + lane_index();
    if (t < height) visit(skinny.at(p * lines + c) + t, t * lines + c);
  }
}

template <int S>
__device__ void turn_run(Panel<S>& panel, const Skinny& skinny, Element<S>* data,
                         const Element<S>* scratch, Size run) {
  const Size first = skinny.first(run), end = skinny.first(run + 1);
  const int length = int(skinny.height * skinny.shorter);
  for (Size k = 0; k < end - first; k++) {
    const Size p = skinny.tall ? end - 1 - k : first + k;
    Element<S>* rows = data + skinny.rows(p);
    if (skinny.tall) {
      // What the run before may have overwritten is held.
      const int held = p == first && run > 0 ? int(skinny.reach(p)) : 0;
      const Element<S>* beginning = scratch + (held > 0 ? skinny.held(run) : 0);
      for (int i = threadIdx.x; i < length; i += THREADS) {
        panel.at(i) = i < held ? beginning[i] : rows[i];
      }
      __syncthreads();
      visit_chunks(skinny, p, [&](Size offset, int i) { data[offset] = panel.at(i); });
    } else {
      // What the run after may have overwritten is held.
      const bool last = p + 1 == end && run + 1 < skinny.runs;
      const Size next = skinny.rows(p + 1);
      const Element<S>* beginning = scratch + (last ? skinny.held(run + 1) : 0);
      visit_chunks(skinny, p, [&](Size offset, int i) {
        panel.at(i) = last && offset >= next ? beginning[offset - next] : data[offset];
      });
      __syncthreads();
      for (int i = threadIdx.x; i < length; i += THREADS) rows[i] = panel.at(i);
    }
    __syncthreads();
  }
}

template <int S>
__device__ void hold_runs(const Skinny& skinny, Element<S>* data, Element<S>* scratch) {
  move_tail<S>(skinny, data, scratch, skinny.tall, true, thread_index(), thread_count());
  for (Size run = 1 + blockIdx.x; run < skinny.runs; run += gridDim.x) {
    const Size p = skinny.first(run), reach = skinny.reach(p);
    const Element<S>* from = data + skinny.rows(p);
    Element<S>* to = scratch + skinny.held(run);
    for (Size i = threadIdx.x; i < reach; i += THREADS) to[i] = from[i];
  }
}

template <int S>
__device__ void turn_runs(Panel<S>& panel, const Skinny& skinny, Element<S>* data,
                          Element<S>* scratch) {
  for (Size run = blockIdx.x; run < skinny.runs; run += gridDim.x) {
    turn_run<S>(panel, skinny, data, scratch, run);
    // Only the last run's chunks reach behind the panels.
    if (!skinny.tall && run + 1 == skinny.runs) {
      move_tail<S>(skinny, data, scratch, true, false, threadIdx.x, THREADS);
    }
  }
}

#define ENTRY(S)                                                                                 \
  KERNEL hold_runs_##S(Element<S>* data, Element<S>* scratch, Size tall, Size shorter,           \
                       Size height, Size count, Size rest, Size runs) {                          \
    hold_runs<S>({tall, shorter, height, count, rest, runs}, data, scratch);                     \
  }                                                                                              \
  KERNEL turn_runs_##S(Element<S>* data, Element<S>* scratch, Size tall, Size shorter,           \
                       Size height, Size count, Size rest, Size runs) {                          \
    SHARED(Panel<S>, panel);                                                                     \
    turn_runs<S>(panel, {tall, shorter, height, count, rest, runs}, data, scratch);              \
  }                                                                                              \
  KERNEL move_structures_##S(Element<S>* data, Size tall, Size shorter, Size height, Size count, \
                             Size rest, unsigned* bits) {                                        \
    const Skinny skinny = {tall, shorter, height, count, rest, 1};                               \
    move_pieces<S>(skinny, count * shorter, height, data, bits);                                 \
  }                                                                                              \
  KERNEL place_tail_##S(Element<S>* data, Element<S>* scratch, Size shorter, Size height,        \
                        Size count, Size rest) {                                                 \
    const Skinny skinny = {1, shorter, height, count, rest, 1};                                  \
    move_tail<S>(skinny, data, scratch, false, false, thread_index(), thread_count());           \
  }
EACH_SIZE(ENTRY)
