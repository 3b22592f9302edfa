#include "ringmax/base/sha256.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ringmax/base/file.h"

namespace ringmax {
namespace {

// Fractional parts of the cube roots of the first 64 primes.
constexpr std::uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::byte* data) {
  std::uint32_t word;
  std::memcpy(&word, data, sizeof(word));
  return __builtin_bswap32(word);
}

using State = std::array<std::uint32_t, 8>;

void portable_block(State& state, const std::byte* data) {
  std::uint32_t w[64];
  for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian(data + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t x = w[i - 15];
    const std::uint32_t y = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] +
           (std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3)) +
           (std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t t1 =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
        ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
        ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += added[i];
}

bool has_sha_instructions() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kShaBit = 1u << 29;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kShaBit) != 0;
}

// The instructions keep the state as (a b e f) and (c d g h).
__attribute__((target("sha,sse4.1"))) void instruction_blocks(
    State& state, const std::byte* data, std::size_t count) {
  const __m128i swap_bytes =
      _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* words = reinterpret_cast<__m128i*>(state.data());
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; count > 0; --count, data += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) {
      w[i] = _mm_shuffle_epi8(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i),
          swap_bytes);
    }
    for (int i = 0; i < 16; ++i) {  // four rounds each
      const __m128i sum = _mm_add_epi32(
          w[0], _mm_loadu_si128(reinterpret_cast<const __m128i*>(kRound) + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      const __m128i next =
          _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]),
                                             _mm_alignr_epi8(w[3], w[2], 4)),
                               w[3]);
      w[0] = w[1];
      w[1] = w[2];
      w[2] = w[3];
      w[3] = next;
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace

Sha256::Sha256(Method method)
    : use_instructions_(method == Method::kFastest && has_sha_instructions()) {}

void Sha256::blocks(const std::byte* data, std::size_t count) {
  if (use_instructions_) {
    instruction_blocks(state_, data, count);
    return;
  }
  for (; count > 0; --count, data += rest_.size()) portable_block(state_, data);
}

void Sha256::update(std::span<const std::byte> bytes) {
  const std::size_t held = size_ % rest_.size();
  size_ += bytes.size();
  if (held > 0) {
    const std::size_t taken = std::min(rest_.size() - held, bytes.size());
    std::copy_n(bytes.data(), taken, rest_.data() + held);
    bytes = bytes.subspan(taken);
    if (held + taken < rest_.size()) return;
    blocks(rest_.data(), 1);
  }
  const std::size_t whole = bytes.size() / rest_.size();
  blocks(bytes.data(), whole);
  bytes = bytes.subspan(whole * rest_.size());
  std::copy_n(bytes.data(), bytes.size(), rest_.data());
}

std::string Sha256::finish() {
  const std::uint64_t bits = 8 * size_;
  const std::byte one{0x80};
  update(std::span<const std::byte>(&one, 1));
  const std::byte zero{0};
  while (size_ % rest_.size() != 56) {
    update(std::span<const std::byte>(&zero, 1));
  }
  const std::uint64_t length = __builtin_bswap64(bits);
  update(std::as_bytes(std::span<const std::uint64_t>(&length, 1)));
  std::string text;
  for (const std::uint32_t word : state_) text += fmt::format("{:08x}", word);
  return text;
}

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish();
}

std::string sha256_of_file(const std::string& path) {
  Sha256 hash;
  hash.update(MappedFile(path).bytes());
  return hash.finish();
}

}  // namespace ringmax
