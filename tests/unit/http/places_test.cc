#include "src/http/places.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "src/http/budget.h"
#include "tests/support/clock.h"

namespace rung::http {
namespace {

// Connections whose threads end them as soon as they are shut, as the server's do.
class PlacesTest : public testing::Test {
 protected:
  struct Connection {
    Connection(Places& places, const std::string& peer) {
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
      place = places.take(fds[0], peer);
      if (place == nullptr) return;
      spare = place->spare;
      thread = std::thread([this, &places] {
        char byte = 0;
        ended = recv(fds[0], &byte, 1, 0) == 0;
        places.forget_file(*place);
        places.release(*place);
      });
    }
    ~Connection() {
      close(fds[1]);
      if (thread.joinable()) thread.join();
      close(fds[0]);
    }
    // The server's thread was woken because the server itself ended it.
    bool was_ended() const {
      pollfd p{fds[1], POLLIN, 0};
      return poll(&p, 1, 0) > 0;
    }
    int fds[2] = {-1, -1};
    Places::Place* place = nullptr;
    bool spare = false, ended = false;
    std::thread thread;
  };
  Connection& open(const std::string& peer) {
    connections.push_back(std::make_unique<Connection>(places, peer));
    return *connections.back();
  }
  Connection& busy(const std::string& peer) {
    Connection& c = open(peer);
    EXPECT_TRUE(c.place != nullptr && places.serves(*c.place));
    return c;
  }

  Places places{4, 3, test_clock()};
  std::vector<std::unique_ptr<Connection>> connections;
};

TEST_F(PlacesTest, AnAddressHasItsShare) {
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(busy("a").spare);
  EXPECT_TRUE(busy("a").spare) << "the fourth of one address";
  EXPECT_FALSE(busy("b").spare) << "another address";
  EXPECT_TRUE(busy("b").spare) << "none is left";
}

TEST_F(PlacesTest, WhoWaitsLongestMakesRoom) {
  Connection& first = open("a");
  busy("a");
  Connection& of_b = open("b");
  open("a");
  EXPECT_FALSE(open("a").spare) << "a's own share: one of a's makes room";
  EXPECT_TRUE(first.was_ended());
  EXPECT_FALSE(of_b.was_ended());
  EXPECT_FALSE(open("c").spare);
  EXPECT_TRUE(of_b.was_ended()) << "it has waited longest of all";
}

TEST_F(PlacesTest, ANewSparePlaceIsAlwaysThereWhileOthersWait) {
  for (int i = 0; i < 4; ++i) busy(i < 3 ? "a" : "b");
  Connection& probe_of_c = open("c");
  ASSERT_TRUE(probe_of_c.spare);
  for (int i = 0; i < 5 * Places::kSpare; ++i) {
    Connection& one = open("a");
    ASSERT_NE(one.place, nullptr) << i;
    EXPECT_TRUE(one.spare);
  }
  EXPECT_FALSE(probe_of_c.was_ended()) << "a's own make room for a";
  EXPECT_LE(places.count(), 4 + 1 + Places::kSpareOfOneAddress);
}

TEST_F(PlacesTest, NoneWhereEachServesARequest) {
  for (int i = 0; i < 4; ++i) busy(i < 3 ? "a" : "b");
  for (int i = 0; i < Places::kSpare; ++i) EXPECT_NE(busy(i % 2 == 0 ? "a" : "b").place, nullptr);
  EXPECT_EQ(open("c").place, nullptr);
}

TEST(Budget, OneAloneGetsWhatItWants) {
  Budget budget(100);
  Budget::Share first(budget);
  EXPECT_TRUE(first.grow(500));
  EXPECT_TRUE(first.grow(500));
  Budget::Share second(budget);
  EXPECT_FALSE(second.grow(1));
  EXPECT_EQ(second.bytes(), 0);
}

TEST(Budget, WhatIsGivenBackIsThereForTheNext) {
  Budget budget(100);
  Budget::Share small(budget);
  EXPECT_TRUE(small.grow(40));
  {
    Budget::Share other(budget);
    EXPECT_TRUE(other.grow(60));
    EXPECT_FALSE(Budget::Share(budget).grow(1));
  }
  EXPECT_FALSE(Budget::Share(budget).grow(61, Ms{1}));
  auto* waits_for = new Budget::Share(budget);
  EXPECT_TRUE(waits_for->grow(60));
  std::thread gives_back([&] { delete waits_for; });
  EXPECT_TRUE(Budget::Share(budget).grow(60, std::chrono::seconds{30}));
  gives_back.join();
}

}  // namespace
}  // namespace rung::http
