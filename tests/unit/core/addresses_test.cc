// The order in which a service's addresses are tried, and the time limit of each.
#include "src/core/base/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/support/clock.h"

namespace rung {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<Url> hosts(int count) {
  std::vector<Url> urls;
  for (int i = 1; i <= count; ++i) {
    Url url;
    url.scheme = "amqp";
    url.user = "me";
    url.password = "geheim";
    url.host = "10.0.0." + std::to_string(i);
    urls.push_back(url);
  }
  return urls;
}

std::vector<Address> found(const Addresses& addresses) {
  return addresses.find(test_clock().boot() + std::chrono::seconds{10}, {}).all;
}

std::string order(const Addresses& addresses) {
  std::string out;
  for (const Address& one : addresses.in_order(found(addresses))) out += one.ip.back();
  return out;
}

// What happens to an attempt at each place: "" = it serves.
struct Service {
  std::vector<Error> errors;
  std::vector<std::size_t> tried;
  Result<int> operator()(const Address& address, BootMs) {
    tried.push_back(address.place);
    const Error& error = errors[address.place];
    if (error.message.empty()) return static_cast<int>(address.place);
    return tl::unexpected(error);
  }
};

const Error kServes{};
Error away(const std::string& message) { return {Error::Kind::transient, message}; }
Error refused(const std::string& message) { return {Error::Kind::refused, message}; }

Result<int> connect(Addresses& addresses, Service& service) {
  return addresses.connect(Ms{10'000}, {},
                           [&](const Address& address, BootMs until) { return service(address, until); });
}

TEST(AddressesTest, TheShuffledOrderIsTheSeedsAndStays) {
  std::set<std::string> orders;
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    const Addresses addresses(hosts(3), 5672, Addresses::Order::shuffled, test_clock(), seed);
    EXPECT_EQ(order(addresses), order(addresses));
    orders.insert(order(addresses));
  }
  EXPECT_EQ(orders.size(), 6U) << "50 seeds do not make all 6 orders";
}

TEST(AddressesTest, WhatFailedComesLastTheLongestAgoFirst) {
  Addresses addresses(hosts(3), 5672, Addresses::Order::shuffled, test_clock(), 7);
  const auto all = found(addresses);
  addresses.serves(all[0]);
  addresses.failed(all[0]);
  addresses.failed(all[1]);
  EXPECT_EQ(order(addresses), "312");
  addresses.failed(all[2]);
  EXPECT_EQ(order(addresses), "123");
  addresses.serves(all[1]);
  EXPECT_EQ(order(addresses), "213");
}

// All processes must agree on one writer: nothing of what one of them has met before may matter.
TEST(AddressesTest, TheListedOrderForgetsFailures) {
  Addresses addresses(hosts(3), 3306, Addresses::Order::listed, test_clock());
  const auto all = found(addresses);
  addresses.failed(all[0]);
  EXPECT_EQ(order(addresses), "123");
  addresses.serves(all[1]);
  addresses.failed(all[1]);
  EXPECT_EQ(order(addresses), "123");
}

TEST(AddressesTest, EachHasASliceOfTheTimeAndMoreWhenOneWasSilent) {
  Addresses addresses(hosts(2), 5672, Addresses::Order::shuffled, test_clock());
  EXPECT_EQ(addresses.slice(), Ms{2000});
  addresses.was_silent(Ms{2000});
  addresses.was_silent(Ms{2000});  // another connection, in the same round
  EXPECT_EQ(addresses.slice(), Ms{4000});
  addresses.was_silent(Ms{4000});
  addresses.was_silent(Ms{8000});
  EXPECT_EQ(addresses.slice(), Ms{8000});
  addresses.serves(found(addresses)[0]);
  EXPECT_EQ(addresses.slice(), Ms{2000});
}

// Dead rather than slow: whoever comes next should not wait for it longer than the one before.
TEST(AddressesTest, OneThatIsSilentGetsNoMoreTimeWhereAnotherServes) {
  Addresses addresses(hosts(2), 5672, Addresses::Order::listed, test_clock());
  for (const bool two_serves : {true, false}) {
    (void)addresses.connect(Ms{20}, {}, [&](const Address& address, BootMs until) -> Result<int> {
      if (address.place == 1 && two_serves) return 1;
      std::this_thread::sleep_for(until - test_clock().boot());
      return tl::unexpected(away("silent"));
    });
    EXPECT_EQ(addresses.slice(), two_serves ? Ms{2000} : Ms{4000});
  }
}

TEST(AddressesTest, OneThatIsAloneHasAllTheTime) {
  for (const int count : {1, 2}) {
    Addresses addresses(hosts(count), 5672, Addresses::Order::listed, test_clock());
    const Ms given = count == 1 ? Ms{10'000} : Ms{2000};
    const BootMs began = test_clock().boot();
    const auto got = addresses.connect(Ms{10'000}, {}, [&](const Address&, BootMs until) {
      EXPECT_GE(until - began, given);
      EXPECT_LE(until - test_clock().boot(), given);
      return Result<int>(1);
    });
    ASSERT_TRUE(got);
  }
}

TEST(AddressesTest, TheNextIsTriedAfterAnyFailure) {
  for (const Error& error :
       {away("no answer"), refused("ACCESS_REFUSED"), Error{Error::Kind::permanent, "x"}}) {
    Addresses addresses(hosts(3), 5672, Addresses::Order::listed, test_clock());
    Service service{{error, error, kServes}, {}};
    const auto got = connect(addresses, service);
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, 2);
    EXPECT_THAT(service.tried, ElementsAre(0, 1, 2));
    service.tried.clear();
    ASSERT_TRUE(connect(addresses, service));
    EXPECT_THAT(service.tried, ElementsAre(2));
  }
}

TEST(AddressesTest, TellsOnceWhichServesAndWhatWasPassedOver) {
  Addresses addresses(hosts(2), 5672, Addresses::Order::listed, test_clock());
  std::vector<std::string> told;
  addresses.on_change([&](const std::string& address, const std::string& passed_over) {
    told.push_back(address + " / " + passed_over);
  });
  Service service{{away("one is silent"), kServes}, {}};
  ASSERT_TRUE(connect(addresses, service));
  ASSERT_TRUE(connect(addresses, service));
  service.errors = {kServes, away("two went")};
  ASSERT_TRUE(connect(addresses, service));
  EXPECT_THAT(told, ElementsAre("10.0.0.2:5672 / one is silent", "10.0.0.1:5672 / two went"));
  for (const std::string& line : told) EXPECT_THAT(line, Not(HasSubstr("geheim")));
}

TEST(AddressesTest, WhoIsElsewhereLearnsThatAnotherServesNow) {
  Addresses addresses(hosts(2), 3306, Addresses::Order::listed, test_clock());
  const auto all = found(addresses);
  EXPECT_FALSE(addresses.left(all[0]));
  addresses.serves(all[0]);
  EXPECT_FALSE(addresses.left(all[0]));
  addresses.failed(all[0]);  // for one; the others' connections may stand
  EXPECT_FALSE(addresses.left(all[0]));
  addresses.serves(all[1]);
  EXPECT_TRUE(addresses.left(all[0]));
  EXPECT_FALSE(addresses.left(all[1]));
  addresses.serves(all[0]);
  EXPECT_FALSE(addresses.left(all[1]))
      << "a name may stand for another address at each look: this one has not failed";
}

TEST(AddressesTest, ANameWithSeveralAddressesCountsAsSeveral) {
  std::vector<Url> urls = hosts(1);
  urls[0].host = "localhost";
  const Addresses addresses(urls, 5672, Addresses::Order::listed, test_clock());
  const auto all = found(addresses);
  ASSERT_FALSE(all.empty());
  for (const Address& one : all) {
    EXPECT_EQ(one.alone, all.size() == 1);
    EXPECT_EQ(one.shown, all.size() == 1 ? "localhost:5672" : "localhost:5672 (" + one.ip + ")");
  }
  const auto names = addresses.find(test_clock().boot(), {}, true).all;
  ASSERT_EQ(names.size(), 1U);
  EXPECT_EQ(names[0].ip, "");
}

TEST(AddressesTest, ANameThatIsNotKnownLeavesTheOthers) {
  std::vector<Url> urls = hosts(2);
  urls[0].host = "no-such-host.invalid";
  Addresses addresses(urls, 5672, Addresses::Order::listed, test_clock());
  std::vector<std::string> told;
  addresses.on_change(
      [&](const std::string&, const std::string& passed_over) { told.push_back(passed_over); });
  Service service{{kServes}, {}};
  ASSERT_TRUE(connect(addresses, service));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told[0], HasSubstr("no-such-host.invalid"));
}

}  // namespace
}  // namespace rung
