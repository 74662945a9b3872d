// NCCL on a machine without a GPU, as far as meshsolve calls it. A broadcast runs when the streams
// of all ranks have reached it, at a wait for one of them. It refuses calls that fail or wait
// forever with the real NCCL. These are:
// - a device twice
// - ranks that do not agree
// - kernels and handles that are first used during a broadcast
// - a first broadcast outside of a group, where NCCL connects the devices and lets hosts wait for
//   each other

#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "driver.h"

namespace {

using Word = unsigned long long;

enum { UNHANDLED_CUDA_ERROR = 1, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

struct Communicator;

struct Part {
  const Communicator* of = nullptr;
  driver::Place place = {};
  char* at = nullptr;
};

struct Broadcast {
  size_t bytes;
  int root;
  // By rank.
  std::vector<Part> parts;
  bool is_tried = false, is_done = false;
};

struct Clique {
  size_t ranks;
  std::vector<std::shared_ptr<Broadcast>> broadcasts;
  bool is_connected = false;
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  size_t rank;
  int device;
  // Broadcasts enqueued on it.
  size_t given = 0;
  bool is_ended = false;
};

// Streams still refer to those that have ended.
std::vector<std::unique_ptr<Communicator>> communicators;

// The group of this thread.
thread_local int depth = 0;
thread_local std::vector<std::shared_ptr<Clique>>* grouped = nullptr;

#define REFUSED \
  if (int status = driver::refused(__func__)) return status;
#define EXPECT(condition, status) \
  if (!(condition)) return status;

Communicator* living(void* handle) {
  for (auto& one : communicators) {
    if (one.get() == handle && !one->is_ended) return one.get();
  }
  return nullptr;
}

bool has_come(const Part& part) {
  return part.of && !part.of->is_ended && driver::reached(part.place);
}

// A rank's part of a broadcast, when its stream has reached it.
int work(const Communicator& communicator, Broadcast& broadcast) {
  if (broadcast.is_done || communicator.is_ended) return 0;
  // It lets the other streams reach the broadcast; they must not wait for later work of this one.
  if (broadcast.is_tried) return driver::NOT_YET;
  broadcast.is_tried = true;
  bool all = true;
  for (const Part& part : broadcast.parts) all = all && has_come(part);
  broadcast.is_tried = false;
  if (!all) return driver::NOT_YET;
  const char* from = broadcast.parts[size_t(broadcast.root)].at;
  for (const Part& part : broadcast.parts) std::memmove(part.at, from, broadcast.bytes);
  broadcast.is_done = true;
  return 0;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22703;
  return 0;
}

const char* ncclGetErrorString(int status) {
  return status == INVALID_USAGE ? "invalid usage" : "an emulated error";
}

const char* ncclGetLastError(void*) { return ""; }

int ncclCommInitAll(void** handles, int count, const int* devices) {
  REFUSED
  EXPECT(driver::context(), UNHANDLED_CUDA_ERROR)
  EXPECT(std::set<int>(devices, devices + count).size() == size_t(count), INVALID_USAGE)
  const auto held = driver::hold();
  const auto clique = std::make_shared<Clique>(Clique{size_t(count), {}});
  for (int rank = 0; rank < count; rank++) {
    EXPECT(devices[rank] >= 0 && devices[rank] < 3, INVALID_ARGUMENT)
    communicators.emplace_back(new Communicator{clique, size_t(rank), devices[rank]});
    handles[rank] = communicators.back().get();
  }
  return 0;
}

int ncclCommAbort(void* handle) {
  const auto held = driver::hold();
  Communicator* communicator = living(handle);
  EXPECT(communicator, INVALID_ARGUMENT)
  communicator->is_ended = true;
  driver::wake();
  return 0;
}

int ncclGroupStart() {
  REFUSED
  if (grouped == nullptr) grouped = new std::vector<std::shared_ptr<Clique>>;
  depth++;
  return 0;
}

int ncclGroupEnd() {
  // A group is over in any case.
  EXPECT(depth > 0 && --depth == 0, INVALID_USAGE)
  const auto cliques = std::move(*grouped);
  grouped->clear();
  REFUSED
  const auto held = driver::hold();
  for (auto& clique : cliques) {
    for (const Part& part : clique->broadcasts.back()->parts) EXPECT(part.of, INVALID_USAGE)
    clique->is_connected = true;
  }
  return 0;
}

int ncclBroadcast(Word from, Word to, size_t count, int type, int root, void* handle,
                  void* stream) {
  REFUSED
  const auto held = driver::hold();
  Communicator* communicator = living(handle);
  EXPECT(communicator && driver::context(), INVALID_ARGUMENT)
  Clique& clique = *communicator->clique;
  EXPECT(driver::device() == communicator->device, INVALID_USAGE)
  EXPECT(depth > 0 || clique.is_connected, INVALID_USAGE)
  EXPECT(type == 1 && count > 0 && from == to && to != 0, INVALID_ARGUMENT)
  EXPECT(root >= 0 && size_t(root) < clique.ranks, INVALID_ARGUMENT)
  if (communicator->given == clique.broadcasts.size()) {
    const std::vector<Part> parts(clique.ranks);
    clique.broadcasts.push_back(std::make_shared<Broadcast>(Broadcast{count, root, parts}));
  }
  const auto broadcast = clique.broadcasts[communicator->given];
  EXPECT(broadcast->bytes == count && broadcast->root == root, INVALID_ARGUMENT)
  Part part = {communicator, {}, reinterpret_cast<char*>(to)};
  auto turn = [communicator, broadcast] { return work(*communicator, *broadcast); };
  EXPECT(driver::enqueue(stream, turn, &part.place) == 0, UNHANDLED_CUDA_ERROR)
  driver::await_others(
      [communicator, broadcast] { return communicator->is_ended || broadcast->is_done; });
  broadcast->parts[communicator->rank] = part;
  communicator->given++;
  if (depth > 0) grouped->push_back(communicator->clique);
  return 0;
}

}  // extern "C"
