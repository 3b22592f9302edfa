#include "ringmax/base/sha256.h"

#include <gtest/gtest.h>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"

namespace ringmax {
namespace {

// The standard's own examples.
TEST(Sha256Test, KnownDigests) {
  EXPECT_EQ(sha256(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256Test, PiecesOfAnySizeGiveTheSameDigest) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  for (const std::size_t piece : {1u, 55u, 56u, 63u, 64u, 65u, 999u}) {
    for (const auto method :
         {Sha256::Method::kFastest, Sha256::Method::kPortable}) {
      Sha256 hash(method);
      for (std::size_t at = 0; at < text.size(); at += piece) {
        hash.update(std::string_view(text).substr(at, piece));
      }
      EXPECT_EQ(hash.finish(), sha256(text)) << piece;
    }
  }
}

TEST(Sha256Test, FilesAreReadWhole) {
  const TempDir dir;
  const std::string path = dir.path() + "/file";
  atomic_write(path, "abc");
  EXPECT_EQ(sha256_of_file(path), sha256("abc"));
  EXPECT_THROW(sha256_of_file(dir.path() + "/none"), Error);
}

}  // namespace
}  // namespace ringmax
