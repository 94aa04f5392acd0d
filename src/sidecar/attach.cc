#include "src/sidecar/attach.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <tuple>
#include <utility>

namespace rung::sidecar {
namespace {

using PlainJson = nlohmann::json;
using rabbit::find_policy;
using rabbit::Policy;

constexpr const char* kDeadLetters = "dead-letter-exchange";
// Between two checks: this many times as long as the last one took.
constexpr int kPause = 9;
constexpr Ms kLongestPause{30'000};
constexpr Ms kFirstLook{2000};

bool applies_to(const Policy& policy, const rabbit::QueueFacts& facts) {
  const std::string type = facts.type.empty() ? "classic" : facts.type;
  const std::string& to = policy.apply_to;
  if (to != "all" && to != "queues" && to != type + "_queues" && !(to == "streams" && type == "stream"))
    return false;
  try {
    return std::regex_search(facts.name, std::regex(policy.pattern));
  } catch (const std::regex_error&) {
    return false;  // RabbitMQ's dialect has more than this one
  }
}

// "max-length is 10 there and 5 here"
std::string differences(const PlainJson& there, const PlainJson& here) {
  std::string text;
  for (const PlainJson& one : PlainJson::diff(here, there)) {
    const auto path = one.at("path").get<std::string>();
    text += (text.empty() ? "" : ", ") + path.substr(1) + " is ";
    text += one.at("op") == "add"      ? "only there"
            : one.at("op") == "remove" ? "only here"
                                       : one.at("value").dump() + " there and " +
                                             here.at(PlainJson::json_pointer(path)).dump() + " here";
  }
  return text;
}

// For a queue that is attached by attach's own policy: that policy as it should be now.
void plan_refresh(AttachPlan& plan, const Policy& made, const rabbit::QueueFacts& facts,
                  const std::vector<Policy>& policies) {
  const Policy* base = policy_below(facts, policies, made.name);
  if (base == nullptr) return;
  const PlainJson& is = made.definition;
  PlainJson wanted = base->definition;
  for (const auto& [key, value] : is.items()) {
    if (std::string_view(key).starts_with("dead-letter-")) wanted[key] = value;
  }
  std::string drift = differences(wanted, is);
  if (made.priority <= base->priority)
    drift += (drift.empty() ? "" : ", ") + std::string("its priority is not above that one's");
  if (drift.empty()) return;
  plan.overridden = base->name;
  plan.drift = "policy " + made.name + " differs from policy " + base->name + ", which it copies: " + drift;
  plan.policy = made;
  plan.policy->definition = std::move(wanted);
  plan.policy->priority = std::max(made.priority, base->priority + 1);
}

}  // namespace

std::string attach_command(const std::string& queue) {
  return "rung attach " + std::string(queue.starts_with('-') ? "-- " : "") + rabbit::shell_quote(queue);
}

const Policy* policy_below(const rabbit::QueueFacts& facts, const std::vector<Policy>& policies,
                           std::string_view except) {
  const Policy* best = nullptr;
  for (const Policy& policy : policies) {
    if (policy.name == except || !applies_to(policy, facts)) continue;
    if (best == nullptr || std::tie(best->priority, policy.name) < std::tie(policy.priority, best->name))
      best = &policy;
  }
  return best;
}

AttachPlan plan_attach(const BrokerOptions& broker, const rabbit::QueueFacts& facts,
                       const rabbit::Vhost& vhost) {
  const std::string& queue = facts.name;
  const std::vector<Policy>& policies = vhost.policies;
  AttachPlan plan;
  plan.command = attach_command(queue);
  const std::string ours = rabbit::failed_exchange(broker.prefix);
  const rabbit::DeadLetters now = rabbit::dead_letters_of(facts, policies);
  plan.answer = vhost.attached(facts);
  if (facts.type == "stream") {
    plan.command.clear();
    plan.refusal = plan.answer.detail + ": publish failures to " + ours + " instead";
    return plan;
  }
  if (plan.answer.attached == rabbit::Attached::yes_by_binding) return plan;
  if (now.exchange == ours) {
    const Policy* made = now.by_argument ? nullptr : find_policy(policies, facts.policy);
    if (made != nullptr && made->name == rabbit::policy_name(queue))
      plan_refresh(plan, *made, facts, policies);
    return plan;
  }
  if (now.by_argument) {
    const bool bindable = !now.exchange->empty();  // the default exchange is not
    plan.command = bindable ? rabbit::binding_command("declare", broker.vhost(), *now.exchange, "queue", ours,
                                                      now.routing_key.value_or("#"))
                            : "redeclare it with x-dead-letter-exchange: " + ours;
    plan.refusal = plan.answer.detail + ": " + (bindable ? "run " : "") + plan.command;
    if (bindable)
      plan.refusal +=
          " (the queues that are bound to it now keep getting a copy of each failed message" +
          std::string(now.routing_key ? "" : "; a direct exchange needs each routing key instead of #") +
          "), or redeclare it with '" + ours + "'";
    return plan;
  }

  const Policy* in_effect = find_policy(policies, facts.policy);
  plan.previous_exchange = now.exchange.value_or("");
  Policy& policy = plan.policy.emplace();
  policy.name = rabbit::policy_name(queue);
  policy.pattern = rabbit::policy_pattern(queue);
  // Only one policy applies to a queue, so ours copies the one in effect.
  if (in_effect != nullptr) {
    policy.definition = in_effect->definition;
    const bool is_ours = in_effect->name == policy.name;
    policy.priority = in_effect->priority + (is_ours ? 0 : 1);
    if (!is_ours) plan.overridden = in_effect->name;
  }
  policy.definition[kDeadLetters] = ours;
  return plan;
}

AttachWatch::AttachWatch(io::Loop& loop, BrokerOptions broker, Queues queues, Found found)
    : loop_(loop),
      broker_(std::move(broker)),
      vhost_(broker_.vhost()),
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
  const std::lock_guard lock(mutex_);
  wanted_ = queues_();
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

// Whether it is attached; how to do it, and how without Rung: with the policy that attach would set, which
// keeps what others say.
bridge::QueueAttachment AttachWatch::judge(const std::string& queue,
                                           const Result<rabbit::Vhost>& seen) const {
  bridge::QueueAttachment one{
      queue, {}, {}, attach_command(queue), rabbit::policy_command(broker_.prefix, vhost_, queue)};
  if (!seen) {
    one.detail = seen.error().message;
    return one;
  }
  const rabbit::QueueFacts* facts = seen->find(queue);
  if (facts == nullptr) {
    one.state = AttachmentState::gone;
    one.detail = "no queue '" + queue + "'";
    return one;
  }
  const AttachPlan plan = plan_attach(broker_, *facts, *seen);
  one.state = is_attached(plan.answer.attached) ? AttachmentState::attached : AttachmentState::detached;
  one.detail = describe(plan.answer);
  one.command = plan.command;
  if (!plan.refusal.empty()) one.policy = "not by a policy: " + plan.refusal;
  if (plan.policy) one.policy = rabbit::policy_command(vhost_, *plan.policy);
  return one;
}

bridge::AttachmentLook AttachWatch::look(const bridge::WatchedQueues& watched) {
  bridge::AttachmentLook found;
  Result<rabbit::Vhost> seen;
  if (auto admin = rabbit::management_admin(broker_, kTimeout)) {
    rabbit::QueueAdmin* asked = nullptr;
    {
      const std::lock_guard lock(mutex_);
      admin_ = *std::move(admin);
      asked = admin_.get();
    }
    seen = rabbit::read_vhost(*asked, broker_.prefix);
    if (const auto own = asked->own_queues(broker_.prefix)) found.limit = rabbit::lowest_delivery_limit(*own);
  } else {
    seen = tl::unexpected(admin.error());
  }
  const auto matches = [&](const std::string& queue) { return watched.also && watched.also(queue); };
  for (const std::string& queue : watched.names) {
    found.queues.push_back(judge(queue, seen));
    if (matches(queue)) found.matched.insert(queue);
  }
  if (seen) {
    found.attached.emplace();
    for (const rabbit::QueueFacts& queue : seen->queues) {
      if (is_attached(seen->attached(queue).attached)) found.attached->insert(queue.name);
      const bool full = found.queues.size() >= watched.names.size() + kMostOthers;
      if (full || queue.exclusive || queue.type == "stream" || !matches(queue.name)) continue;
      if (std::ranges::find(watched.names, queue.name) != watched.names.end()) continue;
      found.queues.push_back(judge(queue.name, seen));
      found.matched.insert(queue.name);
    }
  }
  count(watched, seen ? &*seen : nullptr, found);
  const std::lock_guard lock(mutex_);
  admin_.reset();
  return found;
}

// The connection stays open while checks follow each other: each one is two lines in the broker's log.
void AttachWatch::count(const bridge::WatchedQueues& watched, const rabbit::Vhost* seen,
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
  if (!backlog || seen == nullptr) return;
  const auto published = admin_->published();
  if (!published) return;
  for (bridge::QueueAttachment& one : found.queues) {
    const auto it = published->find(one.queue);
    const rabbit::QueueFacts* facts = it == published->end() ? nullptr : seen->find(one.queue);
    // With priorities, later messages leave first.
    const bool in_order = facts != nullptr && !facts->arguments.contains("x-max-priority");
    if (one.count && in_order) one.count->published = it->second;
  }
}

}  // namespace rung::sidecar
