// A content header as it comes in at <prefix>.delay: what it asks for, the task that it becomes, the message
// that goes out. Input: the payload of a content header frame.
#include "plugin/rabbitmq/wire/broker_headers.h"
#include "plugin/rabbitmq/wire/codec.h"
#include "src/core/machine/headers.h"
#include "src/core/machine/machine.h"
#include "src/core/message/identity.h"
#include "src/core/message/message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/values.h"

namespace rung {
namespace {

using fuzz::hold;
using fuzz::hold_text;
using fuzz::same;

constexpr EpochMs kNow{1'800'000'000'000};
constexpr std::int64_t kYear10000Ms = 253'402'300'800'000;

const RuleBook& rules() {
  static const RuleBook book({{"default", *levels::Ladder::from_list({Ms{5000}, Ms{30'000}}, 0.2)}}, {},
                             {{"t", {{"orders", "", ""}, "default", Silence{Silence::Means::failure, Ms{5}}}},
                              {"x", {{"", "shop", "k"}, "", {}}}});
  return book;
}

const DelayRoutes& routes() {
  static const DelayRoutes all{"rung.delay", {{"my-delayed", "my-exchange"}}};
  return all;
}

void hold_request(const DelayRequest& r, const Message& message, const BrokerFacts& facts) {
  hold(r.delay >= Ms::zero() && r.delay <= levels::kLongest, "a delay is one");
  hold(!r.not_before || r.not_before->ms < kYear10000Ms, "a date is one that a column holds");
  const EpochMs due = r.due(kNow);
  hold(due >= kNow + r.delay && due.ms < kYear10000Ms, "never early, and not beyond the calendar");
  hold(r.target.queue.empty() || (r.target.exchange.empty() && r.target.routing_key.empty()), "one target");
  for (const std::string* name :
       {&r.target.queue, &r.target.exchange, &r.otherwise, &r.exchange, &r.routing_key})
    hold_text(*name, 255, "a name can be one");
  if (r.refusal.empty()) hold_text(r.target.routing_key, 255, "a routing key that is kept");
  hold_text(r.refusal, 500, "a refusal is a short text");
  hold_text(r.directives.complaint, 1000, "complaint");
  hold(!r.directives.never && !r.directives.retry_after, "nothing has failed");
  hold(intake_key(r, message, message_digest(strip(message, nullptr, facts))).size() ==
           (message.properties.message_id.value_or("").empty() ? 0 : 16),
       "key");
}

Task hold_task(const Message& message, const DelayRequest& r) {
  Task task;
  task.id = {4711};
  task.kind = Kind::delay;
  task.tag = message.properties.type.value_or("");
  task.queue = r.target.queue;
  task.exchange = r.target.exchange;
  task.routing_key = r.target.routing_key;
  begin_delay(task, r.directives, rules(), kNow, r.due(kNow));
  hold(task.level == 0 && task.levels >= 1 && rules().ladder(task.ladder) != nullptr,
       "it stands before its ladder");
  hold(task.state == State::scheduled
           ? target_of(task).is_set() && task.next_at && *task.next_at >= kNow
           : task.state == State::parked && task.finished_at && !task.last_error.empty(),
       "it waits for its time and has a target, or is parked with the reason");
  hold_text(task.last_error, kErrorBytes, "last error");
  return task;
}

void hold_travel(const Message& message, const BrokerFacts& facts, Task task) {
  std::string origin;
  const Message stripped = strip(message, &origin, facts);
  hold(headers_from_json(origin).has_value(), "what was taken off is kept", origin);
  hold(same(strip(stripped, nullptr, facts), stripped), "strip is done once");
  hold(!stripped.headers || find(*stripped.headers, rabbit::kDelayHeader) == nullptr, "x-delay is off");
  task.attempt = 1;
  const Message dressed = dress(stripped, task, "1-token");
  hold(find(dressed.headers, header::kFirstFailedAt) == nullptr, "nothing has failed");
  hold(same(strip(dressed, nullptr).headers.value_or(Table{}), stripped.headers.value_or(Table{})),
       "strip takes off what dress puts on");
  // What comes in again without x-delay is at once.
  Message came = dressed;
  const BrokerFacts none = rabbit::take_broker_headers(came, Inlet::delay);
  const DelayRequest again = read_delay(came, "my-delayed", "k", routes(), none.delay);
  hold(again.refusal.empty() && again.due(kNow) == kNow, "it doesn't wait twice", again.refusal);
}

}  // namespace
}  // namespace rung

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rung;
  Message message;
  std::uint64_t body_size = 0;
  rabbit::decode_content_header(fuzz::text_of(data, size), message, body_size);
  const BrokerFacts facts = rabbit::take_broker_headers(message, Inlet::delay);
  for (const auto& [exchange, key] : {std::pair{"rung.delay", "orders"},
                                      {"my-delayed", "a.b"},
                                      {"", "rung.delay"},
                                      {"my-delayed", "\xff"}}) {
    const DelayRequest request = read_delay(message, exchange, key, routes(), facts.delay);
    hold_request(request, message, facts);
    if (request.refusal.empty()) hold_travel(message, facts, hold_task(message, request));
  }
  return 0;
}
