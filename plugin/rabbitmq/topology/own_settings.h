// What others can set on Rung's own queues and exchanges: by policy, operator policy, queue argument, and
// limits of the virtual host. One table (setting_rules) says of each key whether it is safe, harmful or fatal
// there; `rung doctor`, /readyz and the log use it, and docs/broker-settings.md shows it.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rung::rabbit {

// harmful: intake or retries can stand still, or repeat. fatal: messages can be lost, or go elsewhere.
enum class Harm : std::uint8_t { safe, harmful, fatal };
std::string_view to_word(Harm harm);

// A key of a policy; as a queue argument it has the prefix "x-".
struct SettingRule {
  std::string_view key;
  Harm harm;
  std::string_view why;  // what it does to Rung's own queues or exchanges
};
// Every key of the policies of RabbitMQ 3.10 to 4.3, in alphabetical order.
std::span<const SettingRule> setting_rules();

// One of Rung's own queues or exchanges, as the management API shows it. The tables are JSON objects as text.
struct OwnObject {
  bool is_queue = true;
  std::string name, type;
  std::string arguments = "{}";
  std::string policy, operator_policy;  // those in effect; "" = none
  std::string definition = "{}";        // effective: of both policies together
  int priority = 0;                     // of `policy`
  // Of each alone, as far as is known.
  std::string policy_definition = "{}", operator_definition = "{}";
};

struct OwnBinding {
  std::string destination, destination_type, key;
};

struct OwnState {
  std::string vhost = "/";
  std::vector<OwnObject> objects;
  std::vector<OwnBinding> return_bindings;  // of the exchange <prefix>.return
  std::string vhost_limits = "{}";          // max-connections, max-queues
};

struct SettingFinding {
  Harm harm = Harm::safe;
  std::string subject;                              // the queue, the exchange, or "virtual host /"
  std::string what;                                 // "policy 'all' sets message-ttl to 5000: messages ..."
  std::string mend;                                 // the command or change that mends it
  std::optional<std::int64_t> delivery_limit = {};  // set if it is one, of a queue that is consumed
  bool operator==(const SettingFinding&) const = default;
};

// The harmful and fatal ones. `queue_type`: broker.queue_type.
std::vector<SettingFinding> judge_settings(std::string_view prefix, std::string_view queue_type,
                                           const OwnState& state);

}  // namespace rung::rabbit
