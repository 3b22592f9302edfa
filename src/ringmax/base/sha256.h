// SHA-256, to name files by what is in them. Not for secrets.
//
// Source: FIPS 180-4.
#ifndef RINGMAX_BASE_SHA256_H_
#define RINGMAX_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ringmax {

class Sha256 {
 public:
  // kPortable leaves the processor's own instructions for it out.
  enum class Method { kFastest, kPortable };
  explicit Sha256(Method method = Method::kFastest);

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) {
    update(std::as_bytes(std::span<const char>(text)));
  }
  // 64 hexadecimal digits; nothing may be added afterwards.
  std::string finish();

 private:
  void blocks(const std::byte* data, std::size_t count);

  bool use_instructions_;
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                         0xa54ff53a, 0x510e527f, 0x9b05688c,
                                         0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_ = {};
  std::uint64_t size_ = 0;
};

std::string sha256(std::string_view text);
// Reads the file as it goes. Throws kNotFound or kIo.
std::string sha256_of_file(const std::string& path);

}  // namespace ringmax

#endif  // RINGMAX_BASE_SHA256_H_
