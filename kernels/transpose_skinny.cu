// The phases of a plan for skinny arrays, with a side of 2 to 32. `Hold` copies to scratch the data
// that would be overwritten. `Turn` transposes panels from rows to chunks, or back, in nearly the
// same place. `Permute` moves chunks to their places. Before or after, `place_tail` places the tail
// of a tall array.
//
// `turn_panels` is for structures of any size, with a panel in shared memory. Panels that fit in
// registers are transposed there (transpose_registers.cu), except those with a part in scratch,
// which `turn_held` does.

#include "pieces.cuh"
#include "skinny.cuh"

template <int S>
__device__ void hold_runs(const Skinny& skinny, Element<S>* data, Element<S>* scratch) {
  move_tail<S>(skinny, data, scratch, skinny.tall, true, thread_index(), thread_count());
  for (Size run = 1 + blockIdx.x; run < skinny.runs; run += gridDim.x) {
    const Size p = skinny.first(run), reach = skinny.reach(p);
    const Element<S>* from = data + skinny.rows(p);
    Element<S>* to = scratch + skinny.held(run);
    for (Size i = threadIdx.x; i < reach; i += THREADS) to[i] = from[i];
  }
}

template <int S>
__device__ void turn_held(Panel<S>& panel, const Skinny& skinny, Element<S>* data,
                          const Element<S>* scratch) {
  for (Size run = blockIdx.x; run < skinny.runs; run += gridDim.x) {
    const Size p = skinny.tall ? skinny.first(run) : skinny.first(run + 1) - 1;
    if (skinny.holds(run, p)) turn_panel<S>(panel, skinny, data, scratch, run, p);
  }
}

#define ENTRY(S)                                                                                  \
  KERNEL hold_runs_##S(Element<S>* data, Element<S>* scratch, Size tall, Size shorter,            \
                       Size height, Size count, Size rest, Size runs) {                           \
    hold_runs<S>({tall, shorter, height, count, rest, runs}, data, scratch);                      \
  }                                                                                               \
  KERNEL turn_panels_##S(Element<S>* data, Element<S>* scratch, Size tall, Size shorter,          \
                         Size height, Size count, Size rest, Size runs) {                         \
    SHARED(Panel<S>, panel);                                                                      \
    const Skinny skinny = {tall, shorter, height, count, rest, runs};                             \
    turn_runs<S>(skinny, data, scratch,                                                           \
                 [&](Size run, Size p) { turn_panel<S>(panel, skinny, data, scratch, run, p); }); \
  }                                                                                               \
  KERNEL turn_held_##S(Element<S>* data, const Element<S>* scratch, Size tall, Size shorter,      \
                       Size height, Size count, Size rest, Size runs) {                           \
    SHARED(Panel<S>, panel);                                                                      \
    turn_held<S>(panel, {tall, shorter, height, count, rest, runs}, data, scratch);               \
  }                                                                                               \
  KERNEL move_structures_##S(Element<S>* data, Size tall, Size shorter, Size height, Size count,  \
                             Size rest, unsigned* bits) {                                         \
    const Skinny skinny = {tall, shorter, height, count, rest, 1};                                \
    SHARED(Buffers<S>, buffers);                                                                  \
    move_pieces<S>(buffers, skinny, count * shorter, height, data, bits);                         \
  }                                                                                               \
  KERNEL place_tail_##S(Element<S>* data, Element<S>* scratch, Size shorter, Size height,         \
                        Size count, Size rest) {                                                  \
    const Skinny skinny = {1, shorter, height, count, rest, 1};                                   \
    move_tail<S>(skinny, data, scratch, false, false, thread_index(), thread_count());            \
  }
EACH_SIZE(ENTRY)
