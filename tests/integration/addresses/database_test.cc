// A database at several addresses: addresses that are silent, refuse, or accept no writes are skipped, and
// all connections of a process use the same one.
#include <gmock/gmock.h>

#include "src/core/base/url.h"
#include "src/store/mysql/mysql_store.h"
#include "tests/integration/addresses/second_database.h"
#include "tests/support/clock.h"
#include "tests/support/mysql.h"
#include "tests/support/proxy.h"
#include "tests/support/silent.h"

namespace rung::test {
namespace {

using testing::HasSubstr;

class DatabaseAddresses : public testing::Test {
 protected:
  DatabaseAddresses() { schema_.open_store(); }

  std::string at_port(int port) const { return with_port(schema_.url(), port); }
  int port() const { return parse_url(schema_.url())->port; }
  static std::unique_ptr<MysqlStore> must_open(const StoreOptions& options) {
    auto store = open_mysql_store(options, test_clock());
    if (!store) throw std::runtime_error(store.error().message);
    return *std::move(store);
  }
  StoreOptions options(const std::string& first, const std::vector<std::string>& others) const {
    StoreOptions made = schema_.options();
    made.url = first;
    made.other_urls = others;
    return made;
  }
  // With `bad` before it the good one serves: `bad` has two seconds of its own, not all of the time-out.
  void serves_after(const std::string& bad, StoreOptions made = {}) {
    const std::string good = made.url.empty() ? schema_.url() : made.url;
    if (made.url.empty()) made = schema_.options();
    made.url = bad;
    made.other_urls = {good};
    made.timeout = std::chrono::hours{1};
    const auto store = open_mysql_store(made, test_clock());
    ASSERT_TRUE(store) << store.error().message;
    EXPECT_TRUE((*store)->now());
  }

  MysqlSchema schema_;
};

TEST_F(DatabaseAddresses, OneThatIsReadOnly) {
  SecondDatabase second;
  second.sql("CREATE DATABASE IF NOT EXISTS " + schema_.name());
  const std::string replica = plain_user(second, schema_.name(), second.port());
  second.read_only(true);
  std::vector<std::string> told;
  StoreOptions made = options(replica, {schema_.url()});
  made.addresses = *mysql_addresses(made, test_clock());
  made.addresses->on_change([&](const std::string& address, const std::string& passed_over) {
    told.push_back(address + " after " + passed_over);
  });
  const auto store = open_mysql_store(made, test_clock());
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_TRUE((*store)->check_schema());
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told[0], testing::StartsWith("127.0.0.1:" + std::to_string(port()) + " after "));
  EXPECT_THAT(told[0], HasSubstr("read-only"));
}

// A primary that is deposed while it serves: the write fails, the next goes to the one that takes writes.
TEST_F(DatabaseAddresses, OneThatBecomesReadOnlyWhileItServes) {
  SecondDatabase second;
  const std::string first = plain_user(second, schema_.name(), second.port());
  const auto store = must_open(options(first, {schema_.url()}));
  ASSERT_TRUE(store->migrate());
  ASSERT_TRUE(store->set_setting("where", "second"));
  second.read_only(true);
  const auto failed = store->set_setting("where", "lost");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, Error::Kind::transient) << failed.error().message;
  EXPECT_TRUE(store->set_setting("where", "shared"));
  EXPECT_EQ(schema_.value("SELECT value FROM rung_settings WHERE name = 'where'"), "shared");
  EXPECT_EQ(second.sql("SELECT value FROM " + schema_.name() + ".rung_settings WHERE name = 'where'"),
            "second\n");
}

// One writer at a time: if one connection had to move, the others follow.
TEST_F(DatabaseAddresses, AllConnectionsAreAtTheSameOne) {
  const auto url = parse_url(schema_.url());
  TcpProxy a(url->host, url->port), b(url->host, url->port);
  StoreOptions made = options(at_port(a.port()), {at_port(b.port())});
  made.addresses = *mysql_addresses(made, test_clock());
  const auto one = must_open(made), two = must_open(made);
  EXPECT_EQ(a.connections(), 2U);
  a.refuse();  // new connections only; open ones continue
  const auto three = must_open(made);
  EXPECT_EQ(b.connections(), 1U);
  EXPECT_TRUE(one->now());
  EXPECT_TRUE(two->now());
  EXPECT_EQ(b.connections(), 3U);
}

}  // namespace
}  // namespace rung::test
