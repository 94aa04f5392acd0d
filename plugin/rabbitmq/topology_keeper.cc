#include "plugin/rabbitmq/topology_keeper.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace rung::rabbit {

TopologyKeeper::TopologyKeeper(ConnectionLoop::Deps deps, OwnQueueTypes& types, ErrorQueueBook* errors,
                               std::function<void()> return_route_changed)
    : options_(deps.options),
      access_(deps.access),
      types_(types),
      errors_(errors),
      return_route_changed_(std::move(return_route_changed)),
      loop_(deps,
            {.thread_name = "rung-topology",
             .purpose = "topology",
             .side = {},
             .any_broker = true,  // it is the one that reports another broker
             .address_failed_when_over = false},
            *this) {}

TopologyKeeper::~TopologyKeeper() { join(); }

// The consumer declares the topology when it connects, so the first check comes after one interval.
void TopologyKeeper::start() {
  schedule_next();
  loop_.start();
}

void TopologyKeeper::order_stop(BootMs deadline) {
  if (errors_ != nullptr) errors_->interrupt();
  loop_.order_stop(deadline);
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
  const auto calls = [&] { return loop_.calls(connection); };  // each with its own time
  Result<void> done;
  if (!channel_open_) done = calls().open_channel();
  channel_open_ = done.has_value();
  if (done && loop_.now() >= next_check_) done = check(calls());
  if (done) done = look_at_owner(calls());
  if (done && errors_ != nullptr && access_.accepts(connection.cluster(), connection.address().shown))
    done = errors_->find(calls());
  if (done) done = connection.tick();
  if (!done) return tl::unexpected(done.error());
  return errors_ == nullptr ? next_check_
                            : std::min(next_check_, loop_.now() + ErrorQueueState::kShortestPause);
}

BootMs TopologyKeeper::idle() {
  if (errors_ != nullptr) errors_->report();
  return loop_.now() + ErrorQueueState::kShortestPause;
}

void TopologyKeeper::over(const ConnectionLoop::End& end) {
  channel_open_ = false;
  if (errors_ != nullptr) errors_->finder_down(end.why);
  const std::lock_guard lock(mutex_);
  claim_due_ = !claim_.database.empty();  // the next connection may lead elsewhere
}

Result<void> TopologyKeeper::look_at_owner(const Calls& calls) {
  OwnerClaim claim;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(claim_due_, false)) return {};
    claim = claim_;
  }
  auto report = read_owner(options_, claim, calls);
  if (!report) return tl::unexpected(report.error());
  loop_.sink().on_place(*report);
  return {};
}

Result<void> TopologyKeeper::check(const Calls& calls) {
  const auto report = declare_topology(options_, types_, calls, Pass::check);
  if (!report) return tl::unexpected(report.error());
  if (report->return_route_changed) return_route_changed_();
  loop_.sink().on_topology(*report);
  schedule_next();
  const std::lock_guard lock(mutex_);
  claim_due_ = !claim_.database.empty();
  return {};
}

}  // namespace rung::rabbit
