#include "ringmax/hw/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ringmax/base/error.h"

namespace ringmax::hw {
namespace {

using ::testing::ElementsAre;

// A machine made of files.
class FakeHost : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() /
            ("ringmax_host_" + std::to_string(getpid()) + "_" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(root_);
    paths_ = {(root_ / "proc").string(), (root_ / "cgroup").string()};
    write("proc/meminfo",
          "MemTotal:  9000 kB\nMemFree: 1 kB\nMemAvailable:    4000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  std::filesystem::path root_;
  HostPaths paths_;
};

TEST_F(FakeHost, WithoutGroupsMemoryIsWhatIsAvailable) {
  const HostMemory memory = host_memory(paths_);
  EXPECT_EQ(memory.usable_bytes, 4000 * 1024);
  EXPECT_FALSE(memory.group_limit_bytes.has_value());
}

TEST_F(FakeHost, VersionTwoTakesTheTightestOfNestedGroups) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("cgroup/a/b/memory.max", "max\n");
  write("cgroup/a/memory.max", "1000000\n");
  write("cgroup/a/memory.current", "700000\n");
  write("cgroup/a/memory.stat", "anon 1\ninactive_file 200000\n");
  const HostMemory memory = host_memory(paths_);
  EXPECT_EQ(memory.group_limit_bytes, 1000000);
  EXPECT_EQ(memory.group_free_bytes, 500000);
  EXPECT_EQ(memory.usable_bytes, 500000);
}

TEST_F(FakeHost, VersionOneKnowsItsWayOfSayingNone) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n0::/\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/x/memory.limit_in_bytes", "2000000\n");
  write("cgroup/memory/x/memory.usage_in_bytes", "500000\n");
  const HostMemory memory = host_memory(paths_);
  EXPECT_EQ(memory.group_limit_bytes, 2000000);
  EXPECT_EQ(memory.usable_bytes, 1500000);
}

TEST_F(FakeHost, AGroupWithMoreThanTheMachineHasDoesNotHelp) {
  write("proc/self/cgroup", "0::/\n");
  write("cgroup/memory.max", "99000000\n");
  EXPECT_EQ(host_memory(paths_).usable_bytes, 4000 * 1024);
}

TEST_F(FakeHost, AFullGroupLeavesNothing) {
  write("proc/self/cgroup", "0::/\n");
  write("cgroup/memory.max", "1000\n");
  write("cgroup/memory.current", "5000\n");
  EXPECT_EQ(host_memory(paths_).usable_bytes, 0);
}

TEST_F(FakeHost, BrokenFilesAreNoLimitAndNoMeminfoIsAnError) {
  write("proc/self/cgroup", "nonsense\n::\n0::/gone\n");
  write("cgroup/memory.max", "\n");
  EXPECT_EQ(host_memory(paths_).usable_bytes, 4000 * 1024);
  std::filesystem::remove(root_ / "proc/meminfo");
  EXPECT_THROW(host_memory(paths_), Error);
}

TEST_F(FakeHost, CoresAreCutByQuotas) {
  write("proc/self/cgroup", "0::/a\n");
  const std::int64_t all = host_cores(paths_);
  EXPECT_GE(all, 1);
  write("cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(host_cores(paths_), all);
  write("cgroup/a/cpu.max", "20000 100000\n");
  EXPECT_EQ(host_cores(paths_), 1);
  write("proc/self/cgroup", "1:cpu,cpuacct:/b\n");
  write("cgroup/cpu/b/cpu.cfs_quota_us", "-1\n");
  write("cgroup/cpu/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(host_cores(paths_), all);
  write("cgroup/cpu/b/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(host_cores(paths_), 1);
}

TEST_F(FakeHost, FeaturesAreWholeWordsInAFixedOrder) {
  write("proc/cpuinfo",
        "model name\t: Some CPU\nflags\t\t: fpu avx512f avx2 avx512_bf16x "
        "fma\nmodel name\t: Other\nflags\t\t: avx512vl\n");
  EXPECT_THAT(cpu_features(paths_), ElementsAre("fma", "avx2", "avx512f"));
  EXPECT_EQ(cpu_model(paths_), "Some CPU");
}

TEST(Host, ReadsThisMachine) {
  EXPECT_GT(host_memory().usable_bytes, 0);
  EXPECT_GE(host_cores(), 1);
}

}  // namespace
}  // namespace ringmax::hw
