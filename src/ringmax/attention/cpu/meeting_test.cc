#include "ringmax/attention/cpu/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/message_of.h"

namespace ringmax::attention::cpu {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Part> part() {
  static const float number = 1;
  static const std::int32_t position = 0;
  Problem p;
  p.q = p.k = p.v = {&number, 1, 1, 1};
  p.q_positions = p.kv_positions = &position;
  return std::make_shared<Part>(p, 1, nullptr);
}

TEST(Meetings, AllGuestsOfTheSameTicketsMeetOnce) {
  Meetings meetings;
  const std::vector<std::int64_t> now = {meetings.put(part()),
                                         meetings.put(part())};
  const std::vector<std::int64_t> next = {meetings.put(part()),
                                          meetings.put(part())};
  EXPECT_EQ(meetings.waiting(), 4);
  const auto one = meetings.join(now);
  const auto ahead = meetings.join(next);
  EXPECT_NE(one, ahead);
  EXPECT_EQ(one, meetings.join(now));
  EXPECT_EQ(ahead, meetings.join(next));
  EXPECT_EQ(meetings.waiting(), 0);
  EXPECT_EQ(one->together().parts(), 2);
}

TEST(Meetings, TheFirstDoesTheWorkAndAllFindItDone) {
  for (int round = 0; round < 30; ++round) {
    Meeting meeting({part()});
    std::atomic<int> runs = 0;
    std::atomic<int> seen = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        meeting.run([&] { ++runs; });
        seen += runs.load();
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(seen, 8);
  }
}

TEST(Meetings, WhatTheWorkThrowsEverybodyThrows) {
  Meeting meeting({part()});
  const auto run = [&] { meeting.run([] { throw std::runtime_error("no"); }); };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_THROW(run(), std::runtime_error);
}

TEST(Meetings, RefuseTicketsThatAreNoneOrTaken) {
  Meetings meetings;
  const std::int64_t a = meetings.put(part());
  const std::int64_t b = meetings.put(part());
  EXPECT_THAT(message_of([&] { meetings.join(std::vector{b + 1}); }),
              HasSubstr("nobody brings"));
  EXPECT_THAT(message_of([&] { meetings.join({}); }), HasSubstr("nobody"));
  meetings.join(std::vector{a, b});
  EXPECT_THAT(message_of([&] { meetings.join(std::vector{a}); }),
              HasSubstr("is not the meeting of"));
  meetings.join(std::vector{a, b});
  EXPECT_THAT(message_of([&] {
                meetings.join(std::vector{a, b});
              }),
              HasSubstr("or it is taken"));
}

TEST(Meetings, NothingIsLeftOfAFailedProgram) {
  Meetings meetings;
  const std::vector<std::int64_t> tickets = {meetings.put(part()),
                                             meetings.put(part())};
  meetings.put(part());
  const std::weak_ptr<Meeting> watched = meetings.join(tickets);
  EXPECT_FALSE(watched.expired());
  meetings.clear();
  EXPECT_EQ(meetings.waiting(), 0);
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace ringmax::attention::cpu
