// Asynchronous copies between the device's memory and a block's shared memory (cp.async.bulk), on
// architectures from 9.0 on.
//
// Elements have 16 bytes, at multiples of 16. One thread of a warp begins copies and waits for
// them. Loads arrive one after the other at their Arrival: the first in its phase 0, the next in
// phase 1, then 0 again. Stores are read from shared memory some time after they have begun, and
// written some time after that.
//
// tests/kernels/emulate.h has the same functions for the CPU.
#ifndef MESHSOLVE_BULK_CUH
#define MESHSOLVE_BULK_CUH

#include "common.cuh"

#ifndef HAS_BULK_COPIES
#if __CUDA_ARCH__ >= 900
#define HAS_BULK_COPIES 1

using Arrival = unsigned long long;  // an mbarrier

// Whether kernels use them.
__device__ constexpr bool bulk_copies() { return true; }

__device__ inline unsigned shared_address(const void* at) {
  return unsigned(__cvta_generic_to_shared(at));
}

// Runs before the first use of an Arrival. The fence makes it visible to the copies.
__device__ inline void expect_loads(Arrival& arrival) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], 1;\n\t"
      "fence.proxy.async.shared::cta;"
      :
      : "r"(shared_address(&arrival))
      : "memory");
}

__device__ inline void bulk_load(Element<16>* to, const Element<16>* from, int count,
                                 Arrival& arrival) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%3], %2;\n\t"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(count * 16),
        "r"(shared_address(&arrival))
      : "memory");
}

__device__ inline void await_load(Arrival& arrival, unsigned phase) {
  unsigned arrived = 0;
  while (!arrived) {
    asm volatile(
        "{\n\t"
        ".reg .pred arrived;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 arrived, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, arrived;\n\t"
        "}"
        : "=r"(arrived)
        : "r"(shared_address(&arrival)), "r"(phase)
        : "memory");
  }
}

__device__ inline void bulk_store(Element<16>* to, const Element<16>* from, int count) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\t"
      "cp.async.bulk.commit_group;"
      :
      : "l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(count * 16)
      : "memory");
}

// Waits until all stores of this thread are read from shared memory.
__device__ inline void await_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" : : : "memory");
}

// Waits until they are written.
__device__ inline void await_stores() {
  asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
}

// Orders memory accesses of this thread up to now before the copies that it begins later.
__device__ inline void fence_copies() { asm volatile("fence.proxy.async;" : : : "memory"); }

#else
#define HAS_BULK_COPIES 0
#endif
#endif

#endif
