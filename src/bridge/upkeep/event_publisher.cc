#include "src/bridge/upkeep/event_publisher.h"

#include <string>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kEventTick{1000};
constexpr int kEventsAtOnce = 100;
constexpr std::size_t kLongestKey = 255;  // of AMQP

// An index of EventCounts::kOutcomes; nullopt: send it again.
std::optional<std::size_t> outcome(PublishResult::How how) {
  using How = PublishResult::How;
  if (how == How::confirmed) return 0;
  if (how == How::returned) return 1;
  if (how == How::rejected) return 2;
  return std::nullopt;
}

Outgoing message_of(const OutgoingEvent& event, const std::string& body, const std::string& exchange) {
  Message message;
  message.properties.content_type = "application/json";
  message.properties.delivery_mode = 2;
  message.properties.message_id = std::to_string(event.id);
  message.properties.type = std::string(to_word(event.kind));
  message.properties.app_id = "rung";
  message.properties.timestamp = static_cast<std::uint64_t>(event.at.ms / 1000);
  message.body = body;
  std::string key = std::string(to_word(event.kind)) + '.' + event.queue;
  return {0, exchange, clean_utf8(key, kLongestKey), std::move(message)};
}

}  // namespace

EventPublisher::EventPublisher(io::Loop& loop, Deps deps)
    : deps_(std::move(deps)), timer_(loop, [this] { read(); }) {}

void EventPublisher::start() {
  if (deps_.bodies) timer_.start(kEventTick, kEventTick);
}

void EventPublisher::read() {
  if (busy_ || !deps_.shards.held(0) || !deps_.may_publish()) return;
  busy_ = true;
  deps_.jobs.submit<Batch>(
      Lane::upkeep,
      [bodies = deps_.bodies, exchange = deps_.exchange](Store& store) -> Result<Batch> {
        auto events = store.outgoing_events(kEventsAtOnce);
        if (!events) return tl::unexpected(events.error());
        auto texts = bodies(store, *events, exchange);
        if (!texts) return tl::unexpected(texts.error());
        Batch batch;
        for (std::size_t i = 0; i < events->size(); ++i)
          batch.emplace_back(std::move((*events)[i]), std::move((*texts)[i]));
        return batch;
      },
      [this](const Result<Batch>& batch) {
        if (batch && !batch->empty()) return send(*batch);
        busy_ = false;
        if (!batch) log::warn("events not read", {{"reason", batch.error().message}});
      });
}

void EventPublisher::send(const Batch& batch) {
  full_ = batch.size() >= kEventsAtOnce;
  unanswered_ = batch.size();
  for (const auto& [event, body] : batch) {
    if (body) {
      deps_.outbox.send(message_of(event, *body, deps_.exchange),
                        [this, event](const PublishResult& result) { answered(event, result); });
    } else {
      over_.push_back(event.id);
      --unanswered_;
    }
  }
  deps_.outbox.flush();
  if (unanswered_ == 0) forget();
}

void EventPublisher::answered(const OutgoingEvent& event, const PublishResult& result) {
  if (const auto how = outcome(result.how)) {
    ++counts_.published[{event.kind, *how}];
    over_.push_back(event.id);
    if (result.how == PublishResult::How::rejected)
      log::error("an event cannot be published",
                 {{"id", event.id}, {"kind", to_word(event.kind)}, {"reason", result.reason}});
  }
  if (--unanswered_ == 0) forget();
}

void EventPublisher::forget() {
  if (over_.empty()) {  // the broker took none of them: try again with the next tick
    busy_ = false;
    return;
  }
  deps_.jobs.submit<bool>(
      Lane::upkeep,
      [ids = std::exchange(over_, {})](Store& store) -> Result<bool> {
        if (auto done = store.forget_outgoing_events(ids); !done) return tl::unexpected(done.error());
        return true;
      },
      [this](const Result<bool>& done) {
        busy_ = false;
        if (!done) return log::warn("published events not deleted", {{"reason", done.error().message}});
        if (full_ && timer_.active()) read();
      });
}

}  // namespace rung::bridge
