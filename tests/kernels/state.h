// What the parts of the emulated driver have in common.
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
  // Of the devices that it asks for, major.
  int capability = 9;
  // Its next clearing of memory takes a byte too many.
  bool overruns = false;
  std::vector<std::string> launched;
  // Functions that it has called since it first asked for them.
  bool is_recorded = false;
  std::vector<std::string> called;
  // Of what it has given that waits for other devices, whether it is over.
  std::vector<std::function<bool()>> awaited;
  // What devices do beside all streams.
  std::vector<std::pair<Device*, std::function<void()>>> extra;
};
Thread& self();
// The context that the thread has entered, or null.
Device* current();

struct Stream {
  Device* context;
  std::deque<std::function<int()>> queue;
  int failed = SUCCESS;
  // Who made it: tests run at the same time.
  const Thread* thread = nullptr;
  // Pieces of work that it has been given and that it has done.
  size_t given = 0, done = 0;
  // Whether it works as soon as it is given something.
  bool is_eager = false;
  // Whether it is one of the library's, beside the caller's.
  bool is_side = false;
};

// Held while the lists below are looked at.
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
// Gives a stream work, or lets it do all that it has been given.
int give(Stream& stream, std::function<int()> work);
int finish(Stream& stream);

#define REFUSED \
  if (int status = driver::refused(__func__)) return status;
#define EXPECT(condition, status) \
  if (!(condition)) return status;

}  // namespace driver
