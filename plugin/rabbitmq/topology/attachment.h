// Whether the dead letters of a queue reach <prefix>.failed, by its arguments, a policy, or bindings between
// exchanges; and the policies and command lines that make it so.
//
// Thread: pure functions and values, except those with a QueueAdmin, which block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/topology/management.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

// --- names and command lines ---

// <prefix>.failed
std::string failed_exchange(std::string_view prefix);
// rung-<queue>: the policy that `rung attach` creates.
std::string policy_name(std::string_view queue);
// A pattern that matches exactly this name, whatever characters it contains.
std::string policy_pattern(std::string_view queue);
// The command line for a person to run, quoted for bash: rabbitmqctl set_policy -p VHOST --apply-to queues
// NAME PATTERN JSON. The first: of the policy that `rung attach` creates.
std::string policy_command(std::string_view prefix, std::string_view vhost, std::string_view queue);
std::string policy_command(std::string_view vhost, const Policy& policy);
// rabbitmqadmin -V VHOST declare (or delete) binding ...; `type`: queue or exchange.
std::string binding_command(std::string_view verb, std::string_view vhost, std::string_view source,
                            std::string_view type, std::string_view destination, std::string_view key);
// `text` as one bash word: unchanged if that is safe, else in '...' or, with control characters, $'...'.
std::string shell_quote(std::string_view text);

// --- where dead letters go ---

// Of a queue: its arguments, or else its policy; each of the two by itself.
struct DeadLetters {
  std::optional<std::string> exchange;     // none: they are dropped
  std::optional<std::string> routing_key;  // none: the message keeps its own
  bool by_argument = false;                // the exchange
};
DeadLetters dead_letters_of(const QueueFacts& facts, const std::vector<Policy>& policies);

// Whether what an exchange routes reaches <prefix>.failed: follows bindings, also between exchanges.
class DeadLetterRoutes {
 public:
  enum class Reach { no, some, all };  // some: it depends on the message's routing key or headers

  void add_exchange(const std::string& name, std::string type) { exchanges_[name].type = std::move(type); }
  // `to`: an exchange that has been added; "" = the queue.
  void add_binding(Binding binding, const std::string& to);
  bool knows(const std::string& exchange) const { return exchanges_.contains(exchange); }

  // `key`: none = any.
  Reach reach(const std::string& exchange, const std::optional<std::string>& key, int depth = 0) const;
  // The bindings of the exchange by which it does.
  std::vector<Binding> ways(const std::string& exchange, const std::optional<std::string>& key) const;

 private:
  struct Exchange {
    std::string type;
    std::vector<Binding> bindings;
  };
  Reach through(const Exchange& exchange, const Binding& binding, const std::optional<std::string>& key,
                int depth) const;

  std::map<std::string, Exchange> exchanges_;
};

// Whether a topic exchange's binding matches the routing key: words between dots, * is one word, # any
// number.
bool matches_topic(std::string_view pattern, std::string_view key);

// --- whether they reach us ---

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

const Policy* find_policy(const std::vector<Policy>& policies, std::string_view name);  // nullptr: none

// The queues of a virtual host, and what decides where their dead letters go.
struct Vhost {
  std::string prefix;
  std::vector<QueueFacts> queues = {};
  std::vector<Policy> policies = {};
  DeadLetterRoutes routes = {};

  const QueueFacts* find(std::string_view queue) const;  // nullptr: none
  AttachedAnswer attached(const QueueFacts& facts) const;
};
// Three calls, however many queues there are, and two for each exchange that is bound to <prefix>.failed, at
// most kMostExchanges of them. `only`: just these queues, by name: the broker's list of all can be long, and
// some seconds old.
inline constexpr std::size_t kMostExchanges = 50;
Result<Vhost> read_vhost(QueueAdmin& admin, std::string_view prefix,
                         const std::vector<std::string>* only = nullptr);

// --- settings of others on Rung's own queues and exchanges that do harm: by policy, operator policy or
// argument. `rung doctor` reports them; docs/broker-settings.md lists them. Thread: pure functions.

// harmful: intake or retries can stand still, or repeat. fatal: messages can be lost, or go elsewhere.
enum class Harm : std::uint8_t { harmful, fatal };

struct OwnState {
  std::string vhost = "/";
  std::vector<QueueFacts> queues;        // Rung's own, and
  std::vector<ExchangeFacts> exchanges;  // its exchanges
  std::vector<Policy> policies;
  std::vector<Binding> return_bindings;  // of the exchange <prefix>.return
};
Result<OwnState> read_own_state(QueueAdmin& admin, std::string_view prefix, std::string vhost,
                                std::vector<Policy> policies);

struct SettingFinding {
  Harm harm = Harm::harmful;
  std::string subject;  // the queue or exchange
  std::string what;     // "policy 'all' sets message-ttl to 5000: messages ..."
  std::string mend;     // the command or change that mends it
};

// The fatal ones first. `queue_type`: broker.queue_type.
std::vector<SettingFinding> judge_settings(std::string_view prefix, std::string_view queue_type,
                                           const OwnState& state);

// A value, and who set it.
struct Setting {
  nlohmann::json value;
  bool by_argument = false;
};
// The one in effect, of a queue's (or an exchange's) arguments and of the definition of its policy; none:
// neither sets it. Of two numbers the broker takes the smaller one; otherwise an argument overrides.
std::optional<Setting> setting_of(const nlohmann::json& arguments, const nlohmann::json& definition,
                                  std::string_view key);

// The lowest, of those queues that messages are taken in from.
DeliveryLimit lowest_delivery_limit(const std::vector<QueueFacts>& own_queues);

}  // namespace rung::rabbit
