// The phase `Turn` of a plan for skinny arrays, for structures of at most 128 bytes. It does the
// work of `turn_panels` (transpose_skinny.cu), the plain form, but transposes a panel in the
// registers of a block. Loads and stores of a warp are 32 consecutive elements on both sides. The
// file is compiled for structures of ELEMENTS; tests have all of them at once.

#include "registers.cuh"
#include "skinny.cuh"

// The most bytes of a structure.
constexpr int STRUCTURE = 128;

// Panel p: rows and chunks as offsets from its place, which are less than two panels.
template <int S, int N>
struct PanelInRegisters {
  static_assert(N * S <= STRUCTURE, "at most 32 registers for a structure");
  // Sets of 32 structures. Successive sets of a warp are WARPS sets apart.
  static constexpr int WARPS = THREADS / WARP, SETS = PANEL / (THREADS * N * S);
  using Maps = Registers<N>;
  Element<S> kept[SETS][N];

  // The first structure of a set.
  static __device__ int structure(int set) {
    return (set * WARPS + int(threadIdx.x) / WARP) * WARP;
  }

  // Calls visit(row of a set, set, offset) for all elements of this thread.
  template <typename Visit>
  static __device__ void visit_rows(int length, Visit visit) {
#pragma unroll
    for (int k = 0; k < SETS; k++) {
#pragma unroll
      for (int i = 0; i < N; i++) {
        const int e = structure(k) * N + i * WARP + lane_index();
        if (e < length) visit(i, k, e);
      }
    }
  }

  // The same for the elements of the chunks: chunk c has element c of each structure.
  template <typename Visit>
  static __device__ void visit_lines(const Skinny& skinny, Size p, Visit visit) {
    const int height = int(skinny.height), rest = int(skinny.rest);
    const Size first = p * N, line = first / skinny.count;
    // Chunks of a line, and the remaining ones of this line; more than N count as N.
    const int whole = int(smaller(skinny.count, Size(N)));
    int left = int(smaller((line + 1) * skinny.count - first, Size(N)));
    int at = int(line * skinny.rest);
#pragma unroll
    for (int c = 0; c < N; c++) {
#pragma unroll
      for (int k = 0; k < SETS; k++) {
        const int t = structure(k) + lane_index();
        if (t < height) visit(c, k, at + t);
      }
      at += height;
      if (--left == 0) at += rest, left = whole;
    }
  }

  template <typename Turn>
  __device__ void turn_sets(int height, Turn turn) {
#pragma unroll
    for (int k = 0; k < SETS; k++) {
      if (structure(k) < height) turn(kept[k]);
    }
  }

  // Loads and stores of different panels do not overlap, so no thread waits between panels.
  template <bool TALL>
  __device__ void turn(const Skinny& skinny, Element<S>* data, Size p) {
    Element<S>* place = data + skinny.rows(p);
    const int height = int(skinny.height), length = height * N;
    if constexpr (TALL) {
      visit_rows(length, [&](int i, int k, int e) { kept[k][Maps::permuted(i)] = place[e]; });
      turn_sets(height, [](Element<S>(&x)[N]) { Maps::r2c(x); });
      __syncthreads();
      visit_lines(skinny, p, [&](int c, int k, int e) { place[e] = kept[k][c]; });
    } else {
      visit_lines(skinny, p, [&](int c, int k, int e) { kept[k][c] = place[e]; });
      turn_sets(height, [](Element<S>(&x)[N]) { Maps::c2r(x); });
      __syncthreads();
      visit_rows(length, [&](int i, int k, int e) { place[e] = kept[k][Maps::permuted(i)]; });
    }
  }
};

// Leaves panels with a part in scratch to `turn_held` (transpose_skinny.cu).
template <int S, int N, bool TALL>
__device__ void turn_one_way(const Skinny& skinny, Element<S>* data, Element<S>* scratch) {
  turn_runs<S>(skinny, data, scratch, [&](Size run, Size p) {
    if (skinny.holds(run, p)) return;
    PanelInRegisters<S, N> panel;
    panel.template turn<TALL>(skinny, data, p);
  });
}

template <int S, int N>
__device__ void turn_registers(const Skinny& skinny, Element<S>* data, Element<S>* scratch) {
  if (skinny.tall) {
    turn_one_way<S, N, true>(skinny, data, scratch);
  } else {
    turn_one_way<S, N, false>(skinny, data, scratch);
  }
}

#ifdef ELEMENTS
template <int S>
__device__ void choose(const Skinny& skinny, Element<S>* data, Element<S>* scratch) {
  if (skinny.shorter == ELEMENTS) turn_registers<S, ELEMENTS>(skinny, data, scratch);
}
#else
#define ELEMENTS 0
template <int S, int N = 2>
__device__ void choose(const Skinny& skinny, Element<S>* data, Element<S>* scratch) {
  if constexpr (N <= WARP && N * S <= STRUCTURE) {
    if (skinny.shorter == N) return turn_registers<S, N>(skinny, data, scratch);
    choose<S, N + 1>(skinny, data, scratch);
  }
}
#endif

#define ENTRY(S)                                                                                  \
  LARGE_KERNEL turn_registers_##S(Element<S>* data, Element<S>* scratch, Size tall, Size shorter, \
                                  Size height, Size count, Size rest, Size runs) {                \
    choose<S>({tall, shorter, height, count, rest, runs}, data, scratch);                         \
  }
ENTRY(4)
#if ELEMENTS <= 16
ENTRY(8)
#endif
#if ELEMENTS <= 8
ENTRY(16)
#endif
