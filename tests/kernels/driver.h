// What the emulated driver offers to the emulated libraries above it.
#pragma once

#include <functional>

namespace driver {

// What a function returns instead of doing anything, as a test has asked for; 0 otherwise.
int refused(const char* function);
// Gives a stream of the current context work; 0, or the driver's status.
int enqueue(void* stream, std::function<int()> work);
// Gives the device of that number work that is done when somebody waits for all of the device; whether
// there is that device.
bool beside(int number, std::function<void()> work);
// The context that the thread has entered, or null.
void* context();

}  // namespace driver
