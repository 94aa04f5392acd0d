#include "plugin/rabbitmq/topology/topology_keeper.h"

#include <chrono>
#include <utility>

#include "plugin/rabbitmq/topology/topology.h"

namespace rung::rabbit {

TopologyKeeper::TopologyKeeper(ConnectionLoop::Deps deps, OwnQueueTypes& types,
                               std::function<void()> return_route_changed)
    : options_(deps.options),
      types_(types),
      return_route_changed_(std::move(return_route_changed)),
      loop_(deps,
            {.thread_name = "rung-topology",
             .purpose = "topology",
             .side = {},
             .any_broker = true,  // it is the one that reports another broker
             .address_failed_when_over = false},
            {.turn = [this](Connection& connection) { return turn(connection); },
             .over =
                 [this](const ConnectionLoop::End&) {
                   channel_open_ = false;
                   const std::lock_guard lock(mutex_);
                   claim_due_ = !claim_.database.empty();  // the next connection may lead elsewhere
                 }}) {}

TopologyKeeper::~TopologyKeeper() { join(); }

// The consumer declares the topology when it connects, so the first check comes after one interval.
void TopologyKeeper::start() {
  schedule_next();
  loop_.start();
}

void TopologyKeeper::schedule_next() { next_check_ = loop_.now() + options_.rabbitmq.topology_check; }

void TopologyKeeper::claim(std::string database, bool mark) {
  {
    const std::lock_guard lock(mutex_);
    claim_ = {std::move(database), mark};
    claim_due_ = true;
  }
  loop_.wake();
}

Result<BootMs> TopologyKeeper::turn(Connection& connection) {
  if (auto open = loop_.skip_frames(connection); !open) return tl::unexpected(open.error());
  if (loop_.stopping()) return loop_.finish(connection, std::chrono::seconds{1});
  if (loop_.now() >= next_check_) {
    if (auto done = check(connection); !done) return tl::unexpected(done.error());
    schedule_next();
    const std::lock_guard lock(mutex_);
    claim_due_ = !claim_.database.empty();
  }
  if (auto done = look_at_owner(connection); !done) return tl::unexpected(done.error());
  if (auto done = connection.tick(); !done) return tl::unexpected(done.error());
  return next_check_;
}

Result<void> TopologyKeeper::open_channel(Connection& connection) {
  if (channel_open_) return {};
  auto opened = loop_.calls(connection).open_channel();
  channel_open_ = opened.has_value();
  return opened;
}

Result<void> TopologyKeeper::look_at_owner(Connection& connection) {
  OwnerClaim claim;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(claim_due_, false)) return {};
    claim = claim_;
  }
  if (auto opened = open_channel(connection); !opened) return opened;
  auto report = read_owner(options_, claim, loop_.calls(connection));
  if (!report) return tl::unexpected(report.error());
  loop_.sink().sink().on_place(*report);
  return {};
}

Result<void> TopologyKeeper::check(Connection& connection) {
  if (auto opened = open_channel(connection); !opened) return opened;
  const auto report = repair_topology(options_, types_, loop_.calls(connection));
  if (!report) return tl::unexpected(report.error());
  if (report->return_route_changed) return_route_changed_();
  loop_.sink().sink().on_topology(*report);
  return {};
}

}  // namespace rung::rabbit
