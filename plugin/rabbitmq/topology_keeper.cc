#include "plugin/rabbitmq/topology_keeper.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "plugin/rabbitmq/topology.h"

namespace rung::rabbit {

TopologyKeeper::TopologyKeeper(ConnectionLoop::Deps deps, std::function<void()> return_route_changed)
    : options_(deps.options),
      return_route_changed_(std::move(return_route_changed)),
      loop_(std::move(deps),
            {.thread_name = "rung-topology",
             .purpose = "topology",
             .side = {},
             .address_failed_when_over = false},
            {.prepare = {},
             .turn = [this](Connection& connection) { return turn(connection); },
             .idle = {},
             .over = [this](const ConnectionLoop::End&) { channel_open_ = false; },
             .stopped = {}}) {}

TopologyKeeper::~TopologyKeeper() { join(); }

// The consumer declares the topology when it connects, so the first check and its connection come after one
// interval.
void TopologyKeeper::start() {
  schedule_next();
  loop_.start();
}

void TopologyKeeper::schedule_next() {
  next_check_ = loop_.now() + options_.rabbitmq.topology_check;
  loop_.set_connect_not_before(next_check_);
}

Result<BootMs> TopologyKeeper::turn(Connection& connection) {
  constexpr auto kCloseTimeout = std::chrono::seconds{1};
  const auto ignore = [](const Frame&) -> Result<bool> { return true; };
  const auto open = loop_.read(connection, ignore, [] {});
  if (!open) return tl::unexpected(open.error());
  if (!*open) return transient(connection.closing().text);
  if (loop_.stopping())
    return loop_.finish(connection, std::min(loop_.stop_deadline(), loop_.now() + kCloseTimeout));
  if (loop_.now() >= next_check_) {
    if (auto done = check(connection); !done) return tl::unexpected(done.error());
    schedule_next();
  }
  if (auto done = connection.tick(); !done) return tl::unexpected(done.error());
  return next_check_;
}

Result<void> TopologyKeeper::check(Connection& connection) {
  if (!channel_open_) {
    auto opened = connection.open_channel(loop_.waker(), loop_.now() + kSetUpTimeout, [](const Frame&) {});
    if (!opened) return opened;
    channel_open_ = true;
  }
  const auto report = repair_topology(options_, connection, loop_.waker(), loop_.now() + kSetUpTimeout);
  if (!report) return tl::unexpected(report.error());
  if (report->return_route_changed) return_route_changed_();
  loop_.sink().topology(*report);
  return {};
}

}  // namespace rung::rabbit
