// XLA FFI handlers of gpu_probe.py: each one records how XLA called it (stage,
// thread, RunId, device, pointers, stream) and does one small thing: copy, meet
// the other devices, fail, throw, launch a kernel, allocate, measure a copy.
//
// With -DPROBE_CPU the same handlers are built without CUDA, so that the logic
// of the script runs on CPU devices. The kernels are a string: the script
// has NVRTC compile them for the device at hand, as the library does.

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "xla/ffi/api/ffi.h"

#ifndef PROBE_CPU
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#endif

namespace ffi = xla::ffi;

namespace {

constexpr const char* kKernels = R"(
// 16-byte accesses, four in flight per thread: enough to saturate memory.
extern "C" __global__ void probe_copy(const uint4* x, uint4* y,
                                      unsigned long long n) {
  unsigned long long i = blockIdx.x * (4ull * blockDim.x) + threadIdx.x;
  uint4 v[4];
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (i + k * blockDim.x < n) v[k] = x[i + k * blockDim.x];
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (i + k * blockDim.x < n) y[i + k * blockDim.x] = v[k];
}
// Adds to what is in y, so a missing memset before it shows.
extern "C" __global__ void probe_add_one(const float* x, float* y,
                                         unsigned long long n) {
  unsigned long long i = blockIdx.x * (1ull * blockDim.x) + threadIdx.x;
  if (i < n) y[i] += x[i] + 1.0f;
}
)";

// ---- What the handlers saw ----

struct Record {  // int64 throughout: the script reads it as a table
  int64_t stage, tag, run, device, thread, in, out, state, stream, current;
};
constexpr int64_t kInstantiate = 0, kPrepare = 1, kInitialize = 2, kExecute = 3;

std::mutex log_mutex;
std::vector<Record> log_records;
double measured[2] = {0, 0};  // bytes per second: own kernel, memcpy

int64_t Address(const void* p) { return reinterpret_cast<int64_t>(p); }
int64_t ThreadId() { return static_cast<int64_t>(syscall(SYS_gettid)); }

void Log(const Record& record) {
  std::lock_guard<std::mutex> lock(log_mutex);
  log_records.push_back(record);
}

int64_t Get(const ffi::Dictionary& attrs, const char* name, int64_t otherwise) {
  auto value = attrs.get<int64_t>(name);
  return value.has_value() ? *value : otherwise;
}

// ---- Device code, or its stand-in on CPU devices ----

#ifdef PROBE_CPU
struct HostStream {};
using StreamContext = HostStream;
using Stream = void*;

int64_t CurrentDevice() { return -1; }

ffi::Error Copy(const void* in, void* out, size_t bytes, Stream) {
  if (in != out) std::memcpy(out, in, bytes);
  return ffi::Error::Success();
}

ffi::Error AddOne(const void* in, void* out, size_t bytes, Stream) {
  const float* x = static_cast<const float*>(in);
  float* y = static_cast<float*>(out);
  for (size_t i = 0; i < bytes / sizeof(float); ++i) y[i] = x[i] + 1.0f;
  return ffi::Error::Success();
}

ffi::Error Touch(void* p, size_t bytes, Stream) {
  std::memset(p, 0, bytes);
  return ffi::Error::Success();
}

ffi::Error OwnAllocation(size_t bytes, Stream) {
  std::vector<char> block(bytes, 1);
  return ffi::Error::Success();
}

ffi::Error Bandwidth(const void* in, void* out, size_t bytes, int64_t reps, Stream) {
  std::memcpy(out, in, bytes);
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < reps; ++i) std::memcpy(out, in, bytes);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  measured[0] = 0;  // the own kernel needs a GPU
  measured[1] = 2.0 * static_cast<double>(bytes * reps) / time.count();
  return ffi::Error::Success();
}
#else
using StreamContext = ffi::PlatformStream<cudaStream_t>;
using Stream = cudaStream_t;

