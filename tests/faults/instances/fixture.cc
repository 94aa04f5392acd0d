#include "tests/faults/instances/fixture.h"

#include <algorithm>
#include <cstdio>

namespace rung::test {

InstancesTest::InstancesTest() {
  config.ladder = "[400ms, 800ms, 1200ms]";
  queue = attached();
  consumer = std::make_unique<FailingConsumer>(queue, failed(), FailingConsumer::How::reject);
}

InstancesTest::~InstancesTest() {
  stop_load();
  if (HasFailure()) {
    for (const auto& [i, sidecar] : nodes_)
      std::fprintf(stderr, "--- the log of n-%d:\n%s---\n", i, sidecar->log_tail().c_str());
  }
  consumer.reset();
  nodes_.clear();
}

Sidecar& InstancesTest::start_node(int i, const std::string& broker_url) {
  auto& sidecar = nodes_[i];
  if (!sidecar) {
    SidecarConfig own = config;
    own.node = "n-" + std::to_string(i);
    if (!broker_url.empty()) own.broker_url = broker_url;
    sidecar = std::make_unique<Sidecar>(own);
  }
  sidecar->start();
  return *sidecar;
}

void InstancesTest::start_nodes(const std::vector<int>& nodes) {
  for (const int i : nodes) start_node(i);
  for (const int i : nodes)
    ASSERT_TRUE(node(i).wait_ready(kBound, static_cast<std::uint32_t>(nodes_.size())));
}

std::map<std::string, int> InstancesTest::held() {
  std::map<std::string, int> by_node;
  for (Row& row : rows("SELECT COALESCE(n.name, '') AS node, COUNT(*) AS shards FROM rung_shards s LEFT JOIN "
                       "rung_nodes n ON n.id = s.owner AND s.expires_at > UTC_TIMESTAMP(3) GROUP BY 1"))
    by_node[row["node"]] = std::stoi(row["shards"]);
  return by_node;
}

bool InstancesTest::balanced(const std::vector<int>& nodes) {
  const std::map<std::string, int> now = held();
  if (now.size() != nodes.size()) return false;
  const int share = kShards / static_cast<int>(nodes.size());
  return std::ranges::all_of(nodes, [&](int i) {
    const auto it = now.find("n-" + std::to_string(i));
    return it != now.end() && (it->second == share || it->second == share + 1);
  });
}

void InstancesTest::until_balanced(const std::vector<int>& nodes) {
  EXPECT_TRUE(eventually([&] { return balanced(nodes); }, kBound)) << [&] {
    std::string who = "no balance:";
    for (const auto& [name, shards] : held()) who += " '" + name + "'=" + std::to_string(shards);
    return who;
  }();
}

std::int64_t InstancesTest::number(const std::string& sql) {
  const auto found = rows(sql);
  return found.empty() || found[0].begin()->second == "NULL" ? -1 : std::stoll(found[0].begin()->second);
}

int InstancesTest::live() {
  return static_cast<int>(number("SELECT COUNT(*) FROM rung_nodes WHERE expires_at > UTC_TIMESTAMP(3)"));
}

std::map<std::string, std::int64_t> InstancesTest::delivered() {
  std::map<std::string, std::int64_t> by_node;
  for (Row& row :
       rows("SELECT node, COUNT(*) AS n FROM retry_history WHERE published_at IS NOT NULL GROUP BY node"))
    by_node[row["node"]] = std::stoll(row["n"]);
  return by_node;
}

void InstancesTest::start_load(std::size_t per_second) {
  stop_ = false;
  load_ = std::thread([this, per_second] {
    AmqpProbe probe;
    const std::int64_t from = wall_ms();
    while (!stop_) {
      const auto due = static_cast<std::size_t>(wall_ms() - from + 20) * per_second / 1000;
      std::vector<Message> messages;
      for (; loaded_ < due; ++loaded_)
        messages.push_back(failed_message(queue, "load-" + std::to_string(loaded_)));
      probe.publish_all(failed(), "", messages);
      std::this_thread::sleep_for(Ms{20});  // the load's own rhythm
    }
  });
}

std::size_t InstancesTest::stop_load() {
  stop_ = true;
  if (load_.joinable()) load_.join();
  return loaded_;
}

std::size_t InstancesTest::all_ended(std::size_t count) {
  const auto in_state = [&](const std::string& state) {
    return number("SELECT COUNT(*) FROM retry_current WHERE queue = '" + queue + "' AND state = '" + state +
                  "'");
  };
  EXPECT_TRUE(eventually([&] { return in_state("parked") == static_cast<std::int64_t>(count); }, kBound))
      << in_state("parked") << " of " << count << " parked, " << in_state("scheduled") << " scheduled, "
      << in_state("publishing") << " publishing, " << in_state("awaiting") << " awaiting";
  EXPECT_EQ(number("SELECT COUNT(*) FROM retry_current WHERE queue = '" + queue + "'"),
            static_cast<std::int64_t>(count));
  EXPECT_EQ(number("SELECT COUNT(*) FROM retry_history WHERE queue = '" + queue + "'"),
            static_cast<std::int64_t>(count) * kLevels)
      << "attempts are neither multiplied nor eaten";
  std::map<std::string, std::map<std::int64_t, int>> seen;  // by body, then attempt
  for (const auto& one : consumer->seen()) ++seen[one.body][one.attempt];
  EXPECT_EQ(seen.size(), count);
  std::size_t repeats = 0;
  for (const auto& [body, attempts] : seen) {
    EXPECT_EQ(attempts.size(), static_cast<std::size_t>(kLevels)) << body;
    for (const auto& [attempt, times] : attempts) {
      EXPECT_TRUE(attempt >= 1 && attempt <= kLevels) << body << ": attempt " << attempt;
      repeats += static_cast<std::size_t>(times - 1);
    }
  }
  if (repeats > 0) std::printf("%zu deliveries came twice, under the same name\n", repeats);
  return repeats;
}

}  // namespace rung::test
