// Calls an XLA FFI handler as XLA does on a GPU: a call frame with its context, made by hand. The
// handler is that of the wheel. Compile this file with the same headers.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "xla/ffi/api/c_api.h"

struct XLA_FFI_Error {
  int code;
  std::string message;
};

// The context of a call.
struct XLA_FFI_ExecutionContext {
  struct Site* site;
  int64_t run;
  int32_t device;
  void* stream;
  // The limit of scratch in bytes, the allocated bytes, and the pieces not freed.
  size_t limit, lent;
  int pieces;
};

struct Site {
  std::string routine, fault;
  int64_t world;
  void* state;
  int64_t type;
};

namespace {

using Context = XLA_FFI_ExecutionContext;
// XLA's alignment of scratch.
constexpr size_t kAlignment = 16;

XLA_FFI_Error* Fail(const char* text) { return new XLA_FFI_Error{13, text}; }

XLA_FFI_Api MakeApi() {
  XLA_FFI_Api api{};
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                     XLA_FFI_API_MINOR};
  api.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args* a) {
    return new XLA_FFI_Error{a->errc, a->message};
  };
  api.XLA_FFI_Error_GetMessage = [](XLA_FFI_Error_GetMessage_Args* a) {
    a->message = a->error->message.c_str();
  };
  api.XLA_FFI_Error_Destroy = [](XLA_FFI_Error_Destroy_Args* a) { delete a->error; };
  api.XLA_FFI_Stream_Get = [](XLA_FFI_Stream_Get_Args* a) -> XLA_FFI_Error* {
    a->stream = a->ctx->stream;
    return nullptr;
  };
  api.XLA_FFI_State_Set = [](XLA_FFI_State_Set_Args* a) -> XLA_FFI_Error* {
    a->ctx->site->state = a->state, a->ctx->site->type = a->type_id->type_id;
    return nullptr;
  };
  api.XLA_FFI_State_Get = [](XLA_FFI_State_Get_Args* a) -> XLA_FFI_Error* {
    if (a->type_id->type_id != a->ctx->site->type) return Fail("another type");
    a->state = a->ctx->site->state;
    return nullptr;
  };
  api.XLA_FFI_DeviceMemory_Allocate = [](XLA_FFI_DeviceMemory_Allocate_Args* a) -> XLA_FFI_Error* {
    if (a->alignment > kAlignment) return Fail("unsupported alignment");
    if (a->size > a->ctx->limit) return Fail("out of memory");
    a->data = std::aligned_alloc(kAlignment, (a->size + kAlignment - 1) / kAlignment * kAlignment);
    // The test frees it when the stream has finished; the handler gives it up earlier.
    std::memset(a->data, 0xCB, a->size);
    a->ctx->lent += a->size, a->ctx->pieces++;
    return nullptr;
  };
  api.XLA_FFI_DeviceMemory_Free = [](XLA_FFI_DeviceMemory_Free_Args* a) -> XLA_FFI_Error* {
    a->ctx->pieces--;
    return nullptr;
  };
  api.XLA_FFI_RunId_Get = [](XLA_FFI_RunId_Get_Args* a) -> XLA_FFI_Error* {
    a->run_id = a->ctx->run;
    return nullptr;
  };
  api.XLA_FFI_DeviceOrdinal_Get = [](XLA_FFI_DeviceOrdinal_Get_Args* a) -> XLA_FFI_Error* {
    a->device_ordinal = a->ctx->device;
    return nullptr;
  };
  return api;
}

XLA_FFI_ByteSpan Span(const std::string& text) { return {text.data(), text.size()}; }

