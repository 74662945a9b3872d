// CUDA as plain C++17, for the logic of kernels/*.cu on a machine without a GPU.
//
// A file of kernels is compiled with `g++ -x c++ -include emulate.h`, its entry points become
// ordinary functions, and emulate.cc calls one of them for every thread of a grid. All blocks are
// resident; threads are fibers, of which one runs until it comes to a barrier, an exchange within
// its warp, an atomic operation or a fence; then any thread of any block goes on, chosen by a seed.
// So missing barriers show, and blocks are interleaved in as many ways as there are seeds.
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
struct Index {
  unsigned x, y, z;
};

namespace emulate {

struct Thread {
  Index thread, block, block_count;
};

// The thread that runs.
extern thread_local const Thread* current;

void* shared_memory(size_t bytes, size_t alignment);
// Lets others go on.
void pause();
// Waits for all threads of the block, which must come to the same line.
void meet_block(const char* file, int line);
// Waits for all lanes of the warp, which must come to the same line, and returns what `lane`
// brought.
unsigned long long meet_warp(unsigned long long bits, unsigned lane, const char* file, int line);
// Stops the launch; it reports this message.
[[noreturn]] void fail(const char* what, const char* file, int line);

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
