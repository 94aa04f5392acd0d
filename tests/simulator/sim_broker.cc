#include "tests/simulator/sim_broker.h"

#include <algorithm>
#include <utility>

#include "plugin/rabbitmq/topology/return_route.h"
#include "plugin/rabbitmq/wire/broker_headers.h"

namespace rung::sim {
namespace {

using How = PublishResult::How;

}  // namespace

SimBroker::SimBroker(Deps deps) : deps_(std::move(deps)) {}

Result<void> SimBroker::start(BrokerSink& sink) {
  sink_ = &sink;
  connect_intake();
  connect(PublishLane::main);
  return {};
}

void SimBroker::claim(std::string database, bool /*mark*/) {
  deps_.world.events.after(kMs, deps_.process, [this, database = std::move(database)] {
    if (!stopped_) sink_->on_place({{"simulated", "/", "rung"}, database, database, {}});
  });
}

void SimBroker::tell(bool consuming, bool publishing, const std::string& reason) {
  const BrokerStatus before = status_;
  status_.consuming = consuming;
  status_.publishing = publishing;
  status_.blocked = publishing && deps_.server.is_blocked();
  if (!reason.empty()) status_.reason = reason;
  if (!(status_ == before)) sink_->on_status(status_);
}

// --- taking in

void SimBroker::connect_intake() {
  deps_.world.events.after(deps_.dice.between(1, 20) * kMs, deps_.process, [this] {
    if (stopped_) return;
    intake_ = deps_.server.connect(deps_.process);
    if (!intake_) {
      tell(false, status_.publishing, "broker unavailable");
      return deps_.world.events.after(backoff(), deps_.process, [this] { connect_intake(); });
    }
    intake_->lost = [this] { intake_lost("the connection was lost"); };
    session_ = session_.next();
    tell(true, status_.publishing, {});
    if (!intake_paused_ && !intake_stopped_) consume();
  });
}

void SimBroker::consume() {
  auto deliver = [this, link = intake_, session = session_](std::vector<Delivery> batch) {
    if (link != intake_ || session != session_ || intake_paused_) return;
    for (Delivery& delivery : batch) {
      delivery.tag.session = session;
      delivery.facts = rabbit::take_broker_headers(delivery.message, delivery.inlet);
    }
    if (deps_.step) deps_.step();
    sink_->on_deliveries(std::move(batch));
  };
  const auto prefetch = static_cast<std::size_t>(deps_.world.settings.prefetch);
  deps_.server.send(intake_, [&server = deps_.server, link = intake_, prefetch,
                              deliver = std::move(deliver)] { server.consume(link, prefetch, deliver); });
}

void SimBroker::intake_lost(const char* why) {
  intake_.reset();
  tell(false, status_.publishing, why);
  deps_.world.events.after(backoff(), deps_.process, [this] { connect_intake(); });
}

void SimBroker::ack(std::vector<DeliveryTag> tags) {
  if (!intake_) return;
  for (const DeliveryTag& tag : tags) {
    if (tag.session != session_) continue;
    if (deps_.step) deps_.step();
    deps_.server.send(
        intake_, [&server = deps_.server, link = intake_, number = tag.tag] { server.ack(link, number); });
  }
}

void SimBroker::requeue(std::vector<DeliveryTag> tags) {
  if (!intake_) return;
  for (const DeliveryTag& tag : tags) {
    if (tag.session != session_) continue;
    deps_.server.send(intake_, [&server = deps_.server, link = intake_, number = tag.tag] {
      server.requeue(link, number);
    });
  }
}

void SimBroker::stop_intake() {
  intake_stopped_ = true;
  if (!intake_) return;
  deps_.server.send(intake_, [&server = deps_.server, link = intake_] { server.cancel(link); });
}

// A pause closes the channel; resuming opens a new one.
void SimBroker::pause_intake(bool yes) {
  if (std::exchange(intake_paused_, yes) == yes || !intake_) return;
  session_ = session_.next();
  if (!yes && !intake_stopped_) return consume();
  deps_.server.send(intake_, [&server = deps_.server, link = intake_] {
    server.cancel(link);
    while (!link->unacked.empty()) server.requeue(link, link->unacked.rbegin()->first);
  });
}

bool SimBroker::stands(const DeliveryTag& tag) const {
  return intake_ && intake_->at_client && tag.session == session_;
}

// --- publishing

void SimBroker::connect(PublishLane which) {
  Lane& lane = lane_of(which);
  if (lane.link || std::exchange(lane.connecting, true)) return;
  deps_.world.events.after(deps_.dice.between(1, 20) * kMs, deps_.process, [this, which] {
    Lane& mine = lane_of(which);
    mine.connecting = false;
    if (stopped_) return;
    mine.link = deps_.server.connect(deps_.process);
    if (!mine.link)
      return deps_.world.events.after(backoff(), deps_.process, [this, which] { connect(which); });
    mine.link->publishes = true;
    if (deps_.server.is_blocked()) ++mine.link->holds;
    mine.link->lost = [this, which] { lane_lost(which, "the connection was lost"); };
    if (which == PublishLane::main) tell(status_.consuming, true, {});
    write(which);
  });
}

void SimBroker::lane_lost(PublishLane which, const std::string& why) {
  Lane& lane = lane_of(which);
  lane.link.reset();
  if (which == PublishLane::main) tell(status_.consuming, false, why);
  std::vector<PublishResult> results;
  for (const auto& [token, outgoing] : std::exchange(lane.sent, {}))
    results.push_back({token, How::lost, why});
  if (!results.empty()) sink_->on_published(std::move(results));
  if (which == PublishLane::main || !lane.waiting.empty())
    deps_.world.events.after(backoff(), deps_.process, [this, which] { connect(which); });
}

void SimBroker::drop_publishing(PublishLane which, std::string reason) {
  const LinkPtr link = lane_of(which).link;
  if (!link) return;
  deps_.server.send(link, [&server = deps_.server, link] { server.close(link); });
  link->at_client = false;
  // Data that it had sent and the server had not read is lost with it.
  deps_.world.events.after(deps_.dice.between(1, 20) * kMs, nullptr,
                           [&server = deps_.server, link] { server.close(link); });
  deps_.world.events.after(0, deps_.process, [this, which, reason = std::move(reason), link] {
    if (lane_of(which).link == link) lane_lost(which, reason);
  });
}

void SimBroker::publish(std::vector<Outgoing> batch) {
  bool main = false, probe = false;
  for (Outgoing& outgoing : batch) {
    rabbit::route_to_queue(outgoing, "rung.return");
    (outgoing.lane == PublishLane::main ? main : probe) = true;
    lane_of(outgoing.lane).waiting.push_back(std::move(outgoing));
  }
  if (main) write_soon(PublishLane::main);
  if (probe) write_soon(PublishLane::probe);
}

void SimBroker::write_soon(PublishLane which) {
  deps_.world.events.after(deps_.dice.between(5, 200), deps_.process, [this, which] { write(which); });
}

// The publishing thread's turn. Checks the fence as late as possible.
void SimBroker::write(PublishLane which) {
  Lane& lane = lane_of(which);
  if (lane.waiting.empty()) return;
  if (fence_passed()) {
    std::vector<PublishResult> results;
    for (const Outgoing& outgoing : std::exchange(lane.waiting, {}))
      results.push_back({outgoing.token, How::fenced, "not allowed to publish any more"});
    return sink_->on_published(std::move(results));
  }
  if (!lane.link) return connect(which);
  if (status_.blocked) return;
  for (Outgoing& outgoing : std::exchange(lane.waiting, {})) {
    if (deps_.step) deps_.step();
    deps_.watcher.written(deps_.node, lane.link->id, outgoing);
    auto heard = [this, which](PublishResult result) { answer(which, {std::move(result)}); };
    deps_.server.send(lane.link, [&server = deps_.server, link = lane.link, outgoing, heard] {
      server.publish(link, outgoing, heard);
    });
    const std::uint64_t token = outgoing.token;
    lane.sent.emplace(token, std::move(outgoing));
  }
}

void SimBroker::answer(PublishLane which, std::vector<PublishResult> results) {
  std::erase_if(results, [&](const PublishResult& r) { return lane_of(which).sent.erase(r.token) == 0; });
  if (results.empty()) return;
  if (deps_.step) deps_.step();
  sink_->on_published(std::move(results));
}

void SimBroker::allow_publish_until(BootMs deadline) {
  allow_until_ = deadline;
  // Nothing signals that the fence has passed.
  const std::int64_t left_ms = std::min<std::int64_t>(deadline.ms - deps_.clock.boot().ms, 3'600'000);
  const Us left = left_ms * kMs + kMs;
  for (const PublishLane which : {PublishLane::main, PublishLane::probe}) {
    write_soon(which);
    if (left > 0) deps_.world.events.after(left, deps_.process, [this, which] { write(which); });
  }
}

// --- faults

void SimBroker::alarm() {
  if (!status_.publishing) return;
  status_.blocked = deps_.server.is_blocked();
  if (status_.blocked) status_.reason = "low on memory";
  sink_->on_status(status_);
  write_soon(PublishLane::main);
  write_soon(PublishLane::probe);
}

void SimBroker::stood_still(Us length) {
  if (length <= deps_.world.settings.heartbeat.count() * kMs || !intake_) return;
  intake_->at_client = false;
  deps_.server.cut(intake_, 0);
  intake_lost("this process stood still");
}

std::size_t SimBroker::unconfirmed() const {
  std::size_t count = 0;
  for (const Lane* lane : {&main_, &probe_}) {
    for (const auto& [token, outgoing] : lane->sent) count += outgoing.exchange == "rung.parked" ? 0 : 1;
  }
  return count;
}

std::string SimBroker::state() const {
  std::string out;
  for (const Lane* lane : {&main_, &probe_}) {
    out += lane == &main_ ? "main: " : "; probe: ";
    if (lane->link)
      out += "connection " + std::to_string(lane->link->id) + (lane->link->holds > 0 ? ", held up, " : ", ");
    out += std::to_string(lane->waiting.size()) + " not written";
    for (const auto& [token, outgoing] : lane->sent)
      out += ", " + outgoing.message.body.str() + " for " + outgoing.exchange + "/" + outgoing.routing_key;
  }
  return out;
}

}  // namespace rung::sim
