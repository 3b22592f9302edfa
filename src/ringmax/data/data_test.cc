#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/data/dataset.h"
#include "ringmax/data/open_dataset.h"
#include "ringmax/data/permutation.h"
#include "ringmax/data/prefetcher.h"
#include "ringmax/data/reorder.h"
#include "ringmax/data/text_dataset.h"
#include "ringmax/data/tokenizer.h"

namespace ringmax::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> values(const HostArray& array) {
  const auto span = array.data<T>();
  return {span.begin(), span.end()};
}
std::vector<std::int32_t> ints(const HostArray& array) {
  return values<std::int32_t>(array);
}

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(ints(a.tokens), ints(b.tokens));
  EXPECT_EQ(ints(a.targets), ints(b.targets));
  EXPECT_EQ(ints(a.positions), ints(b.positions));
  EXPECT_EQ(ints(a.segment_ids), ints(b.segment_ids));
  EXPECT_EQ(values<float>(a.weights), values<float>(b.weights));
}

std::string message_of(const TextSettings& settings, ErrorCode code) {
  try {
    open_text_dataset(settings, {1, 8});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.message(), HasSubstr("dataset_path"));
    return error.message();
  }
  return "accepted";
}

TEST(FillRow, SequenceTokensGiveEachPairOnce) {
  constexpr int kLength = 16;
  std::vector<std::int32_t> tokens(kLength);
  std::iota(tokens.begin(), tokens.end(), 0);
  Batch batch = make_empty_batch(1, kLength);
  fill_row(batch, 0, tokens);
  EXPECT_EQ(batch.total_weights(), kLength - 1);
  for (int i = 0; i + 1 < kLength; ++i) {
    EXPECT_EQ(ints(batch.tokens)[i], i);
    EXPECT_EQ(ints(batch.targets)[i], i + 1);
    EXPECT_EQ(values<float>(batch.weights)[i], 1);
  }
  EXPECT_EQ(values<float>(batch.weights)[kLength - 1], 0);
  EXPECT_EQ(ints(batch.segment_ids)[kLength - 1], 0);
}

TEST(FillRow, FewTokensGiveNoPair) {
  Batch batch = make_empty_batch(2, 4);
  fill_row(batch, 0, {});
  fill_row(batch, 1, std::vector<std::int32_t>{7});
  EXPECT_EQ(batch.total_weights(), 0);
  EXPECT_THROW(fill_row(batch, 1, std::vector<std::int32_t>(6)), Error);
}

TEST(ProcessRows, TileTheBatch) {
  EXPECT_EQ(process_rows(8, 3, 4), (RowRange{6, 2}));
  EXPECT_THROW(process_rows(6, 0, 4), Error);
}

TEST(Synthetic, OneBatchRepeatedWhicheverWayItIsRead) {
  const auto dataset = make_synthetic_dataset({4, 32}, 1000, 5);
  const Batch whole = dataset->batch(0, {0, 4});
  expect_equal(whole, dataset->batch(9, {0, 4}));
  EXPECT_EQ(whole.total_weights(), 4 * 32);
  const Batch part = dataset->batch(3, process_rows(4, 1, 2));
  const auto tokens = ints(whole.tokens);
  EXPECT_EQ(ints(part.tokens),
            std::vector<std::int32_t>(tokens.begin() + 64, tokens.end()));
  for (int row = 0; row < 4; ++row) {
    for (int i = 0; i + 1 < 32; ++i) {
      EXPECT_EQ(ints(whole.targets)[row * 32 + i], tokens[row * 32 + i + 1]);
    }
  }
  for (const std::int32_t token : tokens) {
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 1000);
  }
  EXPECT_NE(
      tokens,
      ints(make_synthetic_dataset({4, 32}, 1000, 6)->batch(0, {0, 4}).tokens));
}

TEST(Tokenizer, BytesThereAndBack) {
  EXPECT_THAT(encode_prompt("A\xC3\xA9"),
              ElementsAre(kBeginId, 'A', 0xC3, 0xA9));
  EXPECT_EQ(decode(encode_prompt("A\xC3\xA9")), "A\xC3\xA9");
  EXPECT_EQ(decode(std::vector<std::int32_t>{kEndId, 0xC3, 'x', 999, -1}),
            "\xEF\xBF\xBDx");
}

