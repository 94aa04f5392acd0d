#include "tests/support/memory/memory_broker.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "plugin/delivery_facts.h"
#include "src/core/base/url.h"

namespace rung {
namespace {

using How = PublishResult::How;
constexpr std::size_t kNameMost = 255;
constexpr std::array<std::string_view, 4> kOurs = {".failed", ".delay", ".results", ".parked"};
constexpr std::array<std::pair<Inlet, std::string_view>, 3> kInlets = {
    {{Inlet::failed, ".failed"}, {Inlet::results, ".results"}, {Inlet::delay, ".delay"}}};

}  // namespace

MemoryBroker::MemoryBroker(BrokerOptions options, Pace pace, std::shared_ptr<const Clock> clock)
    : options_(std::move(options)), pace_(pace), clock_(std::move(clock)) {
  for (const std::string_view name : kOurs) queues_.try_emplace(options_.prefix + std::string(name));
}

MemoryBroker::~MemoryBroker() { stop(Ms{0}); }

// --- Broker ---

Result<void> MemoryBroker::start(BrokerSink& sink) {
  std::lock_guard lock(mutex_);
  if (sink_ != nullptr) return permanent("the broker was started before");
  sink_ = &sink;
  set_status(true, {});
  if (pace_ == Pace::own_thread) thread_ = std::thread([this] { run(); });
  return {};
}

void MemoryBroker::claim(std::string database, bool mark) {
  std::lock_guard lock(mutex_);
  if (owner_.empty() && mark) owner_ = database;
  place_ = PlaceReport{{cluster_, options_.vhost(), options_.prefix}, std::move(database), owner_, {}, 0};
  changed_.notify_all();
}

void MemoryBroker::serve_only(std::string cluster) {
  std::lock_guard lock(mutex_);
  served_ = std::move(cluster);
}

void MemoryBroker::publish(std::vector<Outgoing> batch) {
  std::lock_guard lock(mutex_);
  waiting_.insert(waiting_.end(), std::make_move_iterator(batch.begin()),
                  std::make_move_iterator(batch.end()));
  changed_.notify_all();
}

void MemoryBroker::ack(std::vector<DeliveryTag> tags) {
  std::lock_guard lock(mutex_);
  for (const DeliveryTag& tag : tags) {
    if (Intake* intake = intake_of(tag)) intake->unacked.erase(tag.tag);
  }
  changed_.notify_all();
}

void MemoryBroker::stop_intake() {
  std::lock_guard lock(mutex_);
  intake_stopped_ = true;
}

void MemoryBroker::pause_intake(bool yes) {
  std::lock_guard lock(mutex_);
  intake_paused_ = yes;
  if (yes) std::ranges::for_each(intakes_, [&](Intake& intake) { give_back(intake); });
  changed_.notify_all();
}

void MemoryBroker::allow_publish_until(BootMs deadline) {
  std::lock_guard lock(mutex_);
  allow_until_ = deadline;
  changed_.notify_all();
}

void MemoryBroker::stop(Ms) {
  {
    std::lock_guard lock(mutex_);
    if (sink_ == nullptr || stopped_) return;
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  pump();  // sends what can still be sent
  std::lock_guard pumping(pumping_);
  Told told;
  {
    std::lock_guard lock(mutex_);
    cut();
    told.results.swap(cut_results_);
    for (const Outgoing& outgoing : waiting_) settle(told, outgoing, {outgoing.token, How::lost, "stopped"});
    waiting_.clear();
    set_status(false, "stopped");
    told.status = status_;
    status_changed_ = false;
    stopped_ = true;
  }
  tell(told);
}

bool MemoryBroker::pump() {
  std::lock_guard pumping(pumping_);
  Told told;
  {
    std::lock_guard lock(mutex_);
    if (sink_ == nullptr || stopped_) return false;
    if (std::exchange(status_changed_, false)) told.status = status_;
    if (status_.consuming) told.place = std::exchange(place_, std::nullopt);
    told.results.swap(cut_results_);
    publish_waiting(told);
    deliver(told);
  }
  tell(told);
  return !told.empty();
}

void MemoryBroker::tell(Told& told) {
  if (told.status) sink_->on_status(*told.status);
  if (told.place) sink_->on_place(*told.place);
  if (!told.results.empty()) sink_->on_published(std::vector(told.results));
  for (const auto* deliveries : {&told.deliveries, &told.from_error_queues}) {
    if (!deliveries->empty()) sink_->on_deliveries(std::vector(*deliveries));
  }
}

void MemoryBroker::run() {
  for (;;) {
    while (pump()) {
    }
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    changed_.wait_for(lock, std::chrono::milliseconds{5});  // nothing signals that the fence has passed
  }
}

// --- publishing ---

void MemoryBroker::publish_waiting(Told& told) {
  if (!confirms_held_) {
    for (auto& [outgoing, result] : std::exchange(unanswered_, {})) settle(told, outgoing, std::move(result));
  }
  const bool fenced = clock_->boot() >= allow_until_;
  if (!fenced && (!status_.publishing || status_.blocked)) return;
  for (const Outgoing& outgoing : std::exchange(waiting_, {})) {
    if (fenced) {
      settle(told, outgoing, {outgoing.token, How::fenced, "not allowed to publish any more"});
    } else if (auto result = publish_one(outgoing); holds_confirm(outgoing)) {
      unanswered_.emplace_back(outgoing, std::move(result));
    } else {
      settle(told, outgoing, std::move(result));
    }
  }
}

bool MemoryBroker::holds_confirm(const Outgoing& outgoing) const {
  const std::string& queue = outgoing.queue.empty() ? outgoing.routing_key : outgoing.queue;
  return confirms_held_ && (confirms_held_for_.empty() || confirms_held_for_ == queue);
}

PublishResult MemoryBroker::publish_one(const Outgoing& outgoing) {
  const auto result = [&](How how, std::string reason) {
    return PublishResult{outgoing.token, how, std::move(reason)};
  };
  for (const std::string* name : {&outgoing.exchange, &outgoing.routing_key, &outgoing.queue}) {
    if (name->size() > kNameMost) return result(How::rejected, "a name is over 255 bytes");
  }
  for (const auto& [name, value] : outgoing.message.headers.value_or(Table{})) {
    if (name.size() > kNameMost) return result(How::rejected, "a header name is over 255 bytes");
  }
  if (!knows_exchange(outgoing.exchange)) {
    return {outgoing.token, How::returned, "NOT_FOUND - no exchange '" + outgoing.exchange + "'", true};
  }
  if (losses_ > 0) {
    --losses_;
    if (losses_arrive_) arrive(outgoing);
    return result(How::lost, "lost, as told");
  }
  if (nacks_ > 0) {
    --nacks_;
    return result(How::nacked, "nacked, as told");
  }
  if (!arrive(outgoing)) {
    return result(How::returned,
                  "no queue " + (outgoing.queue.empty() ? outgoing.routing_key : outgoing.queue));
  }
  return result(How::confirmed, {});
}

void MemoryBroker::settle(Told& told, const Outgoing& outgoing, PublishResult result) {
  published_.push_back({outgoing, result.how});
  told.results.push_back(std::move(result));
}

bool MemoryBroker::knows_exchange(const std::string& exchange) const {
  return exchange.empty() || std::any_of(kOurs.begin(), kOurs.end(), [&](std::string_view name) {
           return exchange == options_.prefix + std::string(name);
         });
}

bool MemoryBroker::arrive(const Outgoing& outgoing) {
  if (outgoing.queue.empty()) return route(outgoing.exchange, outgoing.routing_key, outgoing.message);
  const auto queue = queues_.find(outgoing.queue);
  if (queue == queues_.end()) return false;
  queue->second.push_back({outgoing.message, outgoing.exchange, outgoing.routing_key, false, {}});
  return true;
}

bool MemoryBroker::route(const std::string& exchange, const std::string& routing_key,
                         const Message& message) {
  const auto queue = queues_.find(exchange.empty() ? routing_key : exchange);
  if (queue == queues_.end() || !knows_exchange(exchange)) return false;
  queue->second.push_back({message, exchange, routing_key, false, {}});
  return true;
}

// --- delivering ---

void MemoryBroker::deliver(Told& told) {
  if (!status_.consuming || intake_stopped_ || intake_paused_ || stopping_) return;
  for (const auto& [inlet, suffix] : kInlets) {
    if (const auto queue = queues_.find(options_.prefix + std::string(suffix)); queue != queues_.end())
      deliver_from(queue->first, queue->second, inlet, told);
  }
  for (auto& [name, queue] : queues_) {
    if (queue.empty() || name.starts_with(options_.prefix + ".") ||
        options_.error_queues->find(name) == nullptr)
      continue;
    deliver_from(name, queue, Inlet::error, told);
  }
}

void MemoryBroker::deliver_from(const std::string& name, std::deque<Stored>& queue, Inlet inlet, Told& told) {
  if (queue.empty()) return;
  Intake& intake = intake_of(inlet);
  auto& deliveries = inlet == Inlet::error ? told.from_error_queues : told.deliveries;
  // Each inlet has its own prefetch, like RabbitMQ's consumers.
  auto room = options_.prefetch - std::ranges::count_if(intake.unacked, [&](const auto& entry) {
                return entry.second.queue == name;
              });
  for (; room > 0 && !queue.empty(); --room) {
    Stored stored = std::move(queue.front());
    queue.pop_front();
    const std::uint64_t tag = ++intake.last_tag;
    deliveries.push_back({{intake.session, tag},
                          inlet,
                          stored.redelivered,
                          stored.exchange,
                          stored.routing_key,
                          stored.message,
                          {},
                          inlet == Inlet::error ? name : std::string()});
    take_facts(deliveries.back(), *options_.error_queues,
               [&](Delivery& delivery) { delivery.facts.failure = stored.failure; });
    intake.unacked.emplace(tag, Unacked{name, std::move(stored)});
  }
}

MemoryBroker::Intake* MemoryBroker::intake_of(const DeliveryTag& tag) {
  const auto intake = std::ranges::find(intakes_, tag.session, &Intake::session);
  return intake != intakes_.end() ? &*intake : nullptr;
}

void MemoryBroker::give_back(Intake& intake) {
  // Back at the front, in the same order.
  for (auto it = intake.unacked.rbegin(); it != intake.unacked.rend(); ++it) {
    it->second.stored.redelivered = true;
    const auto queue = queues_.find(it->second.queue);
    if (queue != queues_.end()) queue->second.push_front(std::move(it->second.stored));
  }
  intake = {intake.session.next()};
}

void MemoryBroker::cut() {
  std::ranges::for_each(intakes_, [&](Intake& intake) { give_back(intake); });
  lose_unanswered("the connection was cut");
}

void MemoryBroker::lose_unanswered(std::string_view reason) {
  Told lost;
  for (auto& [outgoing, result] : std::exchange(unanswered_, {})) {
    settle(lost, outgoing, {outgoing.token, How::lost, std::string(reason)});
  }
  std::move(lost.results.begin(), lost.results.end(), std::back_inserter(cut_results_));
}

bool MemoryBroker::stands(const DeliveryTag& tag) const {
  std::lock_guard lock(mutex_);
  return status_.consuming && std::ranges::find(intakes_, tag.session, &Intake::session) != intakes_.end();
}

void MemoryBroker::requeue(std::vector<DeliveryTag> tags) {
  std::lock_guard lock(mutex_);
  for (auto tag = tags.rbegin(); tag != tags.rend(); ++tag) {  // back at the front, in the same order
    Intake* intake = intake_of(*tag);
    if (intake == nullptr) continue;
    auto unacked = intake->unacked.extract(tag->tag);
    if (unacked.empty()) continue;
    Unacked& back = unacked.mapped();
    back.stored.redelivered = true;
    if (const auto queue = queues_.find(back.queue); queue != queues_.end())
      queue->second.push_front(std::move(back.stored));
  }
  changed_.notify_all();
}

void MemoryBroker::drop_publishing(PublishLane /*both are one here*/, std::string reason) {
  std::lock_guard lock(mutex_);
  lose_unanswered(reason);
  changed_.notify_all();
}

void MemoryBroker::set_status(bool up, std::string reason) {
  status_.consuming = status_.publishing = up;
  if (!up) {
    status_.blocked = false;
    status_.reason = std::move(reason);
  }
  status_changed_ = true;
  changed_.notify_all();
}

}  // namespace rung
