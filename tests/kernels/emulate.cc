// The threads of emulate.h: fibers, switched by setjmp and longjmp after ucontext has given each a
// stack.

#include "emulate.h"

#include <ucontext.h>

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace emulate {

thread_local const Thread* current = nullptr;

namespace {

constexpr size_t STACK = 64 << 10;
// The shared memory of a block without a special request.
constexpr size_t SHARED_BYTES = 48 << 10;
constexpr unsigned LANES = 32;
constexpr unsigned char GARBAGE = 0xCB;

struct Site {
  const char* file = nullptr;
  int line = 0;
  bool operator!=(const Site& other) const {
    return line != other.line || (file != other.file && std::strcmp(file, other.file) != 0);
  }
};

// Threads that wait for each other.
struct Barrier {
  std::vector<struct Fiber*> waiting;
  Site site;
};

struct Warp {
  Barrier barrier;
  // Values of this exchange and of the one before, which slower lanes still have to read.
  unsigned long long brought[2][LANES];
  unsigned round = 0;
};

struct Block {
  std::vector<struct Fiber*> ready;
  Barrier barrier;
  std::vector<Warp> warps;
  alignas(128) unsigned char shared[SHARED_BYTES];
};

struct Fiber {
  Thread index;
  Block* block = nullptr;
  Warp* warp = nullptr;
  size_t shared = 0;
  jmp_buf where;
  ucontext_t start;
  std::unique_ptr<char[]> stack;
  bool started = false;
};

// A started bulk copy.
struct Copy {
  struct Fiber* owner;
  unsigned char* to;
  const unsigned char* from;
  Arrival* arrival;
  std::vector<unsigned char> content;
  bool read = false;
};

// An arrival with expected loads: this mark, the bytes still expected, and the phase in the last
// bit.
constexpr unsigned long long EXPECTED = 0xA1B2C3D4ull << 32;

struct Machine {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<std::unique_ptr<Block>> blocks;
  Fiber* running = nullptr;
  jmp_buf scheduler;
  ucontext_t scheduler_context;
  void (*body)(void*) = nullptr;
  void* context = nullptr;
  size_t left = 0;
  unsigned threads = 0;
  std::string error;
  unsigned long long random = 0;
  bool bulk_copies = true;
  std::vector<Copy> copies;

  unsigned long long next() {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return random;
  }
};

// A pointer, because a library that is loaded late has little room for thread-local data.
thread_local Machine* own = nullptr;
#define machine (*own)

// Frees it when the thread ends: stacks of a thousand fibers take much memory.
struct Owner {
  ~Owner() {
    delete own;
    own = nullptr;
  }
};

void leave() {
  if (!_setjmp(machine.running->where)) _longjmp(machine.scheduler, 1);
}

// Reads one of the copies, or writes it if it has been read.
void go_on(size_t which) {
  Copy& copy = machine.copies[which];
  if (!copy.read) {
    std::memcpy(copy.content.data(), copy.from, copy.content.size());
    copy.read = true;
    return;
  }
  std::memcpy(copy.to, copy.content.data(), copy.content.size());
  // The phase ends with its only load.
  if (copy.arrival) copy.arrival->state = (copy.arrival->state & 1) ^ (EXPECTED | 1);
  std::swap(copy, machine.copies.back());
  machine.copies.pop_back();
}

bool in_shared_memory(const void* at, size_t bytes) {
  const unsigned char* shared = machine.running->block->shared;
  const unsigned char* first = static_cast<const unsigned char*>(at);
  return shared <= first && first + bytes <= shared + SHARED_BYTES;
}

unsigned long long state_of(const Arrival* arrival) {
  if ((arrival->state ^ EXPECTED) >> 32 != 0) fail("an arrival without loads", __FILE__, __LINE__);
  return arrival->state;
}

// The next launch reuses a fiber.
void run_fiber() {
  for (;;) {
    machine.body(machine.context);
    for (const Copy& copy : machine.copies) {
      if (copy.owner == machine.running) fail("bulk copies outlive a thread", __FILE__, __LINE__);
    }
    machine.left--;
    leave();
  }
}

void resume(Fiber* fiber) {
  machine.running = fiber;
  current = &fiber->index;
  if (_setjmp(machine.scheduler)) return;
  if (fiber->started) _longjmp(fiber->where, 1);
  fiber->started = true;
  fiber->stack.reset(new char[STACK]);
  getcontext(&fiber->start);
  fiber->start.uc_stack.ss_sp = fiber->stack.get();
  fiber->start.uc_stack.ss_size = STACK;
  fiber->start.uc_link = nullptr;
  makecontext(&fiber->start, run_fiber, 0);
  swapcontext(&machine.scheduler_context, &fiber->start);
}

void wait(Barrier& barrier, size_t expected, Site site, const char* differ) {
  Fiber* self = machine.running;
  if (barrier.waiting.empty()) {
    barrier.site = site;
  } else if (barrier.site != site) {
    fail(differ, site.file, site.line);
  }
  barrier.waiting.push_back(self);
  if (barrier.waiting.size() == expected) {
    auto& ready = self->block->ready;
    ready.insert(ready.end(), barrier.waiting.begin(), barrier.waiting.end());
    barrier.waiting.clear();
  }
  leave();
}

}  // namespace

void* shared_memory(size_t bytes, size_t alignment) {
  Fiber* self = machine.running;
  const size_t at = (self->shared + alignment - 1) / alignment * alignment;
  self->shared = at + bytes;
  if (self->shared > SHARED_BYTES) fail("too much shared memory", __FILE__, __LINE__);
  return self->block->shared + at;
}

void pause() {
  machine.running->block->ready.push_back(machine.running);
  leave();
}

void meet_block(const char* file, int line) {
  wait(machine.running->block->barrier, machine.threads, {file, line},
       "threads of a block meet at different lines");
}

unsigned long long meet_warp(unsigned long long bits, unsigned lane, const char* file, int line) {
  Warp* warp = machine.running->warp;
  const unsigned round = warp->round % 2;
  warp->brought[round][machine.running->index.thread.x % LANES] = bits;
  if (warp->barrier.waiting.size() + 1 == LANES) warp->round++;
  wait(warp->barrier, LANES, {file, line}, "lanes of a warp meet at different lines");
  return warp->brought[round][lane];
}

bool bulk_copies() { return machine.bulk_copies; }

void expect_loads(Arrival* arrival) {
  if (!in_shared_memory(arrival, sizeof(Arrival))) fail("an arrival elsewhere", __FILE__, __LINE__);
  arrival->state = EXPECTED;
}

void bulk_copy(void* to, const void* from, size_t bytes, Arrival* arrival) {
  const bool aligned = (uintptr_t(to) | uintptr_t(from) | bytes) % 16 == 0 && bytes > 0;
  if (!aligned) fail("a bulk copy at odd places", __FILE__, __LINE__);
  const bool load = arrival != nullptr;
  if (in_shared_memory(to, bytes) != load || in_shared_memory(from, bytes) == load) {
    fail("a bulk copy between other memories", __FILE__, __LINE__);
  }
  if (load) {
    if (state_of(arrival) >> 1 != EXPECTED >> 1) fail("two loads at once", __FILE__, __LINE__);
    arrival->state += bytes << 1;
  }
  Copy copy = {machine.running,
               static_cast<unsigned char*>(to),
               static_cast<const unsigned char*>(from),
               arrival,
               {}};
  copy.content.resize(bytes);
  machine.copies.push_back(std::move(copy));
  pause();
}

void await_load(Arrival* arrival, unsigned phase) {
  while ((state_of(arrival) & 1) == phase) {
    if (arrival->state >> 1 == EXPECTED >> 1) fail("nothing is loaded", __FILE__, __LINE__);
    pause();
  }
}

void await_stores(bool written) {
  const Fiber* self = machine.running;
  auto waits = [&](const Copy& copy) {
    return copy.owner == self && copy.arrival == nullptr && (written || !copy.read);
  };
  while (std::any_of(machine.copies.begin(), machine.copies.end(), waits)) pause();
}

void fail(const char* what, const char* file, int line) {
  machine.error = std::string(what) + ": " + file + ":" + std::to_string(line);
  _longjmp(machine.scheduler, 1);
}

}  // namespace emulate

