// The C++ side of the FFI border: the view that ffi/src/bridge.rs has of XLA. One generic handler
// serves every routine, so a new routine never changes this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "rust/cxx.h"
#include "xla/ffi/api/ffi.h"

namespace meshsolve {

// The attributes of a call site. An integer may be an int64, an int32 or a bool.
class AttributeReader {
 public:
  explicit AttributeReader(xla::ffi::Dictionary attributes) : attributes_(attributes) {}
  bool get_int(rust::Str name, std::int64_t& value) const;
  bool get_text(rust::Str name, rust::String& value) const;
  std::size_t count() const { return attributes_.size(); }

 private:
  xla::ffi::Dictionary attributes_;
};

// The promise of one device's call. Destroyed without an outcome, it sets an error, so that no
// device waits forever.
class Completion {
 public:
  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  ~Completion();
  void complete(std::int32_t code, rust::Str message);
  xla::ffi::Future future() const { return xla::ffi::Future(promise_); }

 private:
  xla::ffi::Promise promise_;
  bool done_ = false;
};

// XLA's scratch memory of a device. XLA frees it when the handler returns.
class Scratch {
 public:
  explicit Scratch(xla::ffi::ScratchAllocator allocator) : allocator_(std::move(allocator)) {}
  std::size_t allocate(std::size_t bytes, std::size_t alignment);

 private:
  xla::ffi::ScratchAllocator allocator_;
};

std::size_t symbol(rust::Str name);
std::int32_t ffi_api_version();

}  // namespace meshsolve
