// What the emulated driver offers to the emulated libraries above it.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>

namespace driver {

// What a function returns instead of doing anything, as a test has asked for; 0 otherwise.
int refused(const char* function);
// The current thread has given its device what waits for another device, until it is `over`.
void await_others(std::function<bool()> over);
// Whether what may hold a whole device, as loading a kernel, would hold one that others wait for.
bool is_awaited();
// Gives the device of that number work that is done when somebody waits for all of the device;
// whether there is that device.
bool extra(int number, std::function<void()> work);
// The context that the thread has entered, or null; the number of its device.
void* context();
int device();

// A piece of work's place in a stream.
struct Place {
  void* stream;
  size_t number;
};
// What work returns that cannot be done yet: its stream stays there, and it is asked again.
constexpr int NOT_YET = -1;
// Gives a stream of the current context work; 0, or the driver's status.
int enqueue(void* stream, std::function<int()> work, Place* place = nullptr);
// Within work: lets another stream do all that comes before a place. Whether it has.
bool reached(Place place);
// Streams that stay where they are try again.
void wake();
// Keeps streams from working, and others from giving them work.
std::unique_lock<std::recursive_mutex> hold();

}  // namespace driver
