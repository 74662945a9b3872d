#include "meshsolve-ffi/handlers.h"

#include <string>
#include <string_view>
#include <utility>

#include "meshsolve-ffi/src/bridge.rs.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace meshsolve {
namespace {

std::string_view View(rust::Str text) { return {text.data(), text.size()}; }

// XLA's instance state: one per call site and executable, shared by all local devices. Each
// platform has its own registry of types, hence its own state.
template <typename T>
struct State {
  static ffi::TypeId id;
  explicit State(rust::Box<T> i) : instance(std::move(i)) {}
  rust::Box<T> instance;
};
template <typename T>
ffi::TypeId State<T>::id = {};
using HostState = State<Instance>;
using CudaState = State<CudaInstance>;
XLA_FFI_TypeInfo host_type_info = ffi::MakeTypeInfo<HostState>();
XLA_FFI_TypeInfo cuda_type_info = ffi::MakeTypeInfo<CudaState>();

ffi::Error Outcome(const Status& status) {
  if (status.code == 0) return ffi::Error::Success();
  return ffi::Error(static_cast<ffi::ErrorCode>(status.code), std::string(status.message));
}

template <typename T>
ffi::ErrorOr<std::unique_ptr<State<T>>> NewState(rust::Box<T> instance) {
  ffi::Error refusal = Outcome(instance->status());
  if (refusal.failure()) return ffi::Unexpected(std::move(refusal));
  return std::make_unique<State<T>>(std::move(instance));
}

ffi::ErrorOr<std::unique_ptr<HostState>> Instantiate(ffi::Dictionary attributes) {
  return NewState(new_instance(AttributeReader(attributes)));
}

ffi::ErrorOr<std::unique_ptr<CudaState>> InstantiateOnCuda(ffi::Dictionary attributes) {
  return NewState(new_cuda_instance(AttributeReader(attributes)));
}

RawBuffer Describe(const ffi::AnyBuffer& buffer) {
  RawBuffer raw{};
  raw.address = reinterpret_cast<std::size_t>(buffer.untyped_data());
  raw.dtype = static_cast<std::int32_t>(buffer.element_type());
  for (std::int64_t d : buffer.dimensions()) raw.dims.push_back(d);
  return raw;
}

rust::Vec<RawBuffer> Operands(const ffi::RemainingArgs& args) {
  rust::Vec<RawBuffer> all;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (auto buffer = args.get<ffi::AnyBuffer>(i); buffer.has_value())
      all.push_back(Describe(*buffer));
  }
  return all;
}

rust::Vec<RawBuffer> Results(const ffi::RemainingRets& rets) {
  rust::Vec<RawBuffer> all;
  for (std::size_t i = 0; i < rets.size(); ++i) {
    if (auto buffer = rets.get<ffi::AnyBuffer>(i); buffer.has_value())
      all.push_back(Describe(**buffer));
  }
  return all;
}

// Returns at once: the library computes on its own threads and completes the future.
ffi::Future Execute(HostState* state, ffi::RunId run, std::int32_t device, ffi::Dictionary,
                    ffi::RemainingArgs args, ffi::RemainingRets rets) {
  auto completion = std::make_unique<Completion>();
  ffi::Future future = completion->future();
  state->instance->arrive(run.run_id, device, Operands(args), Results(rets), std::move(completion));
  return future;
}

// Returns after the device's part has been enqueued on its stream.
ffi::Error ExecuteOnCuda(CudaState* state, ffi::RunId run, std::int32_t device, void* stream,
                         ffi::ScratchAllocator allocator, ffi::Dictionary, ffi::RemainingArgs args,
                         ffi::RemainingRets rets) {
  Scratch scratch(std::move(allocator));
  return Outcome(state->instance->run(run.run_id, device, reinterpret_cast<std::size_t>(stream),
                                      scratch, Operands(args), Results(rets)));
}

XLA_FFI_DEFINE_HANDLER(kInstantiate, Instantiate, ffi::Ffi::BindInstantiate().Attrs());
XLA_FFI_DEFINE_HANDLER(kExecute, Execute,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<HostState>>()
                           .Ctx<ffi::RunId>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .Attrs()
                           .RemainingArgs()
                           .RemainingRets());

XLA_FFI_DEFINE_HANDLER(kInstantiateOnCuda, InstantiateOnCuda, ffi::Ffi::BindInstantiate().Attrs());
XLA_FFI_DEFINE_HANDLER(kExecuteOnCuda, ExecuteOnCuda,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<CudaState>>()
                           .Ctx<ffi::RunId>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .Ctx<ffi::PlatformStream<void*>>()
                           .Ctx<ffi::ScratchAllocator>()
                           .Attrs()
                           .RemainingArgs()
                           .RemainingRets());

}  // namespace

bool AttributeReader::get_int(rust::Str name, std::int64_t& value) const {
  if (auto wide = attributes_.get<std::int64_t>(View(name)); wide.has_value()) {
    value = *wide;
    return true;
  }
  if (auto narrow = attributes_.get<std::int32_t>(View(name)); narrow.has_value()) {
    value = *narrow;
    return true;
  }
  if (auto flag = attributes_.get<bool>(View(name)); flag.has_value()) {
    value = *flag;
    return true;
  }
  return false;
}

bool AttributeReader::get_text(rust::Str name, rust::String& value) const {
  auto text = attributes_.get<std::string_view>(View(name));
  if (!text.has_value()) return false;
  value = rust::String::lossy(text->data(), text->size());
  return true;
}

Completion::~Completion() {
  if (!done_) {
    promise_.SetError(ffi::Error::Internal(
        "meshsolve: a call was dropped without an outcome; this is a defect of meshsolve"));
  }
}

void Completion::complete(std::int32_t code, rust::Str message) {
  if (done_) return;
  done_ = true;
  if (code == 0) {
    promise_.SetAvailable();
  } else {
    promise_.SetError(
        ffi::Error(static_cast<ffi::ErrorCode>(code), std::string(message.data(), message.size())));
  }
}

std::size_t Scratch::allocate(std::size_t bytes, std::size_t alignment) {
  return reinterpret_cast<std::size_t>(allocator_.Allocate(bytes, alignment).value_or(nullptr));
}

std::size_t symbol(rust::Str name) {
  const void* address = nullptr;
  if (View(name) == "cpu_instantiate") address = reinterpret_cast<const void*>(kInstantiate);
  if (View(name) == "cpu_execute") address = reinterpret_cast<const void*>(kExecute);
  if (View(name) == "cpu_type_id") address = &HostState::id;
  if (View(name) == "cpu_type_info") address = &host_type_info;
  if (View(name) == "cuda_instantiate") address = reinterpret_cast<const void*>(kInstantiateOnCuda);
  if (View(name) == "cuda_execute") address = reinterpret_cast<const void*>(kExecuteOnCuda);
  if (View(name) == "cuda_type_id") address = &CudaState::id;
  if (View(name) == "cuda_type_info") address = &cuda_type_info;
  return reinterpret_cast<std::size_t>(address);
}

std::int32_t ffi_api_version() { return XLA_FFI_API_MAJOR * 1000 + XLA_FFI_API_MINOR; }

}  // namespace meshsolve
