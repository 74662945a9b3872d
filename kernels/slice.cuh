// A contiguous part of a piece or column, in the registers of a warp: 128 elements of 16 bytes or
// 256 smaller ones, or fewer.
#ifndef MESHSOLVE_SLICE_CUH
#define MESHSOLVE_SLICE_CUH

#include "common.cuh"

template <int S, int KEPT = S == 16 ? 4 : 8>
struct Slice {
  static constexpr int LENGTH = WARP * KEPT;
  Element<S> kept[KEPT];

  __device__ void load(const Element<S>* from, int length) {
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
      const int i = k * WARP + lane_index();
      if (i < length) kept[k] = from[i];
    }
  }

  __device__ void store(Element<S>* to, int length) const {
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
      const int i = k * WARP + lane_index();
      if (i < length) to[i] = kept[k];
    }
  }
};

#endif
