// Where a queue's dead letters go: reads and changes policies and queue arguments through RabbitMQ's
// management API.
//
// Thread: call the functions from any; use a QueueAdmin from one thread. Every call blocks, bounded by the
// admin's timeout: never call it on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/topology/dead_letter_routes.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

// Whether a queue's dead letters reach us.
enum class Attached { yes_by_argument, yes_by_policy, yes_by_binding, no, no_such_queue, unknown };

struct AttachedAnswer {
  Attached attached = Attached::unknown;
  // yes_by_policy: the policy's name. yes_by_binding: which exchange takes them to us. no: where the dead
  // letters go instead, and what is in the way. unknown: why it could not be found out.
  std::string detail;
};
inline bool is_attached(Attached attached) {
  return attached == Attached::yes_by_argument || attached == Attached::yes_by_policy ||
         attached == Attached::yes_by_binding;
}
// "policy rung-orders", "queue argument": by what it is attached, else why it is not.
std::string describe(const AttachedAnswer& answer);

// <prefix>.failed
std::string failed_exchange(std::string_view prefix);
// rung-<queue>: the policy that `rung attach` creates.
std::string policy_name(std::string_view queue);
// A pattern that matches exactly this name, whatever characters it contains.
std::string policy_pattern(std::string_view queue);
// {"dead-letter-exchange":"<prefix>.failed"}
std::string policy_definition(std::string_view prefix);
// The command line for a person to run, quoted for bash: rabbitmqctl set_policy -p VHOST --apply-to queues
// NAME PATTERN JSON.
std::string policy_command(std::string_view prefix, std::string_view vhost, std::string_view queue);
struct Policy;
std::string policy_command(std::string_view vhost, const Policy& policy);
// rabbitmqadmin -V VHOST declare (or delete) binding ...; `type`: queue or exchange.
std::string binding_command(std::string_view verb, std::string_view vhost, std::string_view source,
                            std::string_view type, std::string_view destination, std::string_view key);
// `text` as one bash word: unchanged if that is safe, else in '...' or, with control characters, $'...'.
std::string shell_quote(std::string_view text);

struct QueueFacts {
  std::optional<std::string> dead_letter_argument;  // x-dead-letter-exchange; it overrides any policy
  std::string policy;                               // the one in effect; "" = none
  std::string type;                                 // classic, quorum, stream; "" = not reported
  std::string name = {};
  std::string arguments = "{}";  // all of them: a JSON object, as text
  bool exclusive = false;        // belongs to one connection and is deleted with it
  bool auto_delete = false;      // is deleted when its last consumer leaves
  bool durable = true;
  std::vector<std::string> nodes = {};  // cluster nodes known to host it
  // Of policy and operator policy together: a JSON object, as text; "" = not told.
  std::string effective_policy = {};
  std::string operator_policy = {};  // "" = none
};

struct ExchangeFacts {
  std::string name, type;
  std::string policy = {};       // "" = none
  std::string arguments = "{}";  // a JSON object, as text
};

// A binding of an exchange, seen from there.
struct OutBinding {
  std::string destination, destination_type, key;
};

struct Policy {
  std::string name, pattern;
  std::string apply_to = "queues";
  std::string definition = "{}";  // a JSON object, as text
  int priority = 0;
};

// Errors: transient = unreachable, or login refused (another way may work); not_found; permanent = request
// refused.
class QueueAdmin {
 public:
  virtual ~QueueAdmin() = default;
  // "the management API at 127.0.0.1:15672": for messages.
  virtual std::string name() const = 0;
  // Whether it is reachable, accepts our login, and manages the broker of the config.
  virtual Result<void> reach() = 0;
  virtual Result<QueueFacts> queue(std::string_view name) = 0;
  virtual Result<std::vector<QueueFacts>> queues() = 0;  // all in the virtual host
  // Rung's own that exist, with what policies set there: some seconds old. The others come without it.
  virtual Result<std::vector<QueueFacts>> own_queues(std::string_view prefix) = 0;
  virtual Result<ExchangeFacts> exchange(std::string_view name) = 0;
  // By queue: how many messages have been published to it so far; a number seconds old. Without those of
  // which nothing is known. Not found: this admin cannot tell.
  virtual Result<std::map<std::string, std::int64_t, std::less<>>> published();
  // Of this queue, or else exchange, as the destination; none if it does not exist.
  virtual Result<std::vector<Binding>> bindings(bool of_queue, std::string_view name) = 0;
  virtual Result<std::vector<Policy>> policies() = 0;
  // What the exchange is bound to. Not found: this admin cannot tell.
  virtual Result<std::vector<OutBinding>> bindings_of(std::string_view exchange);
  virtual Result<void> put(const Policy& policy) = 0;
  virtual Result<void> remove(std::string_view policy) = 0;
  // Any thread: aborts a call that waits for an answer, as far as the admin can.
  virtual void interrupt() {}
};

// Evaluates what the administration reports. Pure.
AttachedAnswer judge_attached(std::string_view prefix, const QueueFacts& facts,
                              const std::vector<Policy>& policies, const DeadLetterRoutes& routes);
struct AttachedLook {
  std::vector<std::string> queues;               // those asked for, then the others
  std::vector<std::optional<QueueFacts>> facts;  // in the order of `queues`; none: no such queue, or unknown
  std::vector<Policy> policies;
  std::vector<AttachedAnswer> answers;          // in the order of `queues`
  std::optional<std::vector<std::string>> all;  // every attached queue of the virtual host; none: unknown
};
// Three calls, however many queues there are, and two for each exchange that is bound to <prefix>.failed. If
// a call fails, all answers are unknown. `also`: looks at these queues too, without exclusive ones and
// streams, and at most kMostOthers.
inline constexpr std::size_t kMostOthers = 1000;
AttachedLook look_at_attached(QueueAdmin& admin, std::string_view prefix,
                              const std::vector<std::string>& queues,
                              const std::function<bool(const std::string& queue)>& also = {});

// The cluster nodes that the management API shows: all of them to a user with the tag monitoring, else those
// that host one of `queues`.
std::vector<std::string> cluster_nodes(const BrokerOptions& options, const std::vector<QueueFacts>& queues,
                                       Ms timeout);

// Uses broker.management, else port 15672 of the broker's hosts (the first that answers); logs in as its own
// user, else as the broker's. Permanent error if a URL does not parse.
Result<std::unique_ptr<QueueAdmin>> management_admin(const BrokerOptions& options, Ms timeout);

}  // namespace rung::rabbit
