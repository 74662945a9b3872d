// N x 32 elements in the registers of a warp, N in each lane. The decomposition of Catanzaro,
// Keller and Garland (PPoPP'14, section 6.2) transposes them there.
//
// R2C makes structures of rows. Let row i of lane j be element i * 32 + j of 32 consecutive
// structures; then lane j has structure j afterwards. C2R makes rows of structures. Columns are
// rotated lane by lane by barrel rotations (6.2.2), and the warp's exchanges shuffle rows (6.2.1).
// The permutation of the rows only selects the register for each load or store (6.2.3): the caller
// does it, by `permuted`.
#ifndef MESHSOLVE_REGISTERS_CUH
#define MESHSOLVE_REGISTERS_CUH

#include "common.cuh"

// Shuffles a row between lanes: every lane gets the element of lane `from` mod 32.
__device__ inline unsigned shuffle(unsigned x, int from) { return __shfl_sync(ALL_LANES, x, from); }
__device__ inline uint2 shuffle(uint2 x, int from) {
  return {shuffle(x.x, from), shuffle(x.y, from)};
}
__device__ inline uint4 shuffle(uint4 x, int from) {
  return {shuffle(x.x, from), shuffle(x.y, from), shuffle(x.z, from), shuffle(x.w, from)};
}

// By values: registers have no addresses.
__device__ inline unsigned select(bool which, unsigned x, unsigned y) { return which ? x : y; }
__device__ inline uint2 select(bool which, uint2 x, uint2 y) {
  return {select(which, x.x, y.x), select(which, x.y, y.y)};
}
__device__ inline uint4 select(bool which, uint4 x, uint4 y) {
  return {select(which, x.x, y.x), select(which, x.y, y.y), select(which, x.z, y.z),
          select(which, x.w, y.w)};
}

// Row k takes from row k + amount, or k - amount if not UP. Amounts are at most MOST and differ
// from lane to lane. It works bit by bit, from BY on, along the cycles of a step, so it needs one
// more register.
template <int N, int MOST, bool UP, int BY = 1, typename T>
__device__ inline void rotate(T (&x)[N], int amount) {
  if constexpr (BY <= MOST) {
    constexpr int STEP = UP ? BY : N - BY, CYCLES = BY < (N & -N) ? BY : N & -N;  // gcd(N, BY)
    const bool set = amount & BY;
#pragma unroll
    for (int first = 0; first < CYCLES; first++) {
      const T kept = x[first];
#pragma unroll
      for (int k = 0; k < N / CYCLES; k++) {
        const int to = (first + k * STEP) % N, from = (to + STEP) % N;
        x[to] = select(set, select(from == first, kept, x[from]), x[to]);
      }
    }
    rotate<N, MOST, UP, 2 * BY>(x, amount);
  }
}

// The index maps of the paper for an N x 32 matrix. C = gcd(N, 32) and B are powers of two, so
// remainders are bits. A row is C x B before the shuffle of C2R, element l*B + h, and B x C after
// it, element v*C + r.
template <int N>
struct Registers {
  static_assert(2 <= N && N <= WARP, "structures of 2 to 32 elements");
  static constexpr int C = N & -N, A = N / C, B = WARP / C;
  // The inverse of A, which is odd unless B = 1, modulo B.
  static constexpr int INVERSE = A * (2 - A * A) & (B - 1);

  // s'_0(i), eq. 26: row i of one side is row permuted(i) of the side that C2R has shuffled and R2C
  // will shuffle.
  static __device__ constexpr int permuted(int i) { return (i * WARP - i / A) % N; }

  // The multiple of C that contains row i + l, modulo B: for l below C - i % C, and for the others.
  static __device__ constexpr int turn(int i) { return i / C & (B - 1); }
  static __device__ constexpr int next(int i) { return (i / C + 1) % A & (B - 1); }

  // The lane of element j of row i before C2R, eq. 31.
  static __device__ int unshuffled(int i, int j) {
    const int r = j & (C - 1), v = j / C;
    const int h = (v - (r >= i % C ? turn(i) : next(i))) * INVERSE;
    return ((r - i) * B & (WARP - B)) | (h & (B - 1));
  }

  // The same before R2C, eq. 24.
  static __device__ int shuffled(int i, int j) {
    const int l = j / B, h = j & (B - 1);
    const int v = (l < C - i % C ? turn(i) : next(i)) + h * A;
    return (v * C & (WARP - C)) | ((i + l) & (C - 1));
  }

  // Expects row i loaded as row permuted(i).
  template <typename T>
  static __device__ void r2c(T (&x)[N]) {
    const int j = lane_index();
    rotate<N, N - 1, false>(x, j % N);
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = shuffle(x[i], shuffled(i, j));
    rotate<N, C - 1, false>(x, j / B);
  }

  // Leaves in row permuted(i) what belongs in row i.
  template <typename T>
  static __device__ void c2r(T (&x)[N]) {
    const int j = lane_index();
    rotate<N, C - 1, true>(x, j / B);
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = shuffle(x[i], unshuffled(i, j));
    rotate<N, N - 1, true>(x, j % N);
  }
};

#endif