#define PROBE_CUDA(call)                                                                   \
  do {                                                                                     \
    cudaError_t status = (call);                                                           \
    if (status != cudaSuccess)                                                             \
      return ffi::Error::Internal(std::string(#call) + ": " + cudaGetErrorString(status)); \
  } while (false)

int64_t CurrentDevice() {
  int device = -1;
  return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

std::string kernel_image;  // CUBIN, empty until probe_compile() succeeded

// The driver loads the image: libcuda is opened here rather than linked, so
// the build needs no stub library. One module per device and kernel.
ffi::ErrorOr<CUfunction> Kernel(const char* name) {
  static std::mutex mutex;
  static std::map<std::pair<int64_t, std::string>, CUfunction> loaded;
  std::lock_guard<std::mutex> lock(mutex);
  if (kernel_image.empty()) return ffi::Unexpected(ffi::Error::Internal("no kernel image"));
  CUfunction& function = loaded[{CurrentDevice(), name}];
  if (function != nullptr) return function;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return ffi::Unexpected(ffi::Error::Internal("libcuda.so.1 not found"));
  auto load = reinterpret_cast<decltype(&cuModuleLoadData)>(dlsym(driver, "cuModuleLoadData"));
  auto find =
      reinterpret_cast<decltype(&cuModuleGetFunction)>(dlsym(driver, "cuModuleGetFunction"));
  CUmodule module;
  CUresult status = load(&module, kernel_image.data());
  if (status == CUDA_SUCCESS) status = find(&function, module, name);
  if (status != CUDA_SUCCESS)
    return ffi::Unexpected(ffi::Error::Internal("loading " + std::string(name) + ": CUresult " +
                                                std::to_string(static_cast<int>(status))));
  return function;
}

ffi::Error Launch(const char* name, const void* in, void* out, unsigned long long n,
                  size_t per_block, Stream stream) {
  static auto launch = reinterpret_cast<decltype(&cuLaunchKernel)>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel"));
  ffi::ErrorOr<CUfunction> kernel = Kernel(name);
  if (kernel.has_error()) return kernel.error();
  unsigned blocks = static_cast<unsigned>((n + per_block - 1) / per_block);
  void* arguments[] = {&in, &out, &n};
  CUresult status = launch(*kernel, blocks, 1, 1, 256, 1, 1, 0, reinterpret_cast<CUstream>(stream),
                           arguments, nullptr);
  if (status == CUDA_SUCCESS) return ffi::Error::Success();
  return ffi::Error::Internal("cuLaunchKernel: CUresult " +
                              std::to_string(static_cast<int>(status)));
}

ffi::Error CopyByKernel(const void* in, void* out, size_t bytes, Stream s) {
  return Launch("probe_copy", in, out, bytes / 16, 4 * 256, s);
}

ffi::Error Copy(const void* in, void* out, size_t bytes, Stream stream) {
  if (in != out) PROBE_CUDA(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice, stream));
  return ffi::Error::Success();
}

ffi::Error AddOne(const void* in, void* out, size_t bytes, Stream stream) {
  PROBE_CUDA(cudaMemsetAsync(out, 0, bytes, stream));
  return Launch("probe_add_one", in, out, bytes / sizeof(float), 256, stream);
}

ffi::Error Touch(void* p, size_t bytes, Stream stream) {
  PROBE_CUDA(cudaMemsetAsync(p, 0, bytes, stream));
  return ffi::Error::Success();
}

ffi::Error OwnAllocation(size_t bytes, Stream stream) {
  void* block = nullptr;
  PROBE_CUDA(cudaMalloc(&block, bytes));
  ffi::Error touched = Touch(block, bytes, stream);
  PROBE_CUDA(cudaStreamSynchronize(stream));
  PROBE_CUDA(cudaFree(block));
  return touched;
}

// Events on XLA's own stream, two warm-up rounds; 2 * bytes per copy.
template <typename F>
ffi::Error Time(F copy, size_t bytes, int64_t reps, Stream stream, double* rate) {
  cudaEvent_t start, stop;
  PROBE_CUDA(cudaEventCreate(&start));
  PROBE_CUDA(cudaEventCreate(&stop));
  for (int64_t i = -2; i < reps; ++i) {
    if (i == 0) PROBE_CUDA(cudaEventRecord(start, stream));
    if (ffi::Error error = copy(); error.failure()) return error;
  }
  PROBE_CUDA(cudaEventRecord(stop, stream));
  PROBE_CUDA(cudaEventSynchronize(stop));
  float ms = 0;
  PROBE_CUDA(cudaEventElapsedTime(&ms, start, stop));
  PROBE_CUDA(cudaEventDestroy(start));
  PROBE_CUDA(cudaEventDestroy(stop));
  *rate = 2.0 * static_cast<double>(bytes) * static_cast<double>(reps) / (1e-3 * ms);
  return ffi::Error::Success();
}

ffi::Error Bandwidth(const void* in, void* out, size_t bytes, int64_t reps, Stream s) {
  ffi::Error error = Time([&] { return Copy(in, out, bytes, s); }, bytes, reps, s, &measured[1]);
  if (error.failure()) return error;
  // A wrong kernel must not pass for a fast one: it writes over zeros, and the
  // script compares the result with the input.
  PROBE_CUDA(cudaMemsetAsync(out, 0, bytes, s));
  return Time([&] { return CopyByKernel(in, out, bytes, s); }, bytes, reps, s, &measured[0]);
}
#endif

// ---- State of a call site: where the devices of a launch meet ----

struct CallSite {
  static ffi::TypeId id;
  struct Rendezvous {
    int64_t arrived = 0;
    std::string failure;  // once set, every device of the launch returns it
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int64_t, Rendezvous> rendezvous_of;  // by RunId; a probe never erases

  void Poison(int64_t run, const std::string& why) {
    std::lock_guard<std::mutex> lock(mutex);
    rendezvous_of[run].failure = why;
    changed.notify_all();
  }

  // Blocks until n devices came. Inside a loop the RunId stays the same: the
  // k-th rendezvous is over at k * n arrivals, since nobody can arrive twice
  // before everybody arrived once.
  ffi::Error Meet(int64_t run, int64_t n, int64_t milliseconds) {
    std::unique_lock<std::mutex> lock(mutex);
    Rendezvous& rendezvous = rendezvous_of[run];
    const int64_t target = (rendezvous.arrived++ / n + 1) * n;
    changed.notify_all();
    auto over = [&] { return rendezvous.arrived >= target || !rendezvous.failure.empty(); };
    if (!changed.wait_for(lock, std::chrono::milliseconds(milliseconds), over)) {
      rendezvous.failure =
          "probe rendezvous timed out: " + std::to_string(target - rendezvous.arrived) + " of " +
          std::to_string(n) + " devices missing";
      changed.notify_all();
    }
    if (rendezvous.failure.empty()) return ffi::Error::Success();
    return ffi::Error(ffi::ErrorCode::kDeadlineExceeded, rendezvous.failure);
  }
};
ffi::TypeId CallSite::id = {};
XLA_FFI_TypeInfo call_site_info = ffi::MakeTypeInfo<CallSite>();

// ---- Handlers ----

ffi::ErrorOr<std::unique_ptr<CallSite>> Instantiate(ffi::Dictionary attrs) {
  auto site = std::make_unique<CallSite>();
  Log({kInstantiate, Get(attrs, "tag", -1), 0, -1, ThreadId(), 0, 0, Address(site.get()), 0,
       CurrentDevice()});
  return site;
}

ffi::Error Stage(int64_t stage, ffi::Dictionary attrs) {
  Log({stage, Get(attrs, "tag", -1), 0, -1, ThreadId(), 0, 0, 0, 0, CurrentDevice()});
  return ffi::Error::Success();
}
ffi::Error Prepare(ffi::Dictionary attrs) { return Stage(kPrepare, attrs); }
ffi::Error Initialize(ffi::Dictionary a) { return Stage(kInitialize, a); }

// Attributes: tag; n > 0 to meet n devices first, for at most ms; device `bad`
// stays away and fails, and tells the others if `poison` is set.
ffi::Error Execute(CallSite* site, ffi::RunId run, int32_t device, Stream stream,
                   ffi::Dictionary attrs, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  Log({kExecute, Get(attrs, "tag", -1), run.run_id, device, ThreadId(), Address(x.untyped_data()),
       Address(y->untyped_data()), Address(site), Address(stream), CurrentDevice()});
  if (Get(attrs, "bad", -1) == device) {
    const std::string why = "probe failed on one device";
    if (Get(attrs, "poison", 0) != 0) site->Poison(run.run_id, why);
    return ffi::Error(ffi::ErrorCode::kDeadlineExceeded, why);
  }
  if (const int64_t n = Get(attrs, "n", 0); n > 0) {
    ffi::Error met = site->Meet(run.run_id, n, Get(attrs, "ms", 6000));
    if (met.failure()) return met;
  }
  return Copy(x.untyped_data(), y->untyped_data(), x.size_bytes(), stream);
}

// The stateless handler; `op` says what to do. It works even where state types
// cannot be registered.
ffi::Error Plain(Stream stream, ffi::ScratchAllocator scratch, ffi::Dictionary attrs,
                 ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  Log({kExecute, Get(attrs, "tag", -1), 0, -1, ThreadId(), Address(x.untyped_data()),
       Address(y->untyped_data()), 0, Address(stream), CurrentDevice()});
  const void* in = x.untyped_data();
  void* out = y->untyped_data();
  const size_t size = static_cast<size_t>(Get(attrs, "bytes", 0));
  ffi::Error error = ffi::Error::Success();
  switch (Get(attrs, "op", 0)) {
    case 1:
      return ffi::Error(ffi::ErrorCode::kFailedPrecondition, "probe error from the handler");
    case 2:
      throw std::runtime_error("probe exception from the handler");
    case 3:
      return AddOne(in, out, x.size_bytes(), stream);
    case 4:
      error = OwnAllocation(size, stream);
      break;
    case 5: {
      // XLA refuses larger alignments than 16.
      std::optional<void*> block = scratch.Allocate(size, 16);
      if (!block.has_value()) return ffi::Error::Internal("no scratch");
      error = Touch(*block, size, stream);
      break;
    }
    case 6:
      return Bandwidth(in, out, x.size_bytes(), Get(attrs, "reps", 1), stream);
  }
  if (error.failure()) return error;
  return Copy(in, out, x.size_bytes(), stream);
}

}  // namespace

#ifdef PROBE_CPU
namespace xla::ffi {
template <>
struct CtxDecoding<HostStream> {
  using Type = void*;
  static std::optional<Type> Decode(const XLA_FFI_Api*, XLA_FFI_ExecutionContext*,
                                    DiagnosticEngine&) {
    return std::optional<Type>(nullptr);
  }
};
}  // namespace xla::ffi
#endif

XLA_FFI_DEFINE_HANDLER_SYMBOL(ProbeInstantiate, Instantiate, ffi::Ffi::BindInstantiate().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(ProbePrepare, Prepare, ffi::Ffi::BindPrepare().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(ProbeInitialize, Initialize, ffi::Ffi::BindInitialize().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(ProbeExecute, Execute,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<CallSite>>()
                                  .Ctx<ffi::RunId>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<StreamContext>()
                                  .Attrs()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(ProbePlain, Plain,
                              ffi::Ffi::Bind()
                                  .Ctx<StreamContext>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Attrs()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());

extern "C" {

void* probe_type_id() { return &CallSite::id; }
void* probe_type_info() { return &call_site_info; }
double probe_measured(int which) { return measured[which]; }

int64_t probe_log_size() {
  std::lock_guard<std::mutex> lock(log_mutex);
  return static_cast<int64_t>(log_records.size());
}

// Copies the records to `out` (10 int64 each) and forgets them.
void probe_log_take(Record* out) {
  std::lock_guard<std::mutex> lock(log_mutex);
  std::copy(log_records.begin(), log_records.end(), out);
  log_records.clear();
}

#ifndef PROBE_CPU
// Compiles the kernels for `arch` ("sm_90") with the NVRTC at `path`; returns
// what went wrong, or an empty string. The few functions are declared here:
// nvrtc.h is not always installed where the library is.
const char* probe_compile(const char* path, const char* arch) {
  static std::string wrong;
  void* lib = dlopen(path, RTLD_NOW);
  if (lib == nullptr) return (wrong = dlerror()).c_str();
  auto call = [&](const char* name, auto... arguments) {
    void* f = dlsym(lib, name);
    if (f == nullptr) return -1;
    return reinterpret_cast<int (*)(decltype(arguments)...)>(f)(arguments...);
  };
  void* program = nullptr;
  const char* no_names = nullptr;
  const std::string option = std::string("--gpu-architecture=") + arch;
  const char* options[] = {option.c_str()};
  size_t size = 0;
  wrong.clear();
  if (int status =
          call("nvrtcCreateProgram", &program, +kKernels, "probe.cu", 0, &no_names, &no_names)) {
    return (wrong = "nvrtcCreateProgram: " + std::to_string(status)).c_str();
  }
  const char* const* given = options;
  if (call("nvrtcCompileProgram", program, 1, given) == 0) {
    call("nvrtcGetCUBINSize", program, &size);
    kernel_image.resize(size);
    call("nvrtcGetCUBIN", program, kernel_image.data());
    if (size == 0) wrong = "no CUBIN";
  } else {
    call("nvrtcGetProgramLogSize", program, &size);
    wrong.resize(size, ' ');
    call("nvrtcGetProgramLog", program, wrong.data());
    wrong = "nvrtcCompileProgram: " + wrong;
  }
  call("nvrtcDestroyProgram", &program);
  return wrong.c_str();
}

// What: 0 driver, 1 runtime (1000 * major + 10 * minor), 2 compute capability
// of device 0 (10 * major + minor), 3 free bytes on device 0; -1 on failure.
int64_t probe_cuda(int what) {
  int a = 0, b = 0;
  size_t free_bytes = 0, total = 0;
  if (what == 0) return cudaDriverGetVersion(&a) == cudaSuccess ? a : -1;
  if (what == 1) return cudaRuntimeGetVersion(&a) == cudaSuccess ? a : -1;
  if (what == 2) {
    const bool ok =
        cudaDeviceGetAttribute(&a, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
        cudaDeviceGetAttribute(&b, cudaDevAttrComputeCapabilityMinor, 0) == cudaSuccess;
    return ok ? 10 * a + b : -1;
  }
  if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) return -1;
  return static_cast<int64_t>(free_bytes);
}

// Copies from device `from` to device `to`, or to another place of the same one, on a stream of
// device `by`, as the library does; returns what went wrong, or an empty string.
const char* probe_copy_by(int from, int to, int by) {
  static std::string wrong;
  constexpr size_t kWidth = 4096, kHeight = 256, kBytes = kWidth * kHeight;
  cudaMemcpy3DPeerParms copy = {};
  cudaStream_t stream = nullptr;
  int before = 0;
  std::vector<unsigned char> host(kBytes);
  auto attempt = [&]() -> cudaError_t {
    for (auto [device, place, value] :
         {std::tuple(from, &copy.srcPtr, 0x5A), std::tuple(to, &copy.dstPtr, 0)}) {
      place->pitch = place->xsize = kWidth;
      place->ysize = kHeight;
      if (auto status = cudaSetDevice(device)) return status;
      if (auto status = cudaMalloc(&place->ptr, kBytes)) return status;
      if (auto status = cudaMemset(place->ptr, value, kBytes)) return status;
      if (auto status = cudaDeviceSynchronize()) return status;
    }
    copy.srcDevice = from;
    copy.dstDevice = to;
    copy.extent = {kWidth, kHeight, 1};
    if (auto status = cudaSetDevice(by)) return status;
    if (auto status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) return status;
    if (auto status = cudaMemcpy3DPeerAsync(&copy, stream)) return status;
    if (auto status = cudaStreamSynchronize(stream)) return status;
    return cudaMemcpy(host.data(), copy.dstPtr.ptr, kBytes, cudaMemcpyDeviceToHost);
  };
  cudaGetDevice(&before);
  const cudaError_t status = attempt();
  wrong = status == cudaSuccess ? "" : cudaGetErrorString(status);
  const bool same = std::all_of(host.begin(), host.end(), [](int x) { return x == 0x5A; });
  if (status == cudaSuccess && !same) wrong = "the copy differs";
  cudaGetLastError();
  if (stream != nullptr) cudaStreamDestroy(stream);
  cudaFree(copy.srcPtr.ptr);
  cudaFree(copy.dstPtr.ptr);
  cudaSetDevice(before);
  return wrong.c_str();
}
#else
const char* probe_copy_by(int, int, int) { return "built without CUDA"; }
const char* probe_compile(const char*, const char*) { return "built without CUDA"; }
int64_t probe_cuda(int) { return -1; }
#endif

}  // extern "C"
