// Shared by all kernels: elements as opaque bits, and the numbering of a grid.
//
// Every launch has THREADS threads in a block and any number of blocks. Blocks are persistent and
// take pieces of work by their number. Sizes and offsets have 64 bits. The name of an entry point
// ends with the bytes of an element: 4, 8 or 16. Elements are aligned to that size. Kernels move
// their bits and never interpret them, so NaN payloads survive.
//
// A file is also compiled as plain C++ for tests on the CPU (tests/kernels/emulate.h), hence
// SHARED.
#ifndef MESHSOLVE_COMMON_CUH
#define MESHSOLVE_COMMON_CUH

#ifndef THREADS
#define THREADS 256
#endif

// At least so many blocks run on a multiprocessor, which leaves each thread 80 registers.
constexpr int BLOCKS = 3;

// A variable that the threads of a block share.
#ifndef SHARED
#define SHARED(Type, name) __shared__ Type name
#endif

// Defines an entry point for every size of elements.
#define EACH_SIZE(ENTRY) ENTRY(4) ENTRY(8) ENTRY(16)
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
// A kernel with its data in registers: two blocks on a multiprocessor, 128 registers.
#define LARGE_KERNEL extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS - 1)

using Size = unsigned long long;

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xFFFFFFFF;

template <int S>
struct Bits;
template <>
struct Bits<4> {
  using Type = unsigned;
};
template <>
struct Bits<8> {
  using Type = uint2;
};
template <>
struct Bits<16> {
  using Type = uint4;
};

// An element of S bytes.
template <int S>
using Element = typename Bits<S>::Type;

template <typename T>
__device__ inline T smaller(T x, T y) {
  return y < x ? y : x;
}

__device__ inline Size ceil_div(Size x, Size y) { return (x + y - 1) / y; }

// The index of a thread in the grid, and the number of threads; the same for warps.
__device__ inline Size thread_index() { return Size(blockIdx.x) * THREADS + threadIdx.x; }
__device__ inline Size thread_count() { return Size(gridDim.x) * THREADS; }
__device__ inline Size warp_index() { return thread_index() / WARP; }
__device__ inline Size warp_count() { return thread_count() / WARP; }
__device__ inline int lane_index() { return threadIdx.x % WARP; }

#endif
