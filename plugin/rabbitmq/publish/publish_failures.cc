#include "plugin/rabbitmq/publish/publish_failures.h"

#include <algorithm>
#include <string>
#include <utility>

namespace rung::rabbit {

namespace {

const std::string kDefaultExchange = "amq.default";  // its name in the broker's reasons

// Whether the broker's reason names this message: by its exchange, or its size. What else closes a channel is
// taken off before (broker_headers.h). The wordings are from RabbitMQ 3.x and 4.x.
bool blames(const Closing& why, const Outgoing& outgoing) {
  const auto says = [&](const std::string& words) { return why.text.find(words) != std::string::npos; };
  const std::string& exchange = outgoing.exchange.empty() ? kDefaultExchange : outgoing.exchange;
  if (says("exchange '" + exchange + "'"))
    return !says("access to topic '") || says("access to topic '" + outgoing.routing_key + "'");
  return says("message size " + std::to_string(outgoing.message.body.size()) + " is larger");
}

// The index of the message that caused it; sent.size() = unknown. A hang-up counts against a message that was
// alone in flight.
std::size_t find_culprit(std::vector<Sent>& sent, const Closing& why, bool hung_up) {
  constexpr int kStrikes = 2;
  if (sent.size() == 1) return !hung_up || ++sent[0].strikes >= kStrikes ? 0 : 1;
  if (hung_up) return sent.size();
  const auto it = std::ranges::find_if(sent, [&](const Sent& one) { return blames(why, one.outgoing); });
  return static_cast<std::size_t>(it - sent.begin());
}

}  // namespace

// Outstanding messages without an answer; those that were returned get their results.
std::vector<Sent> PublishFailures::take_unsettled() {
  const Routing& routing = deps_.routing;
  std::vector<Sent> sent;
  for (Sent& one : deps_.outstanding.take_all()) {
    if (one.returned && routing.role() == Role::main && !one.outgoing.queue.empty()) {
      routing.proven().remove(routing.proof_of(one.outgoing));
      deps_.outcomes.pass_on(std::move(one.outgoing));
    } else if (one.returned) {
      deps_.outcomes.result(one.outgoing.token, How::returned, std::move(one.reason));
    } else {
      sent.push_back(std::move(one));
    }
  }
  return sent;
}

void PublishFailures::connection_lost(std::uint64_t written, bool fenced, const std::string& why) {
  for (Sent& sent : take_unsettled()) {
    const bool whole = sent.end != 0 && sent.end <= written;
    if (whole || !fenced || sent.maybe_delivered) {
      deps_.outcomes.result(sent.outgoing.token, How::lost, why);
    } else {
      deps_.outcomes.result(sent.outgoing.token, How::fenced, "not allowed to publish any more");
    }
  }
}

void PublishFailures::refused(const Closing& why, bool hung_up) {
  std::vector<Sent> sent = take_unsettled();
  deps_.queue.nothing_on_its_way();
  const std::size_t culprit = find_culprit(sent, why, hung_up);
  if (culprit == sent.size()) {
    deps_.queue.add_suspects(std::move(sent));
    return;
  }
  for (std::size_t i = 0; i < culprit; ++i)
    deps_.outcomes.result(sent[i].outgoing.token, How::lost, why.text);
  for (std::size_t i = sent.size(); i-- > culprit + 1;) deps_.queue.add_first(std::move(sent[i]));
  refuse(std::move(sent[culprit]), why);
}

// Handles the message that made the broker close the channel.
void PublishFailures::refuse(Sent sent, const Closing& why) {
  const Outgoing& outgoing = sent.outgoing;
  if (!outgoing.queue.empty()) {
    refuse_return_exchange(std::move(sent), why);
    return;
  }
  deps_.routing.proven().remove(outgoing.exchange);
  if (why.code == AMQP_NOT_FOUND) {
    // No such exchange: as unroutable as a message without a queue. It may exist at the next attempt.
    deps_.routing.refuse(outgoing, why.text);
    deps_.outcomes.no_exchange(outgoing.token, why.text);
  } else if (why.code != AMQP_ACCESS_REFUSED) {
    deps_.outcomes.result(outgoing.token, How::rejected, why.text);
  } else if (deps_.routing.belongs_to_other(outgoing)) {
    deps_.outcomes.pass_on(std::move(sent.outgoing));
  } else if (++sent.strikes < 2 || outgoing.exchange.empty()) {
    deps_.queue.add_first(std::move(sent));  // retried if the check of our rights passes
  } else {
    sent.reason = why.text;
    refused_twice_ = std::move(sent);
  }
}

// <prefix>.return is ours: if it is missing or refuses us, that is not the message's fault.
void PublishFailures::refuse_return_exchange(Sent sent, const Closing& why) {
  if (why.code != AMQP_NOT_FOUND && why.code != AMQP_ACCESS_REFUSED) {
    deps_.outcomes.result(sent.outgoing.token, How::rejected, why.text);
    return;
  }
  if (deps_.routing.role() != Role::main) return binding_refused(std::move(sent), why.text);
  deps_.routing.proven().clear();  // all bindings are gone
  deps_.outcomes.pass_on(std::move(sent.outgoing));
}

void PublishFailures::binding_refused(Sent sent, const std::string& why) {
  deps_.routing.refuse_binding(sent.outgoing, why);
  if (deps_.routing.role() == Role::probe) {
    deps_.queue.add_first(std::move(sent));
  } else {
    deps_.outcomes.pass_on(std::move(sent.outgoing));
  }
}

void PublishFailures::rights_confirmed() {
  if (!refused_twice_) return;
  deps_.routing.refuse(refused_twice_->outgoing, refused_twice_->reason);
  deps_.outcomes.no_exchange(refused_twice_->outgoing.token, std::move(refused_twice_->reason));
  refused_twice_.reset();
}

void PublishFailures::rights_unknown() {
  if (!refused_twice_) return;
  refused_twice_->strikes = 0;
  deps_.queue.add_first(*std::move(refused_twice_));
  refused_twice_.reset();
}

}  // namespace rung::rabbit