// The code of the handler's error, whose message goes to `message`; 0 without one.
int Call(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage, Context& context,
         XLA_FFI_Buffer* args, int64_t arg_count, XLA_FFI_Buffer* ret, char* message, size_t room) {
  static const XLA_FFI_Api api = MakeApi();
  const Site& site = *context.site;
  XLA_FFI_ArgType arg_types[2] = {XLA_FFI_ArgType_BUFFER, XLA_FFI_ArgType_BUFFER};
  void* arg_places[2] = {args, args + 1};
  XLA_FFI_RetType ret_type = XLA_FFI_RetType_BUFFER;
  void* ret_place = ret;
  // In the order of their names, as XLA sorts them; the first two only with a fault.
  const int64_t first = site.fault.empty() ? 2 : 0;
  const std::string names[] = {"fault", "fault_rank", "routine", "world"};
  XLA_FFI_ByteSpan spans[] = {Span(names[0]), Span(names[1]), Span(names[2]), Span(names[3])};
  XLA_FFI_ByteSpan* name_places[] = {spans, spans + 1, spans + 2, spans + 3};
  XLA_FFI_ByteSpan routine = Span(site.routine), fault = Span(site.fault);
  int64_t world = site.world, one = 1;
  XLA_FFI_Scalar rank_value = {XLA_FFI_DataType_S64, &one};
  XLA_FFI_Scalar world_value = {XLA_FFI_DataType_S64, &world};
  XLA_FFI_AttrType types[] = {XLA_FFI_AttrType_STRING, XLA_FFI_AttrType_SCALAR,
                              XLA_FFI_AttrType_STRING, XLA_FFI_AttrType_SCALAR};
  void* values[] = {&fault, &rank_value, &routine, &world_value};
  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &api, frame.ctx = &context, frame.stage = stage;
  frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, arg_count, arg_types, arg_places};
  frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, ret ? 1 : 0, &ret_type, &ret_place};
  frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr,       4 - first, types + first,
                 name_places + first,       values + first};
  XLA_FFI_Error* error = handler(&frame);
  if (frame.future != nullptr) error = Fail("a future, which nobody waits for on a GPU");
  if (error == nullptr) return 0;
  const int code = error->code;
  std::strncpy(message, error->message.c_str(), room - 1);
  delete error;
  return code;
}

XLA_FFI_Buffer Buffer(int dtype, void* data, int64_t rank, int64_t* dims) {
  return {
      XLA_FFI_Buffer_STRUCT_SIZE, nullptr, static_cast<XLA_FFI_DataType>(dtype), data, rank, dims};
}

}  // namespace

extern "C" {

// Registers a type as XLA does: it gets a number.
void frame_register(XLA_FFI_TypeId* type) { type->type_id = 7; }

// A call site; null and a message if the handler refuses it. It has the attributes of faults if
// `fault` is not empty.
Site* frame_site(XLA_FFI_Handler* instantiate, const char* routine, int64_t world,
                 const char* fault, char* message, size_t room) {
  Site* site = new Site{routine, fault, world, nullptr, 0};
  Context context{site, 0, 0, nullptr, 0, 0, 0};
  auto stage = XLA_FFI_ExecutionStage_INSTANTIATE;
  if (Call(instantiate, stage, context, nullptr, 0, nullptr, message, room) == 0) return site;
  delete site;
  return nullptr;
}

// One device's call: int32[2] `place` and x [rows, cols] -> y. Returns the code of the error, or 0;
// -1 if scratch is not freed. `lent` gets the allocated bytes.
int frame_call(Site* site, XLA_FFI_Handler* execute, int64_t run, int32_t device, void* stream,
               size_t limit, void* place, int dtype, int64_t rows, int64_t cols, void* x, void* y,
               size_t* lent, char* message, size_t room) {
  Context context{site, run, device, stream, limit, 0, 0};
  int64_t two = 2, dims[] = {rows, cols};
  XLA_FFI_Buffer args[] = {Buffer(XLA_FFI_DataType_S32, place, 1, &two), Buffer(dtype, x, 2, dims)};
  XLA_FFI_Buffer ret = Buffer(dtype, y, 2, dims);
  auto stage = XLA_FFI_ExecutionStage_EXECUTE;
  const int code = Call(execute, stage, context, args, 2, &ret, message, room);
  *lent = context.lent;
  return context.pieces == 0 ? code : -1;
}

// Destroys the state, as XLA does with an executable.
void frame_drop(Site* site, const XLA_FFI_TypeInfo* info) {
  info->deleter(site->state);
  delete site;
}

}  // extern "C"
