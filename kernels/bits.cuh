// Conjugates and real parts of complex numbers as bits, so a NaN keeps its bits.
#ifndef MESHSOLVE_BITS_CUH
#define MESHSOLVE_BITS_CUH

#include "common.cuh"

// Elements of 8 and 16 bytes as complex numbers, the real part first. Those of 4 bytes are real.
template <int S>
struct ComplexBits;
template <>
struct ComplexBits<4> {
  static __device__ unsigned conjugate(unsigned x) { return x; }
  static __device__ unsigned real(unsigned x) { return x; }
};
template <>
struct ComplexBits<8> {
  static __device__ uint2 conjugate(uint2 x) {
    x.y ^= 0x80000000;
    return x;
  }
  static __device__ uint2 real(uint2 x) {
    x.y = 0;
    return x;
  }
};
template <>
struct ComplexBits<16> {
  static __device__ uint4 conjugate(uint4 x) {
    x.w ^= 0x80000000;
    return x;
  }
  static __device__ uint4 real(uint4 x) {
    x.z = x.w = 0;
    return x;
  }
};

#endif
