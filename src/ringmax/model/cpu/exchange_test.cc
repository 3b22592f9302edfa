#include "ringmax/model/cpu/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/message_of.h"

namespace ringmax::model::cpu {
namespace {

using ::testing::HasSubstr;

TEST(Exchange, TheLastReaderFrees) {
  Exchange exchange;
  Exchange::Array array = Exchange::allocate(1, 5);
  array.data.get()[4] = 7;
  const std::weak_ptr<float> watched = array.data;
  const std::int64_t ticket = exchange.put(std::move(array), 2);
  EXPECT_EQ(exchange.waiting(), 1);
  {
    const Exchange::Array first = exchange.take(ticket, 1, 5);
    const Exchange::Array last = exchange.take(ticket, 1, 5);
    EXPECT_EQ(exchange.waiting(), 0);
    EXPECT_EQ(first.data.get()[4], 7);
    EXPECT_EQ(last.data, first.data);
  }
  EXPECT_TRUE(watched.expired());
}

TEST(Exchange, ADeviceAheadOverwritesNothing) {
  Exchange exchange;
  const std::int64_t now = exchange.put(Exchange::allocate(1, 5), 1);
  const std::int64_t next = exchange.put(Exchange::allocate(1, 5), 1);
  EXPECT_NE(now, next);
  EXPECT_NE(exchange.take(now, 1, 5).data, exchange.take(next, 1, 5).data);
}

TEST(Exchange, WhatIsKeptIsReadUntilAllAreThrough) {
  Exchange exchange;
  const std::int64_t ticket = exchange.keep(Exchange::allocate(1, 5), 2);
  const auto* data = exchange.take(ticket, 1, 5).data.get();
  exchange.release(ticket);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(exchange.take(ticket, 1, 5).data.get(), data);
  }
  exchange.release(ticket);
  EXPECT_EQ(exchange.waiting(), 0);
  EXPECT_THAT(message_of([&] { exchange.take(ticket, 1, 5); }),
              HasSubstr("there is no array"));
  EXPECT_THAT(message_of([&] { exchange.release(ticket); }),
              HasSubstr("is not kept"));
  const std::int64_t once = exchange.put(Exchange::allocate(1, 5), 1);
  EXPECT_THAT(message_of([&] { exchange.release(once); }),
              HasSubstr("is not kept"));
}

TEST(Exchange, ATicketThatIsNoneIsAnError) {
  Exchange exchange;
  const std::int64_t ticket = exchange.put(Exchange::allocate(1, 5), 1);
  EXPECT_THAT(message_of([&] { exchange.take(ticket + 1, 1, 5); }),
              HasSubstr("there is no array"));
  EXPECT_THAT(message_of([&] { exchange.take(ticket, 2, 5); }),
              HasSubstr("of kind 1 with 5 numbers, not 2 with 5"));
  EXPECT_THAT(message_of([&] { exchange.take(ticket, 1, 6); }),
              HasSubstr("not 1 with 6"));
  exchange.take(ticket, 1, 5);
  EXPECT_THAT(message_of([&] { exchange.take(ticket, 1, 5); }),
              HasSubstr("or all have read it"));
}

TEST(Exchange, NothingIsLeftOfAFailedProgram) {
  Exchange exchange;
  Exchange::Array array = Exchange::allocate(1, 5);
  const std::weak_ptr<float> watched = array.data;
  exchange.put(std::move(array), 8);
  exchange.clear();
  EXPECT_EQ(exchange.waiting(), 0);
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace ringmax::model::cpu
