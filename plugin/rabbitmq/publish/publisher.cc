#include "plugin/rabbitmq/publish/publisher.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/core/base/failpoint.h"

namespace rung::rabbit {
namespace {

constexpr auto kCloseReserve = std::chrono::milliseconds{100};  // of the stop timeout, for connection.close
// An exchange that has neither confirmed nor refused a message after this time exists and lets us publish: a
// refusal comes at once. So the queue behind it does not answer, and must not delay other unproven exchanges.
// Neither may a queue that cannot be bound.
constexpr auto kAnswerTimeout = std::chrono::seconds{3};
constexpr BootMs kNever{std::numeric_limits<std::int64_t>::max()};

const char* const kFenced = "not allowed to publish any more";

const char* purpose_of(Role role) {
  if (role == Role::main) return "publish";
  return role == Role::probe ? "probe" : "unproven exchanges";
}

}  // namespace

Publisher::Publisher(ConnectionLoop::Deps deps, Role role, PublisherPeers peers)
    : options_(deps.options),
      rights_lost_(std::move(peers.rights_lost)),
      routing_(role, peers.proven),
      outcomes_(deps.sink.sink(), std::move(peers.pass_on)),
      failures_({routing_, outstanding_, queue_, outcomes_}),
      loop_(deps,
            {.thread_name = "rung-publish",
             .purpose = purpose_of(role),
             .side = role == Role::main ? std::optional(SinkAdapter::Side::publishing) : std::nullopt,
             // A helper drops its connection because of a queue or an exchange.
             .address_failed_when_over = role == Role::main},
            *this) {
  if (role == Role::main) outstanding_.keep_returned();
}

Publisher::~Publisher() { join(); }

void Publisher::join() {
  loop_.join();
  stopped();  // messages published while the thread was ending, or later, also get one result each
}

void Publisher::publish(std::vector<Outgoing> batch) {
  if (batch.empty()) return;
  mailbox_.put(std::move(batch));
  loop_.wake();
}

void Publisher::allow_until(BootMs deadline) {
  writer_.allow_until(deadline);
  loop_.wake();
}

// --- a new channel ---

Result<void> Publisher::prepare(Connection& connection) {
  unblocked();
  if (routing_.role() == Role::main) routing_.proven().clear();
  return open_channel(connection);
}

// REQUIRES: nothing is outstanding.
Result<void> Publisher::open_channel(Connection& connection) {
  (void)outstanding_.take_all();  // delivery tags begin anew
  const Calls its = calls(connection);
  if (auto done = its.open_channel(); !done) return done;
  amqp_confirm_select_t select{};
  if (auto done = its.send(AMQP_CONFIRM_SELECT_METHOD, &select); !done) return done;
  rights_.send(connection);
  return {};
}

Result<void> Publisher::channel_closed(Connection& connection, const Closing& why) {
  if (rights_.pending()) return tl::unexpected(rights_.refused(why));
  writer_.abandon();
  failures_.channel_closed(why);
  outcomes_.hand_over();
  return open_channel(connection);
}

// --- one turn ---

Result<BootMs> Publisher::turn(Connection& connection) {
  const auto open = read(connection);
  if (!open) return tl::unexpected(open.error());
  if (!*open) return transient(connection.closing().text);
  take_batch();
  if (auto done = send(connection); !done) return tl::unexpected(done.error());
  if (auto done = connection.tick(); !done) return tl::unexpected(done.error());
  outcomes_.hand_over();
  if (loop_.now() >= answer_due()) {
    routing_.answered();
    return transient("no answer to a publish to an exchange that was not used before");
  }
  if (loop_.stopping() && (done_for_now() || loop_.now() + kCloseReserve >= loop_.stop_deadline())) {
    if (connection.unsent() > 0) return transient("stopped");
    return loop_.finish(connection, 5 * kCloseReserve);
  }
  return next_turn();
}

BootMs Publisher::idle() {
  take_batch();
  if (fence_passed()) fence_queue();
  outcomes_.hand_over();
  return next_turn();
}

BootMs Publisher::next_turn() const {
  const BootMs now = loop_.now();
  auto at = std::min(now + std::chrono::seconds{10}, answer_due());
  if (loop_.stopping()) at = std::min(at, loop_.stop_deadline() - kCloseReserve);
  if (!queue_.empty() || writer_.writing()) at = std::min(at, std::max(writer_.allowed_until(), now) + Ms{1});
  return at;
}

BootMs Publisher::answer_due() const {
  const bool awaited =
      routing_.role() == Role::unproven && !outstanding_.empty() && !blocked_ && !writer_.writing();
  return awaited ? writer_.finished_at() + kAnswerTimeout : kNever;
}

bool Publisher::done_for_now() const {
  return queue_.empty() && !failures_.waits_for_rights() && outstanding_.empty();
}

Result<bool> Publisher::read(Connection& connection) {
  const auto take = [&](const Frame& frame) -> Result<bool> {
    if (frame.method() != AMQP_CHANNEL_CLOSE_METHOD) {
      take_frame(connection, frame);
    } else if (auto done = channel_closed(connection, connection.closed_by_peer(frame)); !done) {
      return tl::unexpected(done.error());
    }
    return true;
  };
  return loop_.read(connection, take);
}

Calls Publisher::calls(Connection& connection) {
  return loop_.calls(connection, [this, &connection](const Frame& frame) { take_frame(connection, frame); });
}

void Publisher::take_frame(Connection& connection, const Frame& frame) {
  if (frame.type != AMQP_FRAME_METHOD) {
    returned_.add(frame, outstanding_);
    return;
  }
  switch (frame.method()) {
    case AMQP_BASIC_ACK_METHOD:
      if (const auto* m = connection.decode<amqp_basic_ack_t>(frame)) {
        confirmed(connection, m->delivery_tag, m->multiple != 0, true);
      }
      break;
    case AMQP_BASIC_NACK_METHOD:
      if (const auto* m = connection.decode<amqp_basic_nack_t>(frame)) {
        confirmed(connection, m->delivery_tag, m->multiple != 0, false);
      }
      break;
    case AMQP_BASIC_RETURN_METHOD:
      if (const auto* m = connection.decode<amqp_basic_return_t>(frame)) returned_.begin(*m);
      break;
    case AMQP_CONNECTION_BLOCKED_METHOD:
      if (const auto* m = connection.decode<amqp_connection_blocked_t>(frame)) {
        blocked_ = true;
        // The connection is up; the check of our rights is answered later.
        if (rights_.pending()) loop_.report_up(connection);
        loop_.report_blocked(true, "blocked by the broker: " + std::string(view(m->reason)));
      }
      break;
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
      unblocked();
      break;
    default:
      break;
  }
}

void Publisher::unblocked() {
  if (std::exchange(blocked_, false)) loop_.report_blocked(false);
}

void Publisher::confirmed(Connection& connection, std::uint64_t tag, bool multiple, bool ack) {
  if (rights_.pending()) {  // nothing else was sent
    rights_.passed();
    if (routing_.role() == Role::unproven) routing_.proven().set_no_helper(false);
    loop_.report_up(connection);
    return failures_.rights_confirmed();
  }
  routing_.answered();
  outstanding_.confirm(tag, multiple, ack, outcomes_.results());
  // <prefix>.return returned them: their bindings are gone. They are bound again and published once more.
  for (Outgoing& outgoing : outstanding_.take_returned()) {
    routing_.proven().remove(routing_.proof_of(outgoing));
    outcomes_.pass_on(std::move(outgoing));
  }
}

// --- sending ---

void Publisher::take_batch() {
  for (Outgoing& outgoing : mailbox_.take()) queue_.add(std::move(outgoing));
}

void Publisher::fence_queue() {
  for (const Sent& sent : queue_.take_all())
    outcomes_.result(sent.outgoing.token, sent.maybe_delivered ? How::lost : How::fenced, kFenced);
}

Result<void> Publisher::send(Connection& connection) {
  for (;;) {
    if (fence_passed()) {
      fence_queue();
      // Truncates the message: over() separates complete messages from truncated ones.
      if (writer_.writing() || (connection.unsent() > 0 && !outstanding_.empty()))
        return transient("publishing was no longer allowed with a message half sent");
    }
    if (auto done = connection.flush(); !done) return done;
    if (connection.unsent() > 0) return {};
    if (writer_.writing()) failpoint("publish.half_written");
    if (!writer_.writing() && !outstanding_.empty()) failpoint("publish.after_write");
    const std::uint64_t before = connection.appended();
    if (auto done = write_more(connection); !done) return done;
    if (connection.appended() == before) return {};
  }
}

// Encodes enough for one write.
Result<void> Publisher::write_more(Connection& connection) {
  const bool alone = routing_.role() != Role::main;  // a refusal closes its channel
  const auto window = static_cast<std::size_t>(alone ? 1 : std::max(options_.max_unconfirmed, 1));
  while (!MessageWriter::full(connection)) {
    if (writer_.writing()) {
      writer_.continue_body(connection, outstanding_, loop_.now());
      continue;
    }
    if (outstanding_.empty()) queue_.nothing_on_its_way();
    if (queue_.empty() || rights_.pending() || blocked_) break;
    if (outstanding_.size() >= (queue_.one_at_a_time() ? 1 : window)) break;
    if (auto done = begin_message(connection); !done) return done;
  }
  return {};
}

Result<void> Publisher::begin_message(Connection& connection) {
  Sent sent = queue_.take_first();
  Outgoing& outgoing = sent.outgoing;
  if (auto why = unpublishable(outgoing.message); !why.empty()) {
    outcomes_.result(outgoing.token, How::rejected, std::move(why));
    return {};
  }
  if (routing_.belongs_to_other(outgoing)) {
    outcomes_.pass_on(std::move(outgoing));
    return {};
  }
  if (auto why = routing_.choose_exchange(outgoing); !why.empty()) sent.reason = std::move(why);
  if (routing_.needs_binding(outgoing)) {
    const auto bound = bind(connection, sent);
    if (!bound) return tl::unexpected(bound.error());
    if (!*bound) return {};
  }
  if (auto why = routing_.refusal_of(outgoing)) {
    outcomes_.no_exchange(outgoing.token, *std::move(why));
    return {};
  }
  routing_.sending(outgoing);
  auto begun = writer_.begin(connection, outstanding_, sent, loop_.now());
  if (!begun) outcomes_.result(outgoing.token, How::rejected, std::move(begun.error().message));
  return {};
}

// Binds the target queue. False: the message has its result, or goes another way. If the broker does not
// answer, the message waits: better late than without its routing key.
Result<bool> Publisher::bind(Connection& connection, Sent& sent) {
  Calls its = calls(connection);
  its.deadline = loop_.now() + kAnswerTimeout;
  const auto done = bind_target_queue(sent.outgoing.exchange, sent.outgoing.queue, its);
  if (done) return true;
  const std::string& why = done.error().message;
  const int code = why == connection.closing().text ? connection.closing().code : 0;
  if (code == AMQP_NOT_FOUND) {
    outcomes_.result(sent.outgoing.token, How::returned, why);
  } else if (code == AMQP_ACCESS_REFUSED || code == AMQP_RESOURCE_LOCKED ||
             code == AMQP_PRECONDITION_FAILED) {
    failures_.binding_refused(std::move(sent), why);
  } else {
    if (routing_.role() == Role::probe) {
      outcomes_.result(sent.outgoing.token, How::lost, "its queue could not be bound: " + why);
    } else {
      queue_.add_last(std::move(sent));  // other queues first
    }
    return tl::unexpected(done.error());
  }
  if (auto open = open_channel(connection); !open) return tl::unexpected(open.error());
  return false;
}

// --- the end of a connection, or of the publisher ---

void Publisher::over(const ConnectionLoop::End& end) {
  unblocked();
  writer_.abandon();
  // A hang-up because of what we sent, not a shutdown (320) or a broken connection.
  const auto& closing = end.closed_by_peer;
  if (closing && (closing->method == AMQP_BASIC_PUBLISH_METHOD || closing->code >= 500)) {
    failures_.hung_up(*closing);
  } else {
    failures_.connection_lost(end.written, fence_passed(), end.why.message);
  }
  failures_.rights_unknown();
  const bool lost = rights_.connection_over();
  outcomes_.hand_over();
  if (lost && rights_lost_ && !queue_.empty()) rights_lost_(end.why.message);
  // The broker allows no further connection: as the lesser evil, unproven exchanges use the main one.
  if (routing_.role() == Role::unproven && end.why.message.find("NOT_ALLOWED") != std::string::npos)
    pass_everything_on();
}

void Publisher::pass_everything_on() {
  routing_.proven().set_no_helper(true);
  for (Sent& sent : queue_.take_all()) {
    routing_.proven().add(sent.outgoing.exchange);
    if (!sent.outgoing.queue.empty())
      routing_.refuse_binding(sent.outgoing, "no further connection is allowed");
    outcomes_.pass_on(std::move(sent.outgoing));
  }
  outcomes_.hand_over();
}

void Publisher::stopped() {
  take_batch();
  for (const Sent& sent : queue_.take_all())
    outcomes_.result(sent.outgoing.token, How::lost, "stopped before it was sent");
  outcomes_.hand_over();
}

}  // namespace rung::rabbit
