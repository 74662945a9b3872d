// Shared state of the parts of the emulated driver.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "driver.h"

namespace driver {

using Word = unsigned long long;

enum Status {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  PEER_ACCESS_UNSUPPORTED = 217,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  LAUNCH_TIMEOUT = 702,
  LAUNCH_FAILED = 719,
};

struct Device {
  int retained = 0;
};
extern Device devices[3];

struct Thread {
  std::vector<Device*> contexts;
  // The call of this function after `skip` others returns `status`.
  std::string fails;
  int skip = 0, status = SUCCESS;
  // The major compute capability of the devices that it queries.
  int capability = 9;
  // Its next clearing of memory clears a byte too many.
  bool overruns = false;
  std::vector<std::string> launched;
  // Functions that it has called since its first query for them.
  bool is_recorded = false;
  std::vector<std::string> called;
  // For its enqueued work that waits for other devices: whether that is over.
  std::vector<std::function<bool()>> awaited;
  // Work of devices outside of all streams.
  std::vector<std::pair<Device*, std::function<void()>>> on_own_streams;
};
Thread& self();
// The context that the thread has entered, or null.
Device* current();

struct Stream {
  Device* context;
  std::deque<std::function<int()>> queue;
  int failed = SUCCESS;
  // The thread that made it: tests run at the same time.
  const Thread* thread = nullptr;
  // Pieces of work that it has received and finished.
  size_t given = 0, done = 0;
  // Whether it runs work as soon as it is enqueued.
  bool is_eager = false;
  // Whether it is a stream of the library, in addition to the caller's.
  bool is_side = false;
};

// Held during access to the lists below.
extern std::mutex mutex;
extern std::vector<std::unique_ptr<Stream>> streams;

template <typename T>
T* known(const std::vector<std::unique_ptr<T>>& all, void* handle) {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& one : all) {
    if (one.get() == handle) return one.get();
  }
  return nullptr;
}

// A stream of the current context.
Stream* here(void* handle);
// Enqueues work on a stream, or runs all enqueued work.
int give(Stream& stream, std::function<int()> work);
int finish(Stream& stream);

#define REFUSED \
  if (int status = driver::refused(__func__)) return status;
#define EXPECT(condition, status) \
  if (!(condition)) return status;

}  // namespace driver
