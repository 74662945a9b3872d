// Fills a block of a column-major matrix with one value: element (i, j) is block[i + j * ld], and
// what lies between the columns is left alone. Elements are bits of 4, 8 or 16 bytes, so that the
// payload of a NaN and the sign of a zero arrive as they are. Any grid will do: threads go along
// the columns in x, blocks across them in y.

template <typename Bits>
__device__ void fill(Bits* block, long long rows, long long cols, long long ld, Bits value) {
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long j = blockIdx.y; j < cols; j += gridDim.y) {
    Bits* column = block + j * ld;
    for (long long i = first; i < rows; i += step) column[i] = value;
  }
}

extern "C" __global__ void fill_4(unsigned int* block, long long rows, long long cols, long long ld,
                                  unsigned int value) {
  fill(block, rows, cols, ld, value);
}

extern "C" __global__ void fill_8(unsigned long long* block, long long rows, long long cols,
                                  long long ld, unsigned long long value) {
  fill(block, rows, cols, ld, value);
}

extern "C" __global__ void fill_16(ulonglong2* block, long long rows, long long cols, long long ld,
                                   ulonglong2 value) {
  fill(block, rows, cols, ld, value);
}
