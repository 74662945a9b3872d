// Moves whole columns from one distribution to another in place, by the plan of
// `algorithms/redistribute.rs`: block to block-cyclic and back. It works within a device and
// between devices that reach each other's memory.
//
// Columns have `length` elements each, at addresses on any device. First the columns that begin a
// chain are saved: each list has a place and such a column. After all devices have done so, the
// chains shift and the cycles rotate. The moves of one slice of all columns do not depend on other
// slices, so a unit of work is a slice of a list.

#include "slice.cuh"

// Calls visit(which, offset, length) for every slice of `count` sequences of `length` elements.
template <int S, typename Visit>
__device__ void visit_slices(Size count, Size length, Visit visit) {
  constexpr Size LENGTH = Slice<S>::LENGTH;
  const Size slices = ceil_div(length, LENGTH);
  for (Size unit = warp_index(); unit < count * slices; unit += warp_count()) {
    const Size offset = unit % slices * LENGTH;
    visit(unit / slices, offset, int(smaller(LENGTH, length - offset)));
  }
}

// Shifts each list of columns begin[i], begin[i] + 1, .. before begin[i + 1]: every one takes the
// content of the next. The last one of a chain stays; the last one of a cycle takes that of the
// first. A list has two columns or more. The loop runs from the end, where overwritten content is
// in registers.
template <int S, bool CYCLE>
__device__ void shift_columns(Element<S>* const* column, const Size* begin, Size lists,
                              Size length) {
  visit_slices<S>(lists, length, [&](Size i, Size offset, int part) {
    const Size first = begin[i], last = begin[i + 1] - 1;
    Slice<S> held, next;
    held.load(column[CYCLE ? first : last] + offset, part);
    for (Size k = CYCLE ? last : last - 1; k > first; k--) {
      next.load(column[k] + offset, part);
      held.store(column[k] + offset, part);
      held = next;
    }
    held.store(column[first] + offset, part);
  });
}

#define ENTRY(S)                                                                       \
  KERNEL shift_columns_##S(Element<S>* const* column, const Size* begin, Size chains,  \
                           Size length) {                                              \
    shift_columns<S, false>(column, begin, chains, length);                            \
  }                                                                                    \
  KERNEL rotate_columns_##S(Element<S>* const* column, const Size* begin, Size cycles, \
                            Size length) {                                             \
    shift_columns<S, true>(column, begin, cycles, length);                             \
  }
EACH_SIZE(ENTRY)
