// CUDA as plain C++17, for the logic of kernels/*.cu on a machine without a GPU.
//
// `g++ -x c++ -include emulate.h` compiles a file of kernels; its entry points become ordinary
// functions. emulate.cc calls one of them for every thread of a grid. All blocks are resident;
// threads are fibers, and one runs at a time. It runs until it reaches a barrier, an exchange
// within its warp, an atomic operation or a fence. Then the seed chooses a thread of any block to
// continue. So missing barriers show, and each seed gives another interleaving of blocks. The seed
// also chooses when bulk copies (kernels/bulk.cuh) are read and written: a thread that does not
// wait for them finds old data.
#pragma once

#include <cmath>
#include <cstring>

#define __global__
#define __device__
#define __launch_bounds__(threads, blocks)
#define SHARED(Type, name) \
  Type& name = *static_cast<Type*>(emulate::shared_memory(sizeof(Type), alignof(Type)))

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
// The arrival of bulk loads: its phase, and the bytes still expected.
struct Arrival {
  unsigned long long state;
};
struct Index {
  unsigned x, y, z;
};

namespace emulate {

struct Thread {
  Index thread, block, block_count;
};

// The running thread.
extern thread_local const Thread* current;

void* shared_memory(size_t bytes, size_t alignment);
// Lets other threads continue.
void pause();
// Waits for all threads of the block, which must come to the same line.
void meet_block(const char* file, int line);
// Waits for all lanes of the warp, which must come to the same line. Returns the value from `lane`.
unsigned long long meet_warp(unsigned long long bits, unsigned lane, const char* file, int line);
// Stops the launch; it reports this message.
[[noreturn]] void fail(const char* what, const char* file, int line);

// Whether the device has bulk copies.
bool bulk_copies();
void expect_loads(Arrival* arrival);
// A load if `arrival` is given, else a store.
void bulk_copy(void* to, const void* from, size_t bytes, Arrival* arrival);
void await_load(Arrival* arrival, unsigned phase);
// Waits until all stores of this thread are read, or also written.
void await_stores(bool written);

template <typename T>
T exchange(unsigned mask, T value, unsigned lane, const char* file, int line) {
  static_assert(sizeof(T) <= 8, "a value that fits in a register or two");
  if (mask != 0xFFFFFFFF) fail("a mask without all lanes", file, line);
  unsigned long long bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = meet_warp(bits, lane % 32, file, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <typename T>
T atomic_or(T* at, T bits) {
  pause();
  const T was = *at;
  *at = was | bits;
  pause();
  return was;
}

}  // namespace emulate

#define threadIdx (emulate::current->thread)
#define blockIdx (emulate::current->block)
#define gridDim (emulate::current->block_count)

#define __syncthreads() emulate::meet_block(__FILE__, __LINE__)
#define __syncwarp() emulate::meet_warp(0, 0, __FILE__, __LINE__)
#define __shfl_sync(mask, value, lane) emulate::exchange(mask, value, lane, __FILE__, __LINE__)
#define __threadfence() emulate::pause()
#define atomicOr(at, bits) emulate::atomic_or(at, bits)
#define __ffs(word) __builtin_ffs(int(word))

inline void __stwb(uint4* to, uint4 value) { *to = value; }

#define HAS_BULK_COPIES 1

inline bool bulk_copies() { return emulate::bulk_copies(); }
inline void expect_loads(Arrival& arrival) { emulate::expect_loads(&arrival); }
inline void bulk_load(uint4* to, const uint4* from, int count, Arrival& arrival) {
  emulate::bulk_copy(to, from, size_t(count) * 16, &arrival);
}
inline void await_load(Arrival& arrival, unsigned phase) { emulate::await_load(&arrival, phase); }
inline void bulk_store(uint4* to, const uint4* from, int count) {
  emulate::bulk_copy(to, from, size_t(count) * 16, nullptr);
}
inline void await_stores_read() { emulate::await_stores(false); }
inline void await_stores() { emulate::await_stores(true); }
inline void fence_copies() { emulate::pause(); }
