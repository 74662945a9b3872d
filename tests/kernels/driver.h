// The interface of the emulated driver for the emulated libraries above it.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>

namespace driver {

// The status that a test has requested for a function, which then does nothing else; 0 otherwise.
int refused(const char* function);
// The current thread has enqueued work that waits for another device, until `over` returns true.
void await_others(std::function<bool()> over);
// Whether other devices wait for this device. Work such as loading a kernel, which may block the
// whole device, would then block them.
bool is_awaited();
// Enqueues work on device `number` outside of all streams. It runs at the next wait for the whole
// device. Returns whether the device exists.
bool on_own_stream(int number, std::function<void()> work);
// The context that the thread has entered, or null; the number of its device.
void* context();
int device();

// A piece of work's place in a stream.
struct Place {
  void* stream;
  size_t number;
};
// The result of work that cannot run yet: its stream stays there, and tries again.
constexpr int NOT_YET = -1;
// Enqueues work on a stream of the current context; 0, or the driver's status.
int enqueue(void* stream, std::function<int()> work, Place* place = nullptr);
// Within work: runs another stream up to a place. Returns whether it has reached it.
bool reached(Place place);
// Streams that are blocked try again.
void wake();
// Keeps streams from running, and other threads from enqueueing work.
std::unique_lock<std::recursive_mutex> hold();

}  // namespace driver
