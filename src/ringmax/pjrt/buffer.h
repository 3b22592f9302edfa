// A tensor in the memory of one device.
#ifndef RINGMAX_PJRT_BUFFER_H_
#define RINGMAX_PJRT_BUFFER_H_

#include <cstdint>
#include <memory>

#include "ringmax/base/array.h"
#include "ringmax/base/shape.h"
#include "ringmax/pjrt/event.h"

struct PJRT_Buffer;

namespace ringmax::pjrt {

struct ClientState;

// How long a plugin may read the host bytes it is given.
enum class HostUse {
  // The bytes may change as soon as the call returns; costs a copy where
  // transfers are asynchronous.
  kDuringCall,
  // The array is kept alive, and must not be written, until the copy is done.
  kUntilTransferred,
};

// A shared handle: copies name the same device memory, which is freed with the
// last of them. The values may still be on their way; whatever reads them
// waits. A donated or deleted buffer keeps its handle but has no memory.
class Buffer {
 public:
  // Names nothing; only good to be assigned to.
  Buffer() = default;
  // Takes ownership of `buffer`.
  Buffer(std::shared_ptr<const ClientState> client, PJRT_Buffer* buffer);

  bool valid() const { return buffer_ != nullptr; }
  Shape shape() const;
  // Id of the device that holds it.
  int device_id() const;
  std::int64_t on_device_bytes() const;

  // Frees the memory now, once programs in flight are done with it.
  void erase() const;
  // True after erase() or donation.
  bool is_deleted() const;
  // Ready when the values are there; carries the error of the program or
  // transfer that should have made them.
  Event ready() const;

  // Dense row-major values. Blocks; throws that same error.
  HostArray to_host() const;
  // Starts the copy and returns.
  HostFuture to_host_async() const;

  // Starts a copy to another addressable device.
  Buffer copy_to(int device_id) const;

  // For the sources of this room.
  PJRT_Buffer* handle() const { return buffer_.get(); }

 private:
  void check_valid() const;

  std::shared_ptr<const ClientState> client_;
  std::shared_ptr<PJRT_Buffer> buffer_;
};

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_BUFFER_H_
