// Pivots of a panel as the library has them: rows of the matrix, from 0.

#include "common.cuh"

// to[i] <- from[i] - 1 + first: from numbers of a panel's rows from 1 to those of the matrix.
KERNEL number_pivots(int* to, const long long* from, Size count, int first) {
  for (Size i = thread_index(); i < count; i += thread_count()) to[i] = int(from[i]) - 1 + first;
}
