// What the emulated driver offers to the emulated libraries above it.
#pragma once

#include <functional>

namespace driver {

// What a function returns instead of doing anything, as a test has asked for; 0 otherwise.
int refused(const char* function);
// Gives a stream of the current context work; 0, or the driver's status.
int enqueue(void* stream, std::function<int()> work);
// The context that the thread has entered, or null.
void* context();

}  // namespace driver
