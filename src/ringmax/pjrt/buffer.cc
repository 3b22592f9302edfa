#include "ringmax/pjrt/buffer.h"

#include <numeric>
#include <utility>

#include "ringmax/pjrt/client_state.h"
#include "ringmax/pjrt/element_type.h"

namespace ringmax::pjrt {

Buffer::Buffer(std::shared_ptr<const ClientState> client, PJRT_Buffer* buffer)
    : client_(std::move(client)) {
  buffer_ =
      std::shared_ptr<PJRT_Buffer>(buffer, [keep = client_](PJRT_Buffer* b) {
        RINGMAX_PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
        args.buffer = b;
        RINGMAX_PJRT_CALL_QUIETLY(keep->api(), PJRT_Buffer_Destroy, args);
      });
}

void Buffer::check_valid() const {
  if (!valid()) fail(ErrorCode::kInternal, "an empty Buffer is used");
}

Shape Buffer::shape() const {
  check_valid();
  RINGMAX_PJRT_ARGS(PJRT_Buffer_ElementType_Args, type);
  type.buffer = handle();
  RINGMAX_PJRT_CALL(client_->api(), PJRT_Buffer_ElementType, type);
  RINGMAX_PJRT_ARGS(PJRT_Buffer_Dimensions_Args, dims);
  dims.buffer = handle();
  RINGMAX_PJRT_CALL(client_->api(), PJRT_Buffer_Dimensions, dims);
  return Shape(from_element_type(type.type),
               Dims(dims.dims, dims.dims + dims.num_dims));
}

int Buffer::device_id() const {
  check_valid();
  RINGMAX_PJRT_ARGS(PJRT_Buffer_Device_Args, args);
  args.buffer = handle();
  RINGMAX_PJRT_CALL(client_->api(), PJRT_Buffer_Device, args);
  return pjrt::device_id(client_->api(), args.device);
}

std::int64_t Buffer::on_device_bytes() const {
  check_valid();
  RINGMAX_PJRT_ARGS(PJRT_Buffer_OnDeviceSizeInBytes_Args, args);
  args.buffer = handle();
  RINGMAX_PJRT_CALL(client_->api(), PJRT_Buffer_OnDeviceSizeInBytes, args);
  return static_cast<std::int64_t>(args.on_device_size_in_bytes);
}

void Buffer::erase() const {
  check_valid();
  RINGMAX_PJRT_ARGS(PJRT_Buffer_Delete_Args, args);
  args.buffer = handle();
  RINGMAX_PJRT_CALL(client_->api(), PJRT_Buffer_Delete, args);
}

bool Buffer::is_deleted() const {
  check_valid();
  RINGMAX_PJRT_ARGS(PJRT_Buffer_IsDeleted_Args, args);
  args.buffer = handle();
  RINGMAX_PJRT_CALL(client_->api(), PJRT_Buffer_IsDeleted, args);
  return args.is_deleted;
}

Event Buffer::ready() const {
  check_valid();
  RINGMAX_PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = handle();
  RINGMAX_PJRT_CALL(client_->api(), PJRT_Buffer_ReadyEvent, args);
  return Event(client_->plugin.api(), args.event, "PJRT_Buffer_ReadyEvent");
}

HostArray Buffer::to_host() const { return to_host_async().get(); }

HostFuture Buffer::to_host_async() const {
  HostArray array(shape());
  // Devices choose their own layouts; the host always sees row major.
  Dims minor_to_major(array.shape().dims.size());
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  RINGMAX_PJRT_ARGS(PJRT_Buffer_MemoryLayout, layout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();

  RINGMAX_PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = handle();
  args.host_layout = &layout;
  args.dst = array.bytes().data();
  args.dst_size = array.bytes().size();
  RINGMAX_PJRT_CALL(client_->api(), PJRT_Buffer_ToHostBuffer, args);
  Event done(client_->plugin.api(), args.event, "PJRT_Buffer_ToHostBuffer");
  // The plugin writes into the array even when nobody waits for it.
  done.on_ready([keep = array](const Error*) {});
  return HostFuture(std::move(array), std::move(done));
}

Buffer Buffer::copy_to(int device_id) const {
  check_valid();
  RINGMAX_PJRT_ARGS(PJRT_Buffer_CopyToDevice_Args, args);
  args.buffer = handle();
  args.dst_device = client_->device(device_id).handle;
  RINGMAX_PJRT_CALL(client_->api(), PJRT_Buffer_CopyToDevice, args);
  return Buffer(client_, args.dst_buffer);
}

}  // namespace ringmax::pjrt
