// NVIDIA's driver library on a machine without a GPU, as far as meshsolve calls it: three devices
// whose memory is the host's and whose kernels are the emulated ones (emulate.h).
//
// A stream does nothing until somebody waits for it, so what is read too early is wrong here, too.
// A cubin is the name of a file of kernels. Contexts, modules and streams are checked as the driver
// does: what belongs to another context, or is none, is refused.

#include "driver.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

extern "C" const char* emulate_launch(unsigned blocks, unsigned threads, unsigned long long seed,
                                      int bulk_copies, void (*body)(void*), void* context);

// ENTRY(file, name, sizes): an entry point and a digit for the bytes of each parameter, 9 for what
// is not passed as integers are.
#define ENTRY(file, name, sizes) extern "C" void name();
#include "entries.inc"
#undef ENTRY

namespace {

using Word = unsigned long long;

enum Status {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  LAUNCH_FAILED = 719,
};

const std::map<int, std::pair<const char*, const char*>> kTexts = {
    {INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {NOT_INITIALIZED, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {INVALID_DEVICE, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {INVALID_IMAGE, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {INVALID_CONTEXT, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {INVALID_HANDLE, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {LAUNCH_FAILED, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
};

struct Entry {
  const char *file, *name, *sizes;
  void (*function)();
};

#define ENTRY(file, name, sizes) {#file, #name, sizes, name},
constexpr Entry kEntries[] = {
#include "entries.inc"
};
#undef ENTRY

struct Device {
  int retained = 0;
};
Device devices[3];

struct Module {
  Device* context;
  std::vector<const Entry*> entries;
};

struct Function {
  Device* context;
  const Entry* entry;
};

struct Stream {
  Device* context;
  std::deque<std::function<int()>> queue;
  int failed = SUCCESS;
  // Who made it: tests run at the same time.
  const struct Thread* thread = nullptr;
  // Pieces of work that it has been given and that it has done.
  size_t given = 0, done = 0;
};

// The place in a stream's work that an event stands for.
struct Event {
  std::chrono::steady_clock::time_point when;
  Stream* stream = nullptr;
  size_t number = 0;
};

std::mutex mutex;
std::vector<std::unique_ptr<Module>> modules;
std::vector<std::unique_ptr<Function>> functions;
std::vector<std::unique_ptr<Stream>> streams, destroyed_streams;
// Held while streams work or are given work, as one may let another one work.
std::recursive_mutex working;
std::map<Word, size_t> allocated;
bool initialised = false;
std::set<void*> destroyed_events;

bool living(void* event) {
  std::lock_guard<std::mutex> lock(mutex);
  return destroyed_events.count(event) == 0;
}

// By a pointer: what is addressed for each thread has little room in a library loaded late.
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
};
thread_local Thread* own = nullptr;
Thread& self() {
  if (own == nullptr) own = new Thread;  // lives as long as the system's thread may call
  return *own;
}

template <typename T>
T* known(const std::vector<std::unique_ptr<T>>& all, void* handle) {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& one : all) {
    if (one.get() == handle) return one.get();
  }
  return nullptr;
}

Device* current() { return self().contexts.empty() ? nullptr : self().contexts.back(); }

// What a function returns instead of doing anything.
int refused(const char* function) {
  Thread& thread = self();
  if (thread.fails == function && thread.skip-- == 0) {
    thread.fails.clear();
    return thread.status;
  }
  return initialised ? SUCCESS : NOT_INITIALIZED;
}
#define REFUSED \
  if (int status = refused(__func__)) return status;
#define EXPECT(condition, status) \
  if (!(condition)) return status;

// A stream of the current context.
Stream* here(void* handle) {
  Stream* stream = known(streams, handle);
  return stream && stream->context == current() ? stream : nullptr;
}

template <size_t... I>
void call_with(void (*function)(), const Word* a, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(decltype(Word(I))...)>(function)(a[I]...);
}

void call(void (*function)(), const std::vector<Word>& a) {
  switch (a.size()) {
    case 2:
      return call_with(function, a.data(), std::make_index_sequence<2>());
    case 3:
      return call_with(function, a.data(), std::make_index_sequence<3>());
    case 4:
      return call_with(function, a.data(), std::make_index_sequence<4>());
    case 5:
      return call_with(function, a.data(), std::make_index_sequence<5>());
    case 6:
      return call_with(function, a.data(), std::make_index_sequence<6>());
    case 7:
      return call_with(function, a.data(), std::make_index_sequence<7>());
    case 8:
      return call_with(function, a.data(), std::make_index_sequence<8>());
    case 9:
      return call_with(function, a.data(), std::make_index_sequence<9>());
    case 10:
      return call_with(function, a.data(), std::make_index_sequence<10>());
    case 11:
      return call_with(function, a.data(), std::make_index_sequence<11>());
    case 12:
      return call_with(function, a.data(), std::make_index_sequence<12>());
  }
}

// The names of an ELF file's sections.
std::set<std::string> sections(const char* elf) {
  auto number = [&](const char* at, size_t bytes) {
    Word value = 0;
    std::memcpy(&value, at, bytes);
    return size_t(value);
  };
  const size_t table = number(elf + 0x28, 8), each = number(elf + 0x3A, 2);
  const size_t count = number(elf + 0x3C, 2), names = number(elf + 0x3E, 2);
  const char* strings = elf + number(elf + table + names * each + 0x18, 8);
  std::set<std::string> all;
  for (size_t i = 0; i < count; i++) all.insert(strings + number(elf + table + i * each, 4));
  return all;
}

// The entry points of a cubin, which has a section for each, or of a file of kernels by its name.
std::vector<const Entry*> entries_of(const char* image) {
  const bool elf = std::memcmp(image, "\177ELF", 4) == 0;
  const std::set<std::string> there = elf ? sections(image) : std::set<std::string>{image};
  std::vector<const Entry*> entries;
  for (const Entry& entry : kEntries) {
    if (there.count(elf ? std::string(".text.") + entry.name : entry.file))
      entries.push_back(&entry);
  }
  return entries;
}

struct Launch {
  const Entry* entry;
  std::vector<Word> arguments;
};

int give(Stream& stream, std::function<int()> work) {
  std::lock_guard<std::recursive_mutex> lock(working);
  stream.queue.push_back(std::move(work));
  stream.given++;
  return SUCCESS;
}

// Lets a stream work until it has done so many pieces in all.
int work_until(Stream& stream, size_t number) {
  std::lock_guard<std::recursive_mutex> lock(working);
  while (stream.done < number && !stream.queue.empty()) {
    auto work = std::move(stream.queue.front());
    stream.queue.pop_front();
    const int status = stream.failed == SUCCESS ? work() : SUCCESS;
    if (stream.failed == SUCCESS) stream.failed = status;
    stream.done++;
  }
  return stream.failed;
}

int finish(Stream& stream) { return work_until(stream, ~size_t(0)); }

int run(const Launch& launch, unsigned blocks) {
  auto body = [](void* context) {
    const Launch& launch = *static_cast<Launch*>(context);
    call(launch.entry->function, launch.arguments);
  };
  const char* error =
      emulate_launch(blocks, THREADS, blocks, 1, body, const_cast<Launch*>(&launch));
  return error == nullptr ? SUCCESS : LAUNCH_FAILED;
}

}  // namespace

extern "C" {

// For tests. The current thread's call of `function` after `skip` others fails.
void emulated_failure(const char* function, int skip, int status) {
  self().fails = function, self().skip = skip, self().status = status;
}

// The devices that the current thread asks for from now on are of this compute capability.
void emulated_capability(int major) { self().capability = major; }

// The current thread's next clearing of memory takes a byte too many.
void emulated_overrun() { self().overruns = true; }

// The entry points that the current thread has launched since it last asked, a line each.
const char* emulated_launches() {
  static thread_local std::string* text = new std::string;
  text->clear();
  for (const std::string& name : self().launched) *text += name + "\n";
  self().launched.clear();
  return text->c_str();
}

// A stream of a device, and that of the current context.
void* emulated_stream(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  streams.emplace_back(new Stream{&devices[device], {}, SUCCESS, &self()});
  return streams.back().get();
}

// Pieces of memory that were allocated and not freed.
int emulated_pieces() {
  std::lock_guard<std::mutex> lock(mutex);
  return int(allocated.size());
}

int emulated_contexts() { return int(self().contexts.size()); }

int cuDriverGetVersion(int* version) {
  *version = 12080;
  return SUCCESS;
}

int cuInit(unsigned) {
  initialised = true;
  REFUSED
  return SUCCESS;
}

int cuDeviceGetCount(int* count) {
  REFUSED
  *count = 3;
  return SUCCESS;
}

int cuGetErrorName(int status, const char** text) {
  auto found = kTexts.find(status);
  *text = found == kTexts.end() ? nullptr : found->second.first;
  return *text ? SUCCESS : INVALID_VALUE;
}

int cuGetErrorString(int status, const char** text) {
  auto found = kTexts.find(status);
  *text = found == kTexts.end() ? nullptr : found->second.second;
  return *text ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGet(int* device, int number) {
  REFUSED
  EXPECT(number >= 0 && number < 3, INVALID_DEVICE)
  *device = number;
  return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  REFUSED
  devices[device].retained++;
  *context = &devices[device];
  return SUCCESS;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  REFUSED
  EXPECT(device >= 0 && device < 3, INVALID_DEVICE)
  switch (attribute) {
    case 16:
      *value = device == 2 ? 2 : 1;
      return SUCCESS;
    case 75:
      *value = self().capability;
      return SUCCESS;
    case 76:
      *value = 0;
      return SUCCESS;
  }
  return INVALID_VALUE;
}

int cuStreamGetCtx(void* handle, void** context) {
  REFUSED
  Stream* stream = known(streams, handle);
  EXPECT(stream, INVALID_HANDLE)
  *context = stream->context;
  return SUCCESS;
}

int cuCtxPushCurrent_v2(void* context) {
  REFUSED
  Device* device = static_cast<Device*>(context);
  EXPECT(device >= devices && device < devices + 3, INVALID_CONTEXT)
  self().contexts.push_back(device);
  return SUCCESS;
}

int cuCtxPopCurrent_v2(void** context) {
  EXPECT(current(), INVALID_CONTEXT)
  *context = current();
  self().contexts.pop_back();
  return SUCCESS;
}

int cuCtxGetDevice(int* device) {
  REFUSED
  EXPECT(current(), INVALID_CONTEXT)
  *device = int(current() - devices);
  return SUCCESS;
}

int cuModuleLoadData(void** module, const void* image) {
  REFUSED
  EXPECT(current(), INVALID_CONTEXT)
  std::vector<const Entry*> entries = entries_of(static_cast<const char*>(image));
  EXPECT(!entries.empty(), INVALID_IMAGE)
  std::lock_guard<std::mutex> lock(mutex);
  modules.emplace_back(new Module{current(), std::move(entries)});
  *module = modules.back().get();
  return SUCCESS;
}

int cuModuleGetFunction(void** function, void* handle, const char* name) {
  REFUSED
  Module* module = known(modules, handle);
  EXPECT(module && module->context == current(), INVALID_HANDLE)
  for (const Entry* entry : module->entries) {
    if (std::strcmp(entry->name, name) == 0) {
      std::lock_guard<std::mutex> lock(mutex);
      functions.emplace_back(new Function{current(), entry});
      *function = functions.back().get();
      return SUCCESS;
    }
  }
  return NOT_FOUND;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* handle, int threads, size_t) {
  REFUSED
  EXPECT(known(functions, handle) && threads == THREADS, INVALID_VALUE)
  *blocks = 2;
  return SUCCESS;
}

int cuLaunchKernel(void* handle, unsigned blocks, unsigned y, unsigned z, unsigned threads,
                   unsigned thread_y, unsigned thread_z, unsigned shared, void* stream_handle,
                   void** parameters, void** extra) {
  REFUSED
  Function* function = known(functions, handle);
  Stream* stream = here(stream_handle);
  EXPECT(function && stream && function->context == current(), INVALID_HANDLE)
  const bool shape = blocks > 0 && threads == THREADS && y * z * thread_y * thread_z == 1;
  EXPECT(shape && shared == 0 && extra == nullptr, INVALID_VALUE)
  Launch launch = {function->entry, {}};
  for (const char* size = launch.entry->sizes; *size; size++) {
    EXPECT(*size == '4' || *size == '8', INVALID_VALUE)
    Word value = 0;
    std::memcpy(&value, parameters[size - launch.entry->sizes], size_t(*size - '0'));
    launch.arguments.push_back(value);
  }
  self().launched.push_back(launch.entry->name);
  return give(*stream, [launch, blocks] { return run(launch, blocks); });
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

int cuMemcpyDtoHAsync_v2(void* to, Word from, size_t bytes, void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  return give(*stream, [=] {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return SUCCESS;
  });
}

int cuDeviceGetName(char* name, int room, int device) {
  REFUSED
  EXPECT(device >= 0 && device < 3, INVALID_DEVICE)
  std::strncpy(name, "emulated", size_t(room));
  return SUCCESS;
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
  REFUSED
  EXPECT(current(), INVALID_CONTEXT)
  *free = *total = 64 << 20;
  return SUCCESS;
}

int cuMemAlloc_v2(Word* at, size_t bytes) {
  REFUSED
  EXPECT(current(), INVALID_CONTEXT)
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xCB, bytes);
  std::lock_guard<std::mutex> lock(mutex);
  allocated[*at = reinterpret_cast<Word>(memory)] = bytes;
  return SUCCESS;
}

// Waits for the device first, as the driver does.
int cuMemFree_v2(Word at) {
  REFUSED
  std::vector<Stream*> all;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto& stream : streams) {
      if (stream->context == current() && stream->thread == &self()) all.push_back(stream.get());
    }
  }
  for (Stream* stream : all) finish(*stream);
  std::lock_guard<std::mutex> lock(mutex);
  EXPECT(allocated.erase(at) == 1, INVALID_VALUE)
  std::free(reinterpret_cast<void*>(at));
  return SUCCESS;
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
  *stream = emulated_stream(int(current() - devices));
  return SUCCESS;
}

// Another stream may be of any context.
int cuStreamWaitEvent(void* handle, void* event, unsigned flags) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream && living(event) && flags == 0, INVALID_HANDLE)
  std::lock_guard<std::recursive_mutex> lock(working);
  // What it stands for now, whatever is recorded later.
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
  destroyed_streams.push_back(std::move(*place));  // events still name it
  streams.erase(place);
  return SUCCESS;
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
  // Work that was given to a stream before still needs its memory.
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

int cuMemcpy2DAsync_v2(const Copy2d* given, void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  const Copy2d copy = *given;
  for (const Side& side : {copy.from, copy.to}) {
    EXPECT((side.kind == 1 || side.kind == 2) && side.x == 0 && side.y == 0, INVALID_VALUE)
    EXPECT(copy.width <= side.pitch && side.pitch < (size_t(1) << 31), INVALID_VALUE)
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

int cuStreamSynchronize(void* handle) {
  REFUSED
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  return finish(*stream);
}

}  // extern "C"

namespace driver {

int refused(const char* function) { return ::refused(function); }

int enqueue(void* handle, std::function<int()> work) {
  Stream* stream = here(handle);
  EXPECT(stream, INVALID_HANDLE)
  return give(*stream, std::move(work));
}

void* context() { return current(); }

}  // namespace driver