TEST(Permutation, EveryThingOnceForEverySize) {
  for (std::uint64_t n = 1; n < 300; ++n) {
    const Permutation order(n, 1, 2);
    std::vector<bool> seen(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t at = order(i);
      ASSERT_LT(at, n);
      ASSERT_FALSE(seen[at]);
      seen[at] = true;
    }
  }
}

TEST(Permutation, LooksShuffledAndDependsOnSeedAndStream) {
  constexpr int kSize = 10000;
  const Permutation a(kSize, 1, 2), b(kSize, 1, 3), c(kSize, 2, 2);
  double product = 0;
  int same_b = 0, same_c = 0;
  for (int i = 0; i < kSize; ++i) {
    const auto place = static_cast<double>(a(i));
    product += (i / (kSize - 1.0) - 0.5) * (place / (kSize - 1.0) - 0.5) * 12;
    same_b += a(i) == b(i);
    same_c += a(i) == c(i);
  }
  EXPECT_NEAR(product / kSize, 0, 0.05);
  EXPECT_LT(same_b, 12);
  EXPECT_LT(same_c, 12);
}

TEST(Text, OneDocumentInWindows) {
  const TempDir dir;
  TextSettings settings{.dataset_path = dir.write("a", "abcdefgh"),
                        .shuffle = false};
  const auto dataset = open_text_dataset(settings, {1, 4});
  // Stream: BEGIN a b c d e f g h END, nine pairs, three windows.
  const Batch first = dataset->batch(0, {0, 1});
  EXPECT_THAT(ints(first.tokens), ElementsAre(kBeginId, 'a', 'b', 'c'));
  EXPECT_THAT(ints(first.targets), ElementsAre('a', 'b', 'c', 'd'));
  const Batch last = dataset->batch(2, {0, 1});
  EXPECT_THAT(ints(last.tokens), ElementsAre('h', 0, 0, 0));
  EXPECT_THAT(ints(last.targets), ElementsAre(kEndId, 0, 0, 0));
  EXPECT_THAT(values<float>(last.weights), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(ints(last.segment_ids), ElementsAre(1, 0, 0, 0));
  expect_equal(first, dataset->batch(3, {0, 1}));  // the next epoch
}

TEST(Text, PackedDocumentsHaveSegmentsAndBordersHaveNoTarget) {
  const TempDir dir;
  dir.write("d/1", "ab");
  dir.write("d/2", "");
  dir.write("d/3", "c");
  const TextSettings settings{
      .dataset_path = dir.path() + "/d", .shuffle = false, .packing = true};
  // Stream: BEGIN a b END BEGIN c END.
  const Batch packed = open_text_dataset(settings, {1, 8})->batch(0, {0, 1});
  EXPECT_THAT(ints(packed.tokens),
              ElementsAre(kBeginId, 'a', 'b', kEndId, kBeginId, 'c', 0, 0));
  EXPECT_THAT(ints(packed.targets),
              ElementsAre('a', 'b', kEndId, kBeginId, 'c', kEndId, 0, 0));
  EXPECT_THAT(values<float>(packed.weights),
              ElementsAre(1, 1, 1, 0, 1, 1, 0, 0));
  EXPECT_THAT(ints(packed.segment_ids), ElementsAre(1, 1, 1, 1, 2, 2, 0, 0));
  EXPECT_THAT(ints(packed.positions), ElementsAre(0, 1, 2, 3, 0, 1, 6, 7));
  // A window that begins inside a document restarts it.
  const Batch second = open_text_dataset(settings, {1, 3})->batch(1, {0, 1});
  EXPECT_THAT(ints(second.tokens), ElementsAre(kEndId, kBeginId, 'c'));
  EXPECT_THAT(ints(second.segment_ids), ElementsAre(1, 2, 2));
  EXPECT_THAT(ints(second.positions), ElementsAre(0, 0, 1));
  EXPECT_THAT(values<float>(second.weights), ElementsAre(0, 1, 1));
}

TEST(Text, UnpackedRowsHoldOneDocumentAndPadding) {
  const TempDir dir;
  dir.write("d/1", "abcd");
  dir.write("d/2", "e");
  const auto dataset = open_text_dataset(
      {.dataset_path = dir.path() + "/d", .shuffle = false}, {3, 4});
  // BEGIN a b c d END is five pairs, two windows; BEGIN e END is one.
  const Batch batch = dataset->batch(0, {0, 3});
  EXPECT_THAT(ints(batch.tokens), ElementsAre(kBeginId, 'a', 'b', 'c',  //
                                              'd', 0, 0, 0,             //
                                              kBeginId, 'e', 0, 0));
  EXPECT_THAT(ints(batch.targets), ElementsAre('a', 'b', 'c', 'd',  //
                                               kEndId, 0, 0, 0,     //
                                               'e', kEndId, 0, 0));
  EXPECT_THAT(ints(batch.segment_ids),
              ElementsAre(1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0));
  EXPECT_THAT(values<float>(batch.weights),
              ElementsAre(1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0));
  EXPECT_THAT(dataset->describe(), HasSubstr("3 windows of 4"));
}

// Every window length against the stream written out by hand: each pair of the
// stream stands in exactly one window, border pairs with weight 0.
TEST(Text, AnEpochHoldsEachPairOnceForEveryLength) {
  const TempDir dir;
  std::vector<std::int32_t> stream;
  for (const std::string text : {"hello", "x", "world of text", "yz"}) {
    dir.write("d/" + std::to_string(stream.size() + 10), text);
    stream.push_back(kBeginId);
    for (const char c : text) stream.push_back(c);
    stream.push_back(kEndId);
  }
  using Pair = std::pair<std::int32_t, std::int32_t>;
  std::map<Pair, int> expected;
  for (std::size_t i = 0; i + 1 < stream.size(); ++i) {
    if (stream[i] != kEndId) ++expected[{stream[i], stream[i + 1]}];
  }
  const auto pairs = static_cast<std::int64_t>(stream.size()) - 1;
  const auto windows_of = [](std::int64_t n, std::int64_t length) {
    return (n + length - 1) / length;
  };
  for (const bool shuffle : {false, true}) {
    for (const bool packing : {false, true}) {
      for (std::int64_t length = 1; length <= pairs + 3; ++length) {
        std::int64_t windows = windows_of(pairs, length);
        if (!packing) {
          windows = 0;
          for (const std::int64_t bytes : {5, 1, 13, 2}) {
            windows += windows_of(bytes + 1, length);
          }
        }
        const auto dataset =
            open_text_dataset({.dataset_path = dir.path() + "/d",
                               .shuffle = shuffle,
                               .seed = 3,
                               .packing = packing},
                              {1, length});
        std::map<Pair, int> found;
        for (std::int64_t step = windows; step < 2 * windows; ++step) {
          const Batch batch = dataset->batch(step, {0, 1});
          for (std::int64_t i = 0; i < length; ++i) {
            if (values<float>(batch.weights)[i] == 0) continue;
            ++found[{ints(batch.tokens)[i], ints(batch.targets)[i]}];
          }
        }
        ASSERT_EQ(found, expected) << length << " " << packing;
      }
    }
  }
}

TEST(Text, RowsDoNotDependOnProcessesOrBatching) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 500; ++i) text += std::to_string(i) + " ";
  const TextSettings settings{.dataset_path = dir.write("a", text), .seed = 4};
  const auto fours = open_text_dataset(settings, {4, 16});
  const auto ones = open_text_dataset(settings, {1, 16});
  for (const std::int64_t step : {0, 7, 100, 12345}) {
    const std::vector<std::int32_t> whole =
        ints(fours->batch(step, {0, 4}).tokens);
    std::vector<std::int32_t> by_process, by_step;
    for (int i = 0; i < 4; ++i) {
      for (const std::int32_t token :
           ints(fours->batch(step, process_rows(4, i, 4)).tokens)) {
        by_process.push_back(token);
      }
      for (const std::int32_t token :
           ints(ones->batch(step * 4 + i, {0, 1}).tokens)) {
        by_step.push_back(token);
      }
    }
    EXPECT_EQ(whole, by_process);
    EXPECT_EQ(whole, by_step);
  }
}

