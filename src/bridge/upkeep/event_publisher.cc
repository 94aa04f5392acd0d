#include "src/bridge/upkeep/event_publisher.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kEventTick{1000};
// As few as a queue that answers nothing may hold up.
constexpr int kEventsAtOnce = 16;
constexpr std::size_t kLongestKey = 255;  // of AMQP
constexpr Ms kFirstPause{1000}, kPauseToReport{4000};
constexpr Ms kFirstDrop{std::chrono::minutes{1}}, kDropEvery{std::chrono::hours{1}};
constexpr int kDroppedAtOnce = 10'000;
constexpr const char* kEventsProblem = "events";

// An index of EventCounts::kOutcomes; nullopt: send it again.
std::optional<std::size_t> outcome_of(const PublishResult& result) {
  using How = PublishResult::How;
  if (result.how == How::confirmed) return 0;
  if (result.how == How::returned && !result.no_exchange) return 1;
  if (result.how == How::rejected) return 2;
  return std::nullopt;
}

Outgoing message_of(const OutgoingEvent& event, const std::string& body, const std::string& exchange) {
  Message message;
  message.properties.content_type = "application/json";
  message.properties.delivery_mode = 2;
  message.properties.message_id = std::to_string(event.id);
  message.properties.type = std::string(kEventType) + std::string(to_word(event.kind));
  message.properties.app_id = "rung";
  message.properties.timestamp = static_cast<std::uint64_t>(event.at.ms / 1000);
  message.body = body;
  const std::string key = std::string(to_word(event.kind)) + '.' + event.queue;
  return {0, exchange, clean_utf8(key, kLongestKey), std::move(message), PublishLane::probe};
}

}  // namespace

EventPublisher::EventPublisher(io::Loop& loop, Deps deps)
    : deps_(std::move(deps)), timer_(loop, [this] { tick(); }) {}

void EventPublisher::start() {
  drop_at_ = deps_.clock.here().boot() + kFirstDrop;
  timer_.start(kEventTick, kEventTick);
}

void EventPublisher::stop() { timer_.stop(); }

void EventPublisher::tick() {
  const BootMs now = deps_.clock.here().boot();
  if (busy_ || !deps_.shards.held(0)) return;
  if (deps_.clock.known() && now >= drop_at_) return drop_old();
  if (!deps_.body || now < not_before_) return;
  if (!over_.empty()) return forget();
  if (deps_.may_publish()) read();
}

// On a store thread. One row that cannot be read does not hold up the others.
Result<EventPublisher::Batch> EventPublisher::read_batch(Store& store, const EventBody& body_of,
                                                         const std::string& exchange) {
  auto events = store.outgoing_events(kEventsAtOnce);
  if (!events) return tl::unexpected(events.error());
  Batch batch;
  for (OutgoingEvent& event : *events) {
    auto made = body_of(store, event, exchange);
    if (!made && made.error().kind != Error::Kind::permanent) return tl::unexpected(made.error());
    Item item{std::move(event), {}, {}};
    if (made) {
      item.body = *std::move(made);
    } else {
      item.broken = made.error().message;
    }
    batch.push_back(std::move(item));
  }
  return batch;
}

void EventPublisher::read() {
  busy_ = true;
  deps_.jobs.submit<Batch>(
      Lane::upkeep,
      [body_of = deps_.body, exchange = deps_.exchange](Store& store) {
        return read_batch(store, body_of, exchange);
      },
      [this](const Result<Batch>& batch) {
        busy_ = false;
        if (!batch) return pause("they cannot be read: " + batch.error().message);
        if (!timer_.active()) return;  // the drain has begun
        if (!batch->empty()) send(*batch);
      });
}

void EventPublisher::send(const Batch& batch) {
  busy_ = true;
  full_ = batch.size() >= kEventsAtOnce;
  kept_.clear();
  unanswered_ = batch.size();
  for (const auto& [event, body, broken] : batch) {
    if (body) {
      deps_.outbox.send(message_of(event, *body, deps_.exchange),
                        [this, event = event](const PublishResult& result) { answered(event, result); });
      continue;
    }
    if (!broken.empty())
      log::error("an event cannot be published",
                 {{"id", event.id}, {"kind", to_word(event.kind)}, {"reason", broken}});
    over_.push_back(event.id);
    --unanswered_;
  }
  deps_.outbox.flush();
  if (unanswered_ == 0) end_batch();
}

void EventPublisher::answered(const OutgoingEvent& event, const PublishResult& result) {
  if (const auto outcome = outcome_of(result)) {
    ++counts_.published[{event.kind, *outcome}];
    over_.push_back(event.id);
    if (result.how == PublishResult::How::rejected)
      log::error("an event cannot be published",
                 {{"id", event.id}, {"kind", to_word(event.kind)}, {"reason", result.reason}});
  } else if (kept_.empty()) {
    kept_ = result.reason.empty() ? "the broker did not take them" : result.reason;
  }
  if (--unanswered_ == 0) end_batch();
}

void EventPublisher::end_batch() {
  busy_ = false;
  if (kept_.empty()) {
    pause_ = Ms{0};
    deps_.health.clear(kEventsProblem);
  } else {
    pause(kept_);
  }
  if (!over_.empty()) forget();
}

void EventPublisher::forget() {
  busy_ = true;
  deps_.jobs.submit<void>(
      Lane::upkeep, [ids = over_](Store& store) { return store.forget_outgoing_events(ids); },
      [this](const Result<void>& done) {
        busy_ = false;
        if (!done) return pause("published ones cannot be deleted: " + done.error().message);
        over_.clear();
        if (full_ && kept_.empty() && timer_.active() && deps_.may_publish()) read();
      });
}

void EventPublisher::pause(const std::string& why) {
  pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
  not_before_ = deps_.clock.here().boot() + pause_;
  if (pause_ < kPauseToReport) return;
  if (deps_.health.show(kEventsProblem, "events for " + deps_.exchange + " wait in the database: " + why))
    log::warn("events for other systems wait", {{"reason", why}});
}

void EventPublisher::drop_old() {
  busy_ = true;
  drop_at_ = deps_.clock.here().boot() + kDropEvery;
  deps_.jobs.submit<int>(
      Lane::upkeep,
      [before = deps_.clock.now() - deps_.kept](Store& store) {
        return store.drop_outgoing_events(before, kDroppedAtOnce);
      },
      [this](const Result<int>& dropped) {
        busy_ = false;
        if (!dropped) return;  // in an hour
        if (*dropped > 0)
          log::warn("events deleted that nobody has published for a week", {{"events", *dropped}});
        if (*dropped >= kDroppedAtOnce) drop_at_ = BootMs{0};
      });
}

}  // namespace rung::bridge
