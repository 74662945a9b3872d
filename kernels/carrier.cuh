// A warp's buffers for slices of pieces: the held slice, and the next one. The next one comes from
// the place to which the held one goes.
//
// take(from, length) begins to load the next one, and taken() waits for it. put(to, length) stores
// the held one. turn() makes the next one the held one.
#ifndef MESHSOLVE_CARRIER_CUH
#define MESHSOLVE_CARRIER_CUH

#include "bulk.cuh"
#include "slice.cuh"

template <typename Part>
struct InRegisters {
  Part held, next;

  template <typename T>
  __device__ void take(const T* from, int length) {
    next.load(from, length);
  }
  __device__ void taken() {}
  template <typename T>
  __device__ void put(T* to, int length) const {
    held.store(to, length);
  }
  __device__ void turn() { held = next; }
};

// Shared memory of a block for ByCopies: two slices for each warp.
template <int S>
struct Buffers {};

#if HAS_BULK_COPIES
template <>
struct Buffers<16> {
  alignas(128) Element<16> slice[THREADS / WARP][2][Slice<16>::LENGTH];
  Arrival arrival[THREADS / WARP];
};

// The first lane of a warp begins the copies and waits for them. No other lane touches the slices.
struct ByCopies {
  Element<16> (*slice)[Slice<16>::LENGTH];
  Arrival* arrival;
  unsigned phase = 0;
  int held = 0;

  __device__ explicit ByCopies(Buffers<16>& buffers)
      : slice(buffers.slice[threadIdx.x / WARP]), arrival(buffers.arrival + threadIdx.x / WARP) {
    if (lane_index() == 0) expect_loads(*arrival);
  }

  __device__ void take(const Element<16>* from, int length) {
    if (lane_index() != 0) return;
    await_stores_read();  // of the previous slice
    bulk_load(slice[1 - held], from, length, *arrival);
  }
  __device__ void taken() {
    if (lane_index() == 0) await_load(*arrival, phase);
    phase = 1 - phase;
  }
  __device__ void put(Element<16>* to, int length) const {
    if (lane_index() != 0) return;
    fence_copies();  // the warp that loaded from there has set its bit
    bulk_store(to, slice[held], length);
  }
  __device__ void turn() { held = 1 - held; }
  __device__ void finish() {
    if (lane_index() == 0) await_stores();
  }
};
#endif

#endif