TEST(Text, EpochsAndSeedsDifferInOrder) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 500; ++i) text += std::to_string(i) + " ";
  TextSettings settings{.dataset_path = dir.write("a", text), .seed = 4};
  const std::int64_t windows = (std::ssize(text) + 1 + 15) / 16;
  const auto walk = [&](const TextSettings& s, std::int64_t first) {
    return ints(
        open_text_dataset(s, {windows, 16})->batch(first, {0, windows}).tokens);
  };
  const auto first = walk(settings, 0);
  EXPECT_EQ(first, walk(settings, 0));
  EXPECT_NE(first, walk(settings, 1));
  settings.seed = 5;
  EXPECT_NE(first, walk(settings, 0));
}

TEST(Text, MoreFilesThanMapsAreKept) {
  const TempDir dir;
  for (int i = 0; i < 600; ++i) dir.write("d/" + std::to_string(1000 + i), "q");
  const auto dataset = open_text_dataset(
      {.dataset_path = dir.path() + "/d", .shuffle = false, .packing = true},
      {1, 1800});
  EXPECT_EQ(dataset->batch(0, {0, 1}).total_weights(), 1200);
  EXPECT_EQ(ints(dataset->batch(0, {0, 1}).segment_ids)[1798], 600);
  expect_equal(dataset->batch(0, {0, 1}), dataset->batch(1, {0, 1}));
}

