// NVIDIA's driver library on a machine without a GPU, as far as meshsolve calls it. It has three
// devices with the host's memory and the emulated kernels (emulate.h).
//
// Streams and their work are in queue.cc. A cubin is the name of a file of kernels. Contexts,
// modules and streams are checked as in the driver: invalid ones and those of another context are
// refused.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "state.h"

using namespace driver;

extern "C" const char* emulate_launch(unsigned blocks, unsigned threads, unsigned long long seed,
                                      int bulk_copies, void (*body)(void*), void* context);

// ENTRY(file, name, sizes): an entry point and a digit for the bytes of each parameter. The digit
// is 9 for a parameter that is not passed like an integer.
#define ENTRY(file, name, sizes) extern "C" void name();
#include "entries.inc"
#undef ENTRY

namespace {

const std::map<int, std::pair<const char*, const char*>> kTexts = {
    {INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {PEER_ACCESS_UNSUPPORTED,
     {"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
      "peer access is not supported between these two devices"}},
    {NOT_INITIALIZED, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {INVALID_DEVICE, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {INVALID_IMAGE, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {INVALID_CONTEXT, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {INVALID_HANDLE, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {LAUNCH_TIMEOUT, {"CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"}},
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

struct Module {
  Device* context;
  std::vector<const Entry*> entries;
};

struct Function {
  Device* context;
  const Entry* entry;
};

std::vector<std::unique_ptr<Module>> modules;
std::vector<std::unique_ptr<Function>> functions;
std::map<Word, size_t> allocated;
std::map<std::pair<Word, int>, bool> access;
bool initialised = false;

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

namespace driver {

Device devices[3];
std::mutex mutex;

thread_local Thread* own = nullptr;
Thread& self() {
  if (own == nullptr) own = new Thread;  // lives as long as the system's thread may call
  return *own;
}

Device* current() { return self().contexts.empty() ? nullptr : self().contexts.back(); }

int refused(const char* function) {
  Thread& thread = self();
  if (thread.is_recorded) thread.called.push_back(function);
  if (thread.fails == function && thread.skip-- == 0) {
    thread.fails.clear();
    return thread.status;
  }
  return initialised ? SUCCESS : NOT_INITIALIZED;
}

void await_others(std::function<bool()> over) { self().awaited.push_back(std::move(over)); }

bool is_awaited() {
  const auto held = hold();
  auto& awaited = self().awaited;
  while (!awaited.empty() && awaited.back()()) awaited.pop_back();
  return !awaited.empty();
}

void* context() { return current(); }

int device() { return int(current() - devices); }

}  // namespace driver

extern "C" {

// For tests. The current thread's call of `function` after `skip` others fails.
void emulated_failure(const char* function, int skip, int status) {
  self().fails = function, self().skip = skip, self().status = status;
}

// Devices that the current thread queries from now on have this compute capability.
void emulated_capability(int major) { self().capability = major; }

// The current thread's next clearing of memory clears a byte too many.
void emulated_overrun() { self().overruns = true; }

// The entry points that the current thread has launched since its last query, a line each.
const char* emulated_launches() {
  static thread_local std::string* text = new std::string;
  text->clear();
  for (const std::string& name : self().launched) *text += name + "\n";
  self().launched.clear();
  return text->c_str();
}

// The functions that the current thread has called since its last query, a line each. Those of
// cuBLAS and cuSOLVER get a suffix if their work went on the library's own stream.
const char* emulated_calls() {
  static thread_local std::string* text = new std::string;
  text->clear();
  for (const std::string& name : self().called) *text += name + "\n";
  self().called.clear();
  self().is_recorded = true;
  return text->c_str();
}

// Sets whether kernels of a device other than its own may access this memory. Without this call,
// the memory is not mapped address by address.
void emulated_access(Word at, int device, int may) {
  std::lock_guard<std::mutex> lock(mutex);
  access[{at, device}] = may != 0;
}

// Pieces of memory that are allocated and not freed.
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
  EXPECT(!is_awaited(), LAUNCH_TIMEOUT)
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
  EXPECT(!is_awaited(), LAUNCH_TIMEOUT)
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

// CUmemLocation.
struct Location {
  int kind, id;
};

int cuMemGetAccess(Word* flags, const Location* location, Word at) {
  REFUSED
  EXPECT(location->kind == 1 && location->id >= 0 && location->id < 3, INVALID_VALUE)
  std::lock_guard<std::mutex> lock(mutex);
  auto found = access.find({at, location->id});
  EXPECT(found != access.end(), INVALID_VALUE)
  *flags = found->second ? 3 : 0;
  return SUCCESS;
}

}  // extern "C"
