#include "plugin/rabbitmq/publish/publishers.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rung::rabbit {
namespace {

BrokerOptions helper_options(BrokerOptions options, const char* suffix) {
  options.connection_name += suffix;
  options.max_unconfirmed = 1;
  return options;
}

}  // namespace

Publishers::Publishers(const BrokerOptions& options, const BrokerEndpoints& endpoints, SinkAdapter& sink)
    : endpoints_(endpoints),
      sink_(sink),
      helpers_sink_(sink.sink(), SinkAdapter::Status::silent),
      proven_(endpoints.addresses->clock()),
      main_({options, *endpoints.addresses, *endpoints.access, sink}, Role::main,
            {.proven = proven_,
             .pass_on = [this](std::vector<Outgoing> batch) { publish_unproven(std::move(batch)); },
             .rights_lost = {}}),
      probe_{Role::probe, helper_options(options, " (probe)"), {}},
      unproven_{Role::unproven, helper_options(options, " (unproven exchanges)"), {}} {}

void Publishers::publish(std::vector<Outgoing> batch) {
  const auto probes = std::stable_partition(batch.begin(), batch.end(),
                                            [](const Outgoing& o) { return o.lane == PublishLane::main; });
  if (probes != batch.end()) {
    if (Publisher* probe = started(probe_)) {
      probe->publish({std::make_move_iterator(probes), std::make_move_iterator(batch.end())});
      batch.erase(probes, batch.end());
    }
  }
  main_.publish(std::move(batch));
}

void Publishers::publish_unproven(std::vector<Outgoing> batch) {
  if (Publisher* publisher = started(unproven_)) return publisher->publish(std::move(batch));
  std::vector<PublishResult> results;
  for (const Outgoing& outgoing : batch)
    results.push_back({outgoing.token, PublishResult::How::lost, "stopped before it was sent"});
  sink_.sink().on_published(std::move(results));
}

Publisher* Publishers::started(Helper& helper) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return nullptr;
  if (!helper.publisher) {
    helper.publisher = std::make_unique<Publisher>(
        ConnectionLoop::Deps{helper.options, *endpoints_.addresses, *endpoints_.access, helpers_sink_},
        helper.role,
        PublisherPeers{.proven = proven_,
                       .pass_on = [this](std::vector<Outgoing> batch) { main_.publish(std::move(batch)); },
                       .rights_lost = [this](std::string reason) { main_.drop(std::move(reason)); }});
    helper.publisher->allow_until(allowed_until_);
    helper.publisher->start();
  }
  return helper.publisher.get();
}

void Publishers::allow_until(BootMs deadline) {
  const std::lock_guard lock(mutex_);
  allowed_until_ = deadline;
  main_.allow_until(deadline);
  for (Helper* helper : {&probe_, &unproven_}) {
    if (helper->publisher) helper->publisher->allow_until(deadline);
  }
}

void Publishers::drop(PublishLane lane, std::string reason) {
  const std::lock_guard lock(mutex_);
  if (lane == PublishLane::main) main_.drop(reason);
  Helper& helper = lane == PublishLane::main ? unproven_ : probe_;
  if (helper.publisher) helper.publisher->drop(std::move(reason));
}

void Publishers::order_stop(BootMs deadline) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (Publisher* one : all()) one->order_stop(deadline);
}

void Publishers::join() {
  for (Publisher* one : all()) one->join();
  // Join again: before it ended, one may have passed messages to another that had already ended.
  for (Publisher* one : all()) one->join();
}

std::vector<Publisher*> Publishers::all() {
  std::vector<Publisher*> all{&main_};
  const std::lock_guard lock(mutex_);
  for (Helper* helper : {&probe_, &unproven_}) {
    if (helper->publisher) all.push_back(helper->publisher.get());
  }
  return all;
}

}  // namespace rung::rabbit