TEST(Text, BadInputIsNamed) {
  const TempDir dir;
  const std::string& root = dir.path();
  message_of({.dataset_path = ""}, ErrorCode::kInvalidArgument);
  EXPECT_THAT(message_of({.dataset_path = root + "/no"}, ErrorCode::kNotFound),
              HasSubstr("/no"));
  message_of({.dataset_path = root}, ErrorCode::kNotFound);
  message_of({.dataset_path = root + "/*.txt"}, ErrorCode::kNotFound);
  message_of({.dataset_path = "/dev/null"}, ErrorCode::kInvalidArgument);
  // A pipe is not waited for.
  ASSERT_EQ(::mkfifo((root + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(
      message_of({.dataset_path = root + "/pipe"}, ErrorCode::kInvalidArgument),
      HasSubstr("is not a regular file; valid are readable files"));
  ASSERT_EQ(::symlink("loop", (root + "/loop").c_str()), 0);
  EXPECT_THAT(
      message_of({.dataset_path = root + "/loop"}, ErrorCode::kInvalidArgument),
      HasSubstr("Too many levels of symbolic links"));
  EXPECT_THAT(message_of({.dataset_path = dir.write("empty", "")},
                         ErrorCode::kInvalidArgument),
              HasSubstr("empty"));
  EXPECT_THAT(message_of({.dataset_path = dir.write("x.gz", "\x1F\x8B\x08")},
                         ErrorCode::kInvalidArgument),
              HasSubstr("gzip"));
  EXPECT_THAT(message_of({.dataset_path = dir.write("cut", "ab\xE2\x82")},
                         ErrorCode::kInvalidArgument),
              HasSubstr("0xE2 at offset 2"));
}

TEST(Text, FaultsAndCharactersAcrossPiecesOfTheCheck) {
  const TempDir dir;
  // Three-byte characters never end with a piece of 2^20 bytes.
  std::string text;
  while (text.size() < (std::size_t{3} << 20)) text += "\xE2\x82\xAC";
  EXPECT_NE(
      open_text_dataset({.dataset_path = dir.write("good", text)}, {1, 8}),
      nullptr);
  text[text.size() - 3] = '\x80';
  EXPECT_THAT(message_of({.dataset_path = dir.write("bad", text)},
                         ErrorCode::kInvalidArgument),
              HasSubstr("offset " + std::to_string(text.size() - 3)));
}

TEST(Text, AFileThatChangedIsRefused) {
  const TempDir dir;
  const std::string path = dir.write("a", "abc");
  const auto dataset = open_text_dataset({.dataset_path = path}, {1, 8});
  dir.write("a", "ab");
  EXPECT_THROW(dataset->batch(0, {0, 1}), Error);
}

TEST(Text, GlobsReachDirectoriesAndOddNames) {
  const TempDir dir;
  const std::string a = dir.write("one/deep/a", "1");
  const std::string b = dir.write("two/b", "2");
  const std::string odd = dir.write("x[1].txt", "3");
  EXPECT_THAT(resolve_dataset_path(dir.path() + "/*o*"), ElementsAre(a, b));
  EXPECT_THAT(resolve_dataset_path(odd), ElementsAre(odd));
}

TEST(OpenDataset, FollowsTheSettings) {
  DataOptions options;
  EXPECT_EQ(open_dataset(options, {2, 8}, 50)->vocab_size(), 50);
  const TempDir dir;
  options.dataset_type = DatasetType::kText;
  options.dataset_path = dir.write("a", "some text that is long enough");
  const auto text = open_dataset(options, {2, 8}, kByteVocabSize);
  EXPECT_EQ(text->vocab_size(), kByteVocabSize);
  EXPECT_THAT(text->describe(), HasSubstr("1 document "));
  options.enable_data_shuffling = false;
  EXPECT_EQ(
      ints(open_dataset(options, {1, 8}, 1024)->batch(0, {0, 1}).tokens)[0],
      kBeginId);
  EXPECT_THROW(open_dataset(options, {1, 8}, 258), Error);
}

TEST(Reorder, MovesEveryArrayAlike) {
  const TempDir dir;
  dir.write("d/1", "abc");
  dir.write("d/2", "defghi");
  const std::shared_ptr<const Dataset> plain = open_text_dataset(
      {.dataset_path = dir.path() + "/d", .packing = true}, {3, 4});
  const std::vector<std::int64_t> order = {3, 0, 2, 1};
  const auto moved = reorder(plain, order);
  EXPECT_EQ(moved->vocab_size(), plain->vocab_size());
  EXPECT_EQ(moved->describe(), plain->describe());
  for (const RowRange rows : {RowRange{0, 3}, RowRange{1, 1}}) {
    const Batch a = plain->batch(5, rows);
    const Batch b = moved->batch(5, rows);
    EXPECT_EQ(a.total_weights(), b.total_weights());
    for (std::size_t i = 0; i < a.tokens.data<std::int32_t>().size(); ++i) {
      const std::size_t from =
          i / 4 * 4 + static_cast<std::size_t>(order[i % 4]);
      EXPECT_EQ(ints(b.tokens)[i], ints(a.tokens)[from]);
      EXPECT_EQ(ints(b.targets)[i], ints(a.targets)[from]);
      EXPECT_EQ(ints(b.positions)[i], ints(a.positions)[from]);
      EXPECT_EQ(ints(b.segment_ids)[i], ints(a.segment_ids)[from]);
      EXPECT_EQ(values<float>(b.weights)[i], values<float>(a.weights)[from]);
    }
  }
}

TEST(Reorder, RefusesWhatIsNoPermutation) {
  const std::shared_ptr<const Dataset> dataset =
      make_synthetic_dataset({1, 3}, 10, 0);
  EXPECT_THROW(reorder(dataset, {0, 1, 1}), Error);
  EXPECT_THROW(reorder(dataset, {0, 1, 3}), Error);
  EXPECT_THROW(reorder(dataset, {0, 1, -1}), Error);
  EXPECT_THROW(reorder(dataset, {0, 1})->batch(0, {0, 1}), Error);
}

class Failing : public Dataset {
 public:
  Batch batch(std::int64_t step, RowRange) const override {
    ++calls;
    if (step == 2) fail_invalid("step two");
    return make_empty_batch(1, 1);
  }
  std::int64_t vocab_size() const override { return 1; }
  std::string describe() const override { return ""; }
  mutable std::atomic<int> calls = 0;
};

TEST(Prefetcher, GivesTheDatasetsBatchesInOrder) {
  const TempDir dir;
  const std::shared_ptr<const Dataset> dataset = open_text_dataset(
      {.dataset_path = dir.write("a", std::string(100, 'a') + "bcdefg")},
      {2, 8});
  Prefetcher prefetcher(dataset, {1, 1}, 3, 20, 3);
  for (std::int64_t step = 3; step < 20; ++step) {
    expect_equal(prefetcher.next(), dataset->batch(step, {1, 1}));
  }
  EXPECT_THROW(prefetcher.next(), Error);
}

TEST(Prefetcher, PassesErrorsOnAfterGoodBatches) {
  Prefetcher prefetcher(std::make_shared<Failing>(), {0, 1}, 0, 10);
  prefetcher.next();
  prefetcher.next();
  EXPECT_THROW(prefetcher.next(), Error);
  EXPECT_THROW(prefetcher.next(), Error);
}

TEST(Prefetcher, StopsWhenUnreadAndStaysInItsDepth) {
  const auto dataset = std::make_shared<Failing>();
  { Prefetcher unread(dataset, {0, 1}, 10, 1 << 30, 2); }
  EXPECT_LE(dataset->calls, 2);
  { Prefetcher none(dataset, {0, 1}, 5, 5); }
}

}  // namespace
}  // namespace ringmax::data
