// A skinny array, with a side of 2 to 32, as rows and as chunks, for the kernels that transpose one
// to the other.
//
// Rows, lines, chunks and the tail are as in transpose_panels.cu. A block of threads has a run of
// panels. Each is on chip during its transposition, so it has at most 32 KiB. `scratch` holds the
// tail as rows, then (shorter - 1) * rest elements for each run but the first: the beginning of its
// place. The chunks of the run before extend into it.
#ifndef MESHSOLVE_SKINNY_CUH
#define MESHSOLVE_SKINNY_CUH

#include "common.cuh"

// The most bytes of a panel.
constexpr int PANEL = 32 << 10;

struct Skinny {
  Size tall, shorter, height, count, rest, runs;

  __device__ Size at(Size chunk) const { return chunk * height + chunk / count * rest; }

  // Where a chunk belongs.
  __device__ Size target(Size s) const {
    if (tall) return s % shorter * count + s / shorter;
    return s % count * shorter + s / count;
  }

  // The first panel of a run, and the offset of panel p as rows.
  __device__ Size first(Size run) const { return count * run / runs; }
  __device__ Size rows(Size p) const { return p * height * shorter; }

  // Elements of earlier panels' chunks in the place of panel p.
  __device__ Size reach(Size p) const { return p == 0 ? 0 : (p * shorter - 1) / count * rest; }

  // Whether another run may have overwritten a part of panel p, so scratch holds it. It is the
  // first panel of a run of a tall array, the last one for a wide array.
  __device__ bool holds(Size run, Size p) const {
    if (rest == 0) return false;
    return tall ? run > 0 && p == first(run) : run + 1 < runs && p + 1 == first(run + 1);
  }

  // The offset in scratch of the beginning of a run's place; not for the first run.
  __device__ Size held(Size run) const { return shorter * rest + (run - 1) * (shorter - 1) * rest; }
};

// Copies the tail between scratch and the array, where it is in rows or at the ends of the lines.
// This is number `thread` of `threads` threads.
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

// A panel, element (t, c) at t * shorter + c, with an element of padding for each 128 bytes. For
// most lengths of the shorter side, neighbours along either side are in different banks.
template <int S>
struct Panel {
  static constexpr int LENGTH = PANEL / S, LINE = 128 / S;
  Element<S> elements[LENGTH + LENGTH / LINE];

  __device__ Element<S>& at(int i) { return elements[i + i / LINE]; }
};

// Calls visit(offset, i) for this thread's part of a panel in chunks. Element i of the panel
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

// Panel p of a run. All of it is loaded before any of it is stored.
template <int S>
__device__ void turn_panel(Panel<S>& panel, const Skinny& skinny, Element<S>* data,
                           const Element<S>* scratch, Size run, Size p) {
  const int length = int(skinny.height * skinny.shorter);
  Element<S>* rows = data + skinny.rows(p);
  if (skinny.tall) {
    const int held = skinny.holds(run, p) ? int(skinny.reach(p)) : 0;
    const Element<S>* beginning = scratch + (held > 0 ? skinny.held(run) : 0);
    for (int i = threadIdx.x; i < length; i += THREADS) {
      panel.at(i) = i < held ? beginning[i] : rows[i];
    }
    __syncthreads();
    visit_chunks(skinny, p, [&](Size offset, int i) { data[offset] = panel.at(i); });
  } else {
    const bool last = skinny.holds(run, p);
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

// The panels of this block's runs by turn(run, panel), from the end or to it.
template <int S, typename Turn>
__device__ void turn_runs(const Skinny& skinny, Element<S>* data, Element<S>* scratch, Turn turn) {
  for (Size run = blockIdx.x; run < skinny.runs; run += gridDim.x) {
    const Size first = skinny.first(run), end = skinny.first(run + 1);
    for (Size k = 0; k < end - first; k++) turn(run, skinny.tall ? end - 1 - k : first + k);
    // Only the last run's chunks reach behind the panels.
    if (!skinny.tall && run + 1 == skinny.runs) {
      move_tail<S>(skinny, data, scratch, true, false, threadIdx.x, THREADS);
    }
  }
}

#endif
