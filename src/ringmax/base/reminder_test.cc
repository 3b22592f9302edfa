#include "ringmax/base/reminder.h"

#include <gtest/gtest.h>

#include <future>

namespace ringmax {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(Reminder, SpeaksOnceWhenItTakesLong) {
  std::promise<void> said;
  const Reminder reminder(milliseconds(1), [&] { said.set_value(); });
  said.get_future().wait();  // a second word would throw
}

TEST(Reminder, IsSilentWhenItDoesNot) {
  bool said = false;
  {
    const Reminder reminder(hours(1), [&] { said = true; });
  }
  EXPECT_FALSE(said);
}

}  // namespace
}  // namespace ringmax
