// A dialect: where a framework writes, in the message that it puts into its error queue, what failed and
// where. Data, from plugin/rabbitmq/dialects/*.yaml or the user's own file; src/config reads the files.
// Thread: immutable after construction; pure functions. Nothing here throws: anybody can write these headers,
// and a header that does not parse counts as missing.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/message/message.h"
#include "src/core/rules/failure_rules.h"

namespace rung {

// One place in the message, and how to read it.
struct Reading {
  enum class From { header, property, body, queue_name, routing_key };
  enum class Form { text, iso8601, epoch_s, epoch_ms, nservicebus };  // other than text: times only
  From from = From::header;
  std::string name = {};                  // of the header or the property
  std::string json_pointer = {};          // into a table, an array or a JSON text (RFC 6901; -1 = the last
                                          // element); "" = the whole value
  std::optional<RuleRegex> pattern = {};  // that the whole value has to match
  Form form = Form::text;
};
using Readings = std::vector<Reading>;  // the first that yields a value is used

struct Dialect {
  std::string name, about, versions;
  std::string text = {};                    // of its file
  std::vector<std::string> sources, notes;  // for people
  Readings queue;                           // where the message goes back to
  Readings error_type, error, stack, failed_at, executor, exchange, routing_key;
  // Headers that the framework added at the failure, removed before the message goes back. * matches any
  // text.
  std::vector<std::string> remove;
};
using DialectPtr = std::shared_ptr<const Dialect>;

// The properties that a reading may name.
inline constexpr std::array<std::string_view, 8> kReadProperties{
    "app_id",   "content_type", "correlation_id",   "message_id",
    "reply_to", "type",         "content_encoding", "user_id"};

// Where a message came from. routing_key: with which the framework published it.
struct ErrorSource {
  std::string_view queue, routing_key = {};
};

// What the dialect finds in `message`, with the broker's own headers still in it. An unreadable value is left
// out.
struct DialectFacts {
  std::string queue, error_type, error, executor;  // error: the text, and the stack below it
  std::optional<EpochMs> failed_at;
  std::optional<std::string> exchange, routing_key;
};
DialectFacts read_dialect(const Dialect& dialect, const Message& message, const ErrorSource& source);

// Whether the framework added this header at the failure.
bool removes(const Dialect& dialect, std::string_view header);

// --- error queues as a source: queues to which frameworks publish failed messages, and what becomes of
// these. error_queues of the config. Thread: immutable after construction; pure functions.

struct ErrorQueue {
  std::string from;         // a queue's name, or a pattern: * matches any text
  DialectPtr dialect = {};  // never nullptr in a config
  std::string to = {};      // the queue that its messages go back to; "" = as the dialect says
  std::string ladder = {};  // "" = that of the queue they go back to
  bool retries = true;      // false (ladder: none): every message is parked at once

  bool is_pattern() const { return from.find('*') != std::string::npos; }
};

class ErrorQueues {
 public:
  ErrorQueues() = default;
  explicit ErrorQueues(std::vector<ErrorQueue> queues) : queues_(std::move(queues)) {}

  // The entry for this queue: the one that names it, else the first pattern that matches. nullptr: it is not
  // an error queue. Patterns do not match names that begin with amq.
  const ErrorQueue* find(std::string_view queue) const;
  const std::vector<ErrorQueue>& all() const { return queues_; }
  bool empty() const { return queues_.empty(); }
  bool has_patterns() const;
  // Whether the same queues are consumed in the same way. Ladders may differ.
  bool same_sources(const ErrorQueues& other) const;

 private:
  std::vector<ErrorQueue> queues_;
};
using ErrorQueuesPtr = std::shared_ptr<const ErrorQueues>;

// The queue that messages from the error queue `queue` go back to, as far as the config or the queue's name
// says; "" = the messages say it.
std::string target_by_name(const ErrorQueue& entry, std::string_view queue);

// Adds what the entry's dialect has read to `facts`, where the broker's own record may stand already, and
// removes the framework's headers from the message. For the plugins.
void take_failure(const ErrorQueue& entry, DialectFacts read, Message& message, BrokerFacts& facts);

}  // namespace rung
