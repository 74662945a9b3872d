// Moves pieces of memory of the same length in place, by a permutation that is computed.
//
// A piece is cut into slices (slice.cuh). The moves of one slice of all pieces do not depend on
// other slices. A warp takes a slice of some piece on chip, in registers or by asynchronous copies
// (carrier.cuh), and follows the cycle. It takes the slice in the place of its own, stores its own
// there, and so on. Cycles may be few and as long as the array, so many warps begin on the same
// cycle. A bit for each slice of each piece, initially zero, marks a slice that a warp has taken.
//
// A warp that begins at a place loads its slice, then sets the bit, and continues if it was not
// set. A warp that arrives with the slice for a place is the only one ever to store there. If it
// finds the bit not set, no other warp will take the slice there. That slice may be loaded before
// or after, so the load need not wait for the bit. If it finds the bit set, the warp that began
// there had loaded before, so the arriving warp stores its slice and stops. A first-level cache
// cannot hold stale lines, because slices are read only before the first store to them.
#ifndef MESHSOLVE_PIECES_CUH
#define MESHSOLVE_PIECES_CUH

#include "carrier.cuh"

// Sets bit `i` for the warp and returns whether it was set.
__device__ inline bool claimed(unsigned* bits, Size i) {
  unsigned was = 0;
  if (lane_index() == 0) was = atomicOr(bits + i / 32, 1u << i % 32);
  return __shfl_sync(ALL_LANES, was, 0) >> i % 32 & 1;
}

// A word of bits, including other warps' latest changes, the same for all lanes.
__device__ inline unsigned peek(const unsigned* bits) {
  unsigned word = 0;
  if (lane_index() == 0) word = *static_cast<const volatile unsigned*>(bits);
  return __shfl_sync(ALL_LANES, word, 0);
}

// Moves slices from piece `start` on until one that another warp has taken. `pieces.target(h)` is
// where piece h belongs, `pieces.at(h)` its offset in elements. `length` is at most that of a
// slice.
template <int S, typename Carrier, typename Pieces>
__device__ void follow(Carrier& carrier, const Pieces& pieces, Element<S>* data, int length,
                       unsigned* bits, Size start) {
  Size place = pieces.target(start);
  if (place == start) return;
  carrier.take(data + pieces.at(start), length);
  carrier.taken();
  __threadfence();  // all lanes have loaded before the bit is set
  __syncwarp();
  if (claimed(bits, start)) return;
  carrier.turn();
  for (;;) {
    Element<S>* there = data + pieces.at(place);
    carrier.take(there, length);
    const bool last = claimed(bits, place);
    carrier.taken();
    if (last) {
      __threadfence();  // as the warp that set it did
      carrier.put(there, length);
      return;
    }
    carrier.put(there, length);
    carrier.turn();
    place = pieces.target(place);
  }
}

// Calls begin(slice, bits of the slice, piece) for pieces that no warp has taken, `count` of them
// in each slice. Units of work are 32 pieces of a slice. `bits` has ceil(count / 32) words, all
// zero, for each slice.
template <typename Begin>
__device__ void begin_everywhere(Size count, Size slices, unsigned* bits, Begin begin) {
  const Size words = ceil_div(count, 32), units = words * slices;
  for (Size unit = warp_index(); unit < units; unit += warp_count()) {
    const Size slice = unit / words, first = unit % words * 32;
    unsigned* mine = bits + slice * words;
    unsigned open = count - first < 32 ? (1u << (count - first)) - 1 : ALL_LANES;
    while ((open &= ~peek(mine + first / 32)) != 0) {
      const Size start = first + (__ffs(open) - 1);
      open &= open - 1;
      begin(slice, mine, start);
    }
  }
}

template <int S, typename Carrier, typename Pieces>
__device__ void move_by(Carrier& carrier, const Pieces& pieces, Size count, Size length,
                        Element<S>* data, unsigned* bits) {
  constexpr Size LENGTH = Slice<S>::LENGTH;
  begin_everywhere(count, ceil_div(length, LENGTH), bits, [&](Size slice, unsigned* mine, Size h) {
    const Size offset = slice * LENGTH;
    const int part = int(smaller(LENGTH, length - offset));
    follow<S>(carrier, pieces, data + offset, part, mine, h);
  });
}

// Moves every piece of `length` elements to its place; long ones of 16-byte elements by bulk
// copies, if the architecture has them.
template <int S, typename Pieces>
__device__ void move_pieces(Buffers<S>& buffers, const Pieces& pieces, Size count, Size length,
                            Element<S>* data, unsigned* bits) {
#if HAS_BULK_COPIES
  if constexpr (S == 16) {
    if (bulk_copies() && length >= Size(Slice<S>::LENGTH)) {
      ByCopies carrier(buffers);
      move_by<S>(carrier, pieces, count, length, data, bits);
      carrier.finish();
      return;
    }
  }
#endif
  InRegisters<Slice<S>> carrier;
  move_by<S>(carrier, pieces, count, length, data, bits);
}

#endif
