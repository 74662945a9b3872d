// Streams of the emulated driver, events by which they wait for each other, and copies.
//
// A stream does nothing until a wait for it, so that a read that comes too early is wrong here,
// too. The exceptions are the library's streams on the first device, which run work as early as
// they may.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "state.h"

using namespace driver;

namespace {

// The place in a stream's work that an event represents.
struct Event {
  std::chrono::steady_clock::time_point when;
  Stream* stream = nullptr;
  size_t number = 0;
};

std::vector<std::unique_ptr<Stream>> destroyed_streams;
std::set<void*> destroyed_events;
// Held while streams run or receive work, because one may run another one.
std::recursive_mutex working;
// A stream has received work that another one may wait for.
std::condition_variable_any changed;

bool living(void* event) {
  std::lock_guard<std::mutex> lock(mutex);
  return destroyed_events.count(event) == 0;
}

// Runs a stream until it has finished `number` pieces in all: its status, or NOT_YET.
int work_until(Stream& stream, size_t number) {
  std::lock_guard<std::recursive_mutex> lock(working);
  while (stream.done < number && !stream.queue.empty()) {
    const int status = stream.failed == SUCCESS ? stream.queue.front()() : SUCCESS;
    if (status == NOT_YET) return NOT_YET;
    if (stream.failed == SUCCESS) stream.failed = status;
    stream.queue.pop_front();
    stream.done++;
  }
  return stream.failed;
}

}  // namespace

namespace driver {

std::vector<std::unique_ptr<Stream>> streams;

Stream* here(void* handle) {
  Stream* stream = known(streams, handle);
  return stream && stream->context == current() ? stream : nullptr;
}

int give(Stream& stream, std::function<int()> work) {
  std::lock_guard<std::recursive_mutex> lock(working);
  stream.queue.push_back(std::move(work));
  stream.given++;
  changed.notify_all();
  if (stream.is_eager) work_until(stream, ~size_t(0));
  return SUCCESS;
}

// Work that never becomes possible ends the tests.
int finish(Stream& stream) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  std::unique_lock<std::recursive_mutex> lock(working);
  for (;;) {
    const int status = work_until(stream, ~size_t(0));
    if (status != NOT_YET) return status;
    if (changed.wait_until(lock, end) == std::cv_status::timeout) {
      std::fputs("emulated driver: a stream waits for what never comes\n", stderr);
      std::abort();
    }
  }
}

int enqueue(void* handle, std::function<int()> work, Place* place) {
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  if (self().is_recorded && stream->is_side) self().called.back() += " on the second stream";
  std::lock_guard<std::recursive_mutex> lock(working);
  if (place) *place = {stream, stream->given};
  return give(*stream, std::move(work));
}

bool reached(Place place) {
  Stream* stream = static_cast<Stream*>(place.stream);
  return stream->done >= place.number || work_until(*stream, place.number) != NOT_YET;
}

void wake() { changed.notify_all(); }

std::unique_lock<std::recursive_mutex> hold() {
  return std::unique_lock<std::recursive_mutex>(working);
}

bool on_own_stream(int number, std::function<void()> work) {
  if (number < 0 || number >= 3) return false;
  self().on_own_streams.emplace_back(&devices[number], std::move(work));
  return true;
}

}  // namespace driver