// Calls `body(context)` for every thread of a grid, on a device with bulk copies or without.
// Returns null, or an error message.
extern "C" const char* emulate_launch(unsigned blocks, unsigned threads, unsigned long long seed,
                                      int bulk_copies, void (*body)(void*), void* context) {
  using namespace emulate;
  thread_local Owner owner;
  if (own == nullptr)
    own = new Machine,
    static_cast<void>(&owner);  // lives as long as the system's thread may launch
  Machine& m = machine;
  m.body = body, m.context = context, m.threads = threads;
  m.left = size_t(blocks) * threads, m.random = seed * 0x9E3779B97F4A7C15 | 1;
  m.error.clear(), m.copies.clear(), m.bulk_copies = bulk_copies != 0;
  while (m.blocks.size() < blocks) m.blocks.emplace_back(new Block);
  while (m.fibers.size() < m.left) m.fibers.emplace_back(new Fiber);
  for (unsigned b = 0; b < blocks; b++) {
    Block& block = *m.blocks[b];
    block.ready.clear();
    block.barrier = {};
    block.warps.assign(threads / LANES, {});
    std::memset(block.shared, GARBAGE, SHARED_BYTES);
    for (unsigned t = 0; t < threads; t++) {
      Fiber* fiber = m.fibers[b * threads + t].get();
      fiber->index = {{t, 0, 0}, {b, 0, 0}, {blocks, 1, 1}};
      fiber->block = &block, fiber->warp = &block.warps[t / LANES], fiber->shared = 0;
      block.ready.push_back(fiber);
    }
  }
  std::vector<Block*> live;
  for (unsigned b = 0; b < blocks; b++) live.push_back(m.blocks[b].get());
  while (m.left > 0 && m.error.empty()) {
    if (live.empty()) {
      m.error = "some threads wait for others that have ended";
      break;
    }
    if (!m.copies.empty() && m.next() % 4 == 0) go_on(m.next() % m.copies.size());
    const size_t chosen = m.next() % live.size();
    auto& ready = live[chosen]->ready;
    if (ready.empty()) {  // no other block lets threads of this block continue
      live[chosen] = live.back(), live.pop_back();
      continue;
    }
    if (m.next() % 2) std::swap(ready.back(), ready[m.next() % ready.size()]);
    Fiber* fiber = ready.back();
    ready.pop_back();
    resume(fiber);
  }
  if (m.error.empty()) return nullptr;
  m.fibers.clear();  // they have not reached their ends
  return m.error.c_str();
}
