#include "meshsolve/ffi/handlers.h"

#include <string>
#include <string_view>
#include <utility>

#include "meshsolve/src/bridge.rs.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace meshsolve {
namespace {

std::string_view View(rust::Str text) { return {text.data(), text.size()}; }

// XLA's instance state: one per call site and executable, shared by all local devices.
struct InstanceState {
  static ffi::TypeId id;
  explicit InstanceState(rust::Box<Instance> i) : instance(std::move(i)) {}
  rust::Box<Instance> instance;
};
ffi::TypeId InstanceState::id = {};
XLA_FFI_TypeInfo instance_type_info = ffi::MakeTypeInfo<InstanceState>();

ffi::ErrorOr<std::unique_ptr<InstanceState>> Instantiate(ffi::Dictionary attributes) {
  rust::Box<Instance> instance = new_instance(AttributeReader(attributes));
  Status status = instance->status();
  if (status.code != 0) {
    return ffi::Unexpected(
        ffi::Error(static_cast<ffi::ErrorCode>(status.code), std::string(status.message)));
  }
  return std::make_unique<InstanceState>(std::move(instance));
}

RawBuffer Describe(const ffi::AnyBuffer& buffer) {
  RawBuffer raw{};
  raw.address = reinterpret_cast<std::size_t>(buffer.untyped_data());
  raw.dtype = static_cast<std::int32_t>(buffer.element_type());
  for (std::int64_t d : buffer.dimensions()) raw.dims.push_back(d);
  return raw;
}

// Returns at once: the library computes on threads of its own and completes the future.
ffi::Future Execute(InstanceState* state, ffi::RunId run, std::int32_t device, ffi::Dictionary,
                    ffi::RemainingArgs args, ffi::RemainingRets rets) {
  auto completion = std::make_unique<Completion>();
  ffi::Future future = completion->future();
  rust::Vec<RawBuffer> raw_args, raw_rets;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (auto buffer = args.get<ffi::AnyBuffer>(i); buffer.has_value())
      raw_args.push_back(Describe(*buffer));
  }
  for (std::size_t i = 0; i < rets.size(); ++i) {
    if (auto buffer = rets.get<ffi::AnyBuffer>(i); buffer.has_value())
      raw_rets.push_back(Describe(**buffer));
  }
  state->instance->arrive(run.run_id, device, std::move(raw_args), std::move(raw_rets),
                          std::move(completion));
  return future;
}

XLA_FFI_DEFINE_HANDLER(kInstantiate, Instantiate, ffi::Ffi::BindInstantiate().Attrs());
XLA_FFI_DEFINE_HANDLER(kExecute, Execute,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<InstanceState>>()
                           .Ctx<ffi::RunId>()
                           .Ctx<ffi::DeviceOrdinal>()
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

std::size_t symbol(rust::Str name) {
  const void* address = nullptr;
  if (View(name) == "instantiate") address = reinterpret_cast<const void*>(kInstantiate);
  if (View(name) == "execute") address = reinterpret_cast<const void*>(kExecute);
  if (View(name) == "type_id") address = &InstanceState::id;
  if (View(name) == "type_info") address = &instance_type_info;
  return reinterpret_cast<std::size_t>(address);
}

std::int32_t ffi_api_version() { return XLA_FFI_API_MAJOR * 1000 + XLA_FFI_API_MINOR; }

}  // namespace meshsolve