extern "C" {

// Makes a stream of a device, in its context.
void* emulated_stream(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  streams.emplace_back(new Stream{&devices[device], {}, SUCCESS, &self()});
  return streams.back().get();
}

// The stream's next work takes this long.
int emulated_delay(void* handle, int milliseconds) {
  return give(*known(streams, handle), [=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    return SUCCESS;
  });
}

int cuMemsetD8Async(Word at, unsigned char value, size_t bytes, void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  bytes += std::exchange(self().overruns, false);
  return give(*stream, [=] {
    std::memset(reinterpret_cast<void*>(at), value, bytes);
    return SUCCESS;
  });
}

int cuMemcpyDtoDAsync_v2(Word to, Word from, size_t bytes, void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  return give(*stream, [=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return SUCCESS;
  });
}

int cuMemcpyHtoDAsync_v2(Word to, const void* from, size_t bytes, void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  return give(*stream, [=] {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return SUCCESS;
  });
}

int cuMemcpyDtoHAsync_v2(void* to, Word from, size_t bytes, void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  return give(*stream, [=] {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return SUCCESS;
  });
}

int cuStreamCreate(void** stream, unsigned flags) {
  REFUSED
  EXPECT(current() && flags == 0, INVALID_CONTEXT)
  *stream = emulated_stream(int(current() - devices));
  return SUCCESS;
}

int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  REFUSED
  EXPECT(current(), INVALID_CONTEXT)
  *least = 0, *greatest = -5;
  return SUCCESS;
}

int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  REFUSED
  EXPECT(current() && flags == 1 && -5 <= priority && priority <= 0, INVALID_VALUE)
  *stream = emulated_stream(device());
  static_cast<Stream*>(*stream)->is_eager = device() == 0;
  static_cast<Stream*>(*stream)->is_side = true;
  return SUCCESS;
}

// Another stream may belong to any context.
int cuStreamWaitEvent(void* handle, void* event, unsigned flags) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream && living(event) && flags == 0, INVALID_HANDLE)
  std::lock_guard<std::recursive_mutex> lock(working);
  // The event's present place, even if it is recorded again later.
  const Event now = *static_cast<Event*>(event);
  if (now.stream == nullptr) return SUCCESS;
  return give(*stream, [now] { return work_until(*now.stream, now.number); });
}

int cuStreamDestroy_v2(void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream && stream->queue.empty(), INVALID_HANDLE)
  std::lock_guard<std::mutex> lock(mutex);
  auto same = [&](auto& one) { return one.get() == stream; };
  auto place = std::find_if(streams.begin(), streams.end(), same);
  destroyed_streams.push_back(std::move(*place));  // events still refer to it
  streams.erase(place);
  return SUCCESS;
}

// A real driver has a thread for this; here it runs on the thread that runs the stream.
int cuLaunchHostFunc(void* handle, void (*work)(void*), void* argument) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream && work, INVALID_HANDLE)
  return give(*stream, [=] {
    work(argument);
    return SUCCESS;
  });
}

int cuEventCreate(void** event, unsigned flags) {
  REFUSED
  EXPECT(current() && (flags == 0 || flags == 2), INVALID_VALUE)
  *event = new Event;
  return SUCCESS;
}

int cuEventRecord(void* event, void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream && living(event), INVALID_HANDLE)
  std::lock_guard<std::recursive_mutex> lock(working);
  static_cast<Event*>(event)->stream = stream;
  static_cast<Event*>(event)->number = stream->given + 1;
  return give(*stream, [=] {
    static_cast<Event*>(event)->when = std::chrono::steady_clock::now();
    return SUCCESS;
  });
}

int cuEventElapsedTime(float* milliseconds, void* first, void* second) {
  REFUSED
  const auto until = static_cast<Event*>(second)->when, from = static_cast<Event*>(first)->when;
  EXPECT(until > std::chrono::steady_clock::time_point{}, INVALID_HANDLE)
  const auto between = until - from;
  *milliseconds = std::chrono::duration<float, std::milli>(between).count();
  return SUCCESS;
}

int cuEventDestroy_v2(void* event) {
  REFUSED
  EXPECT(living(event), INVALID_HANDLE)
  // Earlier work of a stream still needs its memory.
  std::lock_guard<std::mutex> lock(mutex);
  destroyed_events.insert(event);
  return SUCCESS;
}

// CUDA_MEMCPY2D.
struct Side {
  size_t x, y;
  unsigned kind;
  char* host;
  Word device;
  void* array;
  size_t pitch;
  char* at() const { return kind == 1 ? host : reinterpret_cast<char*>(device); }
};
struct Copy2d {
  Side from, to;
  size_t width, height;
};

// CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2^31 - 1 on devices. Here small matrices can exceed it.
const size_t MAX_PITCH = 4096;

int cuMemcpy2DAsync_v2(const Copy2d* given, void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  const Copy2d copy = *given;
  for (const Side& side : {copy.from, copy.to}) {
    EXPECT((side.kind == 1 || side.kind == 2) && side.x == 0 && side.y == 0, INVALID_VALUE)
    EXPECT(copy.width <= side.pitch && side.pitch <= MAX_PITCH, INVALID_VALUE)
  }
  return give(*stream, [copy] {
    for (size_t line = 0; line < copy.height; line++) {
      std::memcpy(copy.to.at() + line * copy.to.pitch, copy.from.at() + line * copy.from.pitch,
                  copy.width);
    }
    return SUCCESS;
  });
}

// CUDA_MEMCPY3D_PEER.
struct FarSide {
  size_t x, y, z, level;
  unsigned kind;
  char* host;
  Word device;
  void* array;
  Device* context;
  size_t pitch, height;
};
struct Copy3d {
  FarSide from, to;
  size_t width, height, depth;
};

int cuMemcpy3DPeerAsync(const Copy3d* given, void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  const Copy3d copy = *given;
  EXPECT(copy.depth == 1, INVALID_VALUE)
  for (const FarSide& side : {copy.from, copy.to}) {
    EXPECT(side.kind == 2 && side.context >= devices && side.context < devices + 3, INVALID_VALUE)
    EXPECT(copy.width <= side.pitch && copy.height <= side.height, INVALID_VALUE)
    EXPECT(side.pitch <= MAX_PITCH, INVALID_VALUE)
  }
  return give(*stream, [copy] {
    auto line = [](const FarSide& side, size_t i) {
      return reinterpret_cast<char*>(side.device) + i * side.pitch;
    };
    for (size_t i = 0; i < copy.height; i++) {
      std::memmove(line(copy.to, i), line(copy.from, i), copy.width);
    }
    return SUCCESS;
  });
}

int cuMemcpyPeerAsync(Word to, void* to_context, Word from, void* from_context, size_t bytes,
                      void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  for (void* context : {to_context, from_context}) {
    EXPECT(context >= devices && context < devices + 3, INVALID_CONTEXT)
  }
  return give(*stream, [=] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return SUCCESS;
  });
}

int cuMemsetD2D8Async(Word at, size_t pitch, unsigned char value, size_t width, size_t height,
                      void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  EXPECT(width <= pitch, INVALID_VALUE)
  return give(*stream, [=] {
    for (size_t i = 0; i < height; i++) {
      std::memset(reinterpret_cast<char*>(at) + i * pitch, value, width);
    }
    return SUCCESS;
  });
}

int cuCtxEnablePeerAccess(void* context, unsigned flags) {
  REFUSED
  EXPECT(current() && context != current() && flags == 0, INVALID_CONTEXT)
  static std::set<std::pair<void*, void*>> enabled;
  std::lock_guard<std::mutex> lock(mutex);
  return enabled.insert({current(), context}).second ? SUCCESS : 704;
}

// Runs this thread's work on the device outside of its streams; callers wait for nothing else.
int cuCtxSynchronize() {
  REFUSED
  EXPECT(current(), INVALID_CONTEXT)
  auto waiting = std::move(self().on_own_streams);
  self().on_own_streams.clear();
  for (auto& [device, work] : waiting) {
    if (device == current()) {
      work();
    } else {
      self().on_own_streams.emplace_back(device, std::move(work));
    }
  }
  return SUCCESS;
}

// Only the wait fails here: the stream's work still runs, so that it no longer needs the host's
// memory. CUDA's copies of memory that is not pinned behave so.
int cuStreamSynchronize(void* handle) {
  const int refused = driver::refused(__func__);
  Stream* stream = here(handle);
  EXPECT(stream, refused ? refused : INVALID_HANDLE)
  const int status = finish(*stream);
  return refused ? refused : status;
}

}  // extern "C"
