#include "src/cli/attach/attach_watch.h"

#include <algorithm>
#include <utility>

#include "plugin/rabbitmq/topology/own_settings.h"
#include "src/cli/attach/attach_plan.h"

namespace rung::cli {

namespace {

// Between two checks: this many times as long as the last one took.
constexpr int kPause = 9;
constexpr Ms kLongestPause{30'000};
constexpr Ms kFirstLook{2000};

std::optional<AttachmentState> state_of(rabbit::Attached answer) {
  if (is_attached(answer)) return AttachmentState::attached;
  if (answer == rabbit::Attached::no) return AttachmentState::detached;
  if (answer == rabbit::Attached::no_such_queue) return AttachmentState::gone;
  return std::nullopt;
}

}  // namespace

AttachWatch::AttachWatch(io::Loop& loop, BrokerOptions broker, Queues queues, Found found)
    : loop_(loop),
      broker_(std::move(broker)),
      vhost_(vhost_of(broker_)),
      queues_(std::move(queues)),
      found_(std::move(found)),
      timer_(loop, [this] { ask(); }),
      soon_(loop, [this] { ask(); }) {}

AttachWatch::~AttachWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (admin_ != nullptr) admin_->interrupt();
  }
  asked_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void AttachWatch::start(Ms every) {
  thread_ = std::thread([this] { work(); });
  // Once the broker answers, look_now() is sooner: by then our own exchanges and queues are declared.
  timer_.start(kFirstLook, every);
}

// If a check takes longer than the interval, the pending ones are merged into one.
void AttachWatch::ask() {
  bridge::WatchedQueues queues = queues_();
  {
    const std::lock_guard lock(mutex_);
    wanted_ = std::move(queues);
  }
  asked_.notify_one();
}

void AttachWatch::work() {
  for (;;) {
    bridge::WatchedQueues queues;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [this] { return stopping_ || wanted_; };
      if (!asked_.wait_for(lock, kKeep, ready)) {
        probe_.reset();
        asked_.wait(lock, ready);
      }
      if (stopping_) return;
      queues = *std::exchange(wanted_, std::nullopt);
    }
    const BootMs asked_at = loop_.clock().boot();
    auto answers = look(queues);
    answers.asked_at = asked_at;
    const Ms took = loop_.clock().boot() - asked_at;
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    loop_.post([this, answers = std::move(answers)] { found_(answers); });
    asked_.wait_for(lock, std::min(took * kPause, kLongestPause), [this] { return stopping_; });
  }
}

// How to attach it, and how without Rung: with the policy that attach would set, which keeps what others say.
void AttachWatch::advise(const rabbit::AttachedLook& seen, std::size_t i,
                         bridge::QueueAttachment& one) const {
  one.command = attach_command(one.queue);
  one.policy = rabbit::policy_command(broker_.prefix, vhost_, one.queue);
  if (!seen.facts[i]) return;
  const AttachPlan plan =
      plan_attach(broker_, one.queue, *seen.facts[i], seen.policies, rabbit::DeadLetterRoutes());
  one.command = plan.command;
  if (plan.action == AttachPlan::Action::refuse) one.policy = "not by a policy: " + plan.reason;
  if (plan.action == AttachPlan::Action::put) one.policy = rabbit::policy_command(vhost_, plan.policy);
}

bridge::AttachmentLook AttachWatch::look(const bridge::WatchedQueues& watched) {
  rabbit::AttachedLook seen;
  std::optional<DeliveryLimit> limit;
  auto admin = rabbit::management_admin(broker_, kTimeout);
  if (!admin) {
    seen.queues = watched.names;
    seen.answers.assign(seen.queues.size(), {rabbit::Attached::unknown, admin.error().message});
    seen.facts.resize(seen.queues.size());
  } else {
    rabbit::QueueAdmin* asked = nullptr;
    {
      const std::lock_guard lock(mutex_);
      admin_ = *std::move(admin);
      asked = admin_.get();
    }
    seen = rabbit::look_at_attached(*asked, broker_.prefix, watched.names, watched.also);
    if (const auto own = asked->own_queues(broker_.prefix)) limit = rabbit::lowest_delivery_limit(*own);
  }
  bridge::AttachmentLook found;
  found.limit = std::move(limit);
  if (seen.all) found.attached.emplace(seen.all->begin(), seen.all->end());
  const std::vector<std::string>& queues = seen.queues;
  for (const std::string& queue : queues) {
    if (watched.also && watched.also(queue)) found.matched.insert(queue);
  }
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const rabbit::AttachedAnswer& answer = seen.answers[i];
    found.queues.push_back({queues[i], state_of(answer.attached), describe(answer), {}, {}});
    advise(seen, i, found.queues.back());
  }
  count(watched, seen, found);
  const std::lock_guard lock(mutex_);
  admin_.reset();
  return found;
}

// The connection stays open while checks follow each other: each one is two lines in the broker's log.
void AttachWatch::count(const bridge::WatchedQueues& watched, const rabbit::AttachedLook& seen,
                        bridge::AttachmentLook& found) {
  bool backlog = false;
  for (bridge::QueueAttachment& one : found.queues) {
    if (!watched.awaiting.contains(one.queue) || one.state == AttachmentState::gone) continue;
    if (probe_ == nullptr) {
      auto opened = rabbit::Probe::open(broker_, loop_.clock(), kTimeout, "queues");
      if (!opened) return;
      probe_ = *std::move(opened);
    }
    const auto depth = probe_->depth(one.queue);
    if (depth) {
      one.count = {{depth->ready, depth->consumers, {}}};
      backlog = backlog || depth->ready > 0;
    } else if (depth.error().kind != Error::Kind::not_found) {
      return probe_.reset();
    }
  }
  if (!backlog || !seen.all) return;
  const auto published = admin_->published();
  for (std::size_t i = 0; published && i < found.queues.size(); ++i) {
    bridge::QueueAttachment& one = found.queues[i];
    const auto it = published->find(one.queue);
    // With priorities, later messages leave first.
    const bool in_order =
        seen.facts[i] && seen.facts[i]->arguments.find("x-max-priority") == std::string::npos;
    if (one.count && in_order && it != published->end()) one.count->published = it->second;
  }
}

}  // namespace rung::cli
