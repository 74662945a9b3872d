// Pieces of memory of the same length, moved in place by a permutation that is computed.
//
// A piece is cut into slices (slice.cuh); what happens to one slice of all pieces does not
// depend on the others. A warp takes a slice of some piece on chip (in registers, or by copies that
// go on by themselves, carrier.cuh) and goes along the cycle: it takes the slice where its own
// belongs, stores its own there, and so on. Cycles may be few and
// as long as the array, so many warps begin on the same cycle. A bit for each slice of each piece,
// all zero before, says that somebody has taken it.
//
// Who begins at a place loads its slice, then sets the bit, and goes on if it was not set. Who
// comes to a place with the slice that belongs there is the only one ever to store there. If it
// finds the bit not set, nobody else will take the slice, which may be loaded before or after: the
// load need not wait for the bit. If it finds the bit set, the one who began there had loaded
// before: it stores what it has and stops. No line is read from a first-level cache in an older
// state than it may have, as slices are only read before they are first stored to.
#ifndef MESHSOLVE_PIECES_CUH
#define MESHSOLVE_PIECES_CUH

#include "carrier.cuh"

// Sets bit `i` for the warp and says whether it was set.
__device__ inline bool claimed(unsigned* bits, Size i) {
  unsigned was = 0;
  if (lane_index() == 0) was = atomicOr(bits + i / 32, 1u << i % 32);
  return __shfl_sync(ALL_LANES, was, 0) >> i % 32 & 1;
}

// A word of bits as some other warp may just have left it, the same for all lanes.
__device__ inline unsigned peek(const unsigned* bits) {
  unsigned word = 0;
  if (lane_index() == 0) word = *static_cast<const volatile unsigned*>(bits);
  return __shfl_sync(ALL_LANES, word, 0);
}

// From piece `start` on until a slice that somebody else has taken. `pieces.target(h)` says where
// piece h belongs and `pieces.at(h)` where it lies, in elements. The `length` is that of a slice at
// most.
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
      __threadfence();  // as the one who set it had
      carrier.put(there, length);
      return;
    }
    carrier.put(there, length);
    carrier.turn();
    place = pieces.target(place);
  }
}

// Calls begin(slice, bits of the slice, piece) for pieces that nobody has taken, `count` of them in
// each slice. Units of work are 32 pieces of a slice; `bits` has ceil(count / 32) words, all zero,
// for each slice.
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

// Every piece of `length` elements goes where it belongs; long ones of 16-byte elements by bulk
// copies, if there are such.
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
