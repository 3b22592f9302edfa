#include "ringmax/cli/stop_signals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

namespace ringmax::cli {
namespace {

// Each in a process of its own, since it changes what signals do.
class StopSignalsDeathTest : public ::testing::TestWithParam<int> {};

TEST_P(StopSignalsDeathTest, TheFirstIsNoted) {
  EXPECT_EXIT(
      {
        catch_stop_signals();
        if (stop_asked()) std::_Exit(1);
        std::raise(GetParam());
        std::_Exit(stop_asked() ? 0 : 2);
      },
      ::testing::ExitedWithCode(0), "stopping after this step; again: at once");
}

TEST_P(StopSignalsDeathTest, OthersRightAfterItAreTheSameWish) {
  EXPECT_EXIT(
      {
        catch_stop_signals();
        std::raise(GetParam());
        std::raise(GetParam());
        std::raise(SIGTERM);
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "stopping");
}

// Of either kind.
TEST_P(StopSignalsDeathTest, ALaterOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        catch_stop_signals();
        std::raise(GetParam() == SIGINT ? SIGTERM : SIGINT);
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
        std::raise(GetParam());
        std::_Exit(0);
      },
      ::testing::KilledBySignal(GetParam()), "stopping");
}

INSTANTIATE_TEST_SUITE_P(Signals, StopSignalsDeathTest,
                         ::testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& info) {
                           return std::string(info.param == SIGINT ? "SigInt"
                                              : info.param == SIGTERM
                                                  ? "SigTerm"
                                                  : "SigHup");
                         });

TEST(HangUpDeathTest, StaysIgnoredWhereItWas) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        catch_stop_signals();
        std::raise(SIGHUP);
        std::_Exit(stop_asked() ? 2 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(PipeSignalDeathTest, APipeWithoutAReaderIsAnError) {
  EXPECT_EXIT(
      {
        catch_stop_signals();
        std::raise(SIGPIPE);
        ask_to_stop();
        std::_Exit(stop_asked() ? 0 : 2);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ringmax::cli
