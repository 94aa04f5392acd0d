// Where a queue's dead letters go, asked of and told to RabbitMQ's administration: policies and queue
// arguments. Behind it stand the management API (here) and rabbitmqctl (src/cli).
//
// Thread: the functions are free to call from any; a QueueAdmin is for one thread. Every call blocks, bounded
// by the admin's timeout: never call it on the loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/broker_options.h"
#include "src/core/clock.h"
#include "src/core/result.h"

namespace rung::rabbit {

// Whether a queue's dead letters come to us.
enum class Attached { yes_by_argument, yes_by_policy, no, no_such_queue, unknown };

struct AttachedAnswer {
  Attached attached = Attached::unknown;
  // yes_by_policy: the policy's name. no: where the dead letters go instead, and what stands in the way.
  // unknown: why it could not be found out.
  std::string detail;
};
inline bool is_attached(Attached attached) {
  return attached == Attached::yes_by_argument || attached == Attached::yes_by_policy;
}

// <prefix>.failed
std::string failed_exchange(std::string_view prefix);
// rung-<queue>: the policy that `rung attach` makes.
std::string policy_name(std::string_view queue);
// A pattern that matches this one name and nothing else, whatever characters it holds.
std::string policy_pattern(std::string_view queue);
// {"dead-letter-exchange":"<prefix>.failed"}
std::string policy_definition(std::string_view prefix);
// The line that a person runs, quoted for bash: rabbitmqctl set_policy -p VHOST --apply-to queues NAME
// PATTERN JSON.
std::string policy_command(std::string_view prefix, std::string_view vhost, std::string_view queue);
// `text` as one word of bash: as it stands where that is safe, else in '...' or, with control characters,
// $'...'.
std::string shell_quote(std::string_view text);

// Declares over AMQP what the sidecar declares at its start, so that a dead letter has a place to wait also
// before the first one: RabbitMQ drops silently what is dead-lettered to an exchange that does not exist.
Result<void> declare_once(const BrokerOptions& options, const Clock& clock, Ms timeout);

struct QueueFacts {
  std::optional<std::string> dead_letter_argument;  // x-dead-letter-exchange, which wins over any policy
  std::string policy;                               // the one in effect; "" = none
  std::string type;                                 // classic, quorum, stream; "" = not told
  std::string name = {};
  std::string arguments = "{}";         // all of them: a JSON object, as text
  bool exclusive = false;               // belongs to one connection, goes with it
  std::vector<std::string> nodes = {};  // of the cluster, on which it is known to live; not by rabbitmqctl
};

struct Policy {
  std::string name, pattern;
  std::string apply_to = "queues";
  std::string definition = "{}";  // a JSON object, as text
  int priority = 0;
};

// Errors: transient = not reached, or not allowed in (another way may do); not_found; permanent = it said no.
class QueueAdmin {
 public:
  virtual ~QueueAdmin() = default;
  // "the management API at 127.0.0.1:15672": for messages.
  virtual std::string name() const = 0;
  // Whether it is there, lets us in, and speaks for the broker of the config.
  virtual Result<void> reach() = 0;
  virtual Result<QueueFacts> queue(std::string_view name) = 0;
  virtual Result<std::vector<QueueFacts>> queues() = 0;  // all of the virtual host
  virtual Result<bool> exchange_exists(std::string_view name) = 0;
  virtual Result<std::vector<Policy>> policies() = 0;
  virtual Result<void> put(const Policy& policy) = 0;
  virtual Result<void> remove(std::string_view policy) = 0;
  // Any thread: ends a call that waits for an answer, as far as the admin can.
  virtual void interrupt() {}
};

// Judges what the administration shows. Pure.
AttachedAnswer judge_attached(std::string_view prefix, const QueueFacts& facts,
                              const std::vector<Policy>& policies);
struct AttachedLook {
  std::vector<AttachedAnswer> answers;          // in the order of `queues`
  std::optional<std::vector<std::string>> all;  // every attached queue of the virtual host; none: not known
};
// Two calls, however many queues there are. An error of a call makes all answers unknown.
AttachedLook look_at_attached(QueueAdmin& admin, std::string_view prefix,
                              const std::vector<std::string>& queues);
// One queue, by the management API. Waits `timeout` at most for each of connecting and answering.
AttachedAnswer ask_attached(const BrokerOptions& options, std::string_view queue,
                            Ms timeout = std::chrono::seconds{2});

// The nodes of the cluster, as far as the management API shows them: all of them to a user with the tag
// monitoring, else those on which one of `queues` lives.
std::vector<std::string> cluster_nodes(const BrokerOptions& options, const std::vector<QueueFacts>& queues,
                                       Ms timeout);

// broker.management, else port 15672 of the broker's hosts, of which the first that answers is asked; with
// its own user, else the broker's. Permanent error where a URL does not parse.
Result<std::unique_ptr<QueueAdmin>> management_admin(const BrokerOptions& options, Ms timeout);

}  // namespace rung::rabbit
