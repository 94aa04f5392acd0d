// Reads a JSON object of a request field by field, and reports missing, invalid, too long and unknown fields
// with their names and with what is accepted. Thread: one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/api/base/json.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung::api {

// The error of one field of a request: "delay", "tasks[3].headers".
struct FieldError {
  std::string field, detail;
  bool operator==(const FieldError&) const = default;
};
using FieldErrors = std::vector<FieldError>;
// Names and values: of a query, of headers.
using Pairs = std::vector<std::pair<std::string, std::string>>;

inline constexpr std::size_t kNameBytes = 255;  // limit of AMQP's short strings and of the columns

// The maximum number of errors reported per request.
inline constexpr std::size_t kMostTold = 20;

// Parses JSON in linear time. Errors: invalid JSON, nesting deeper than kDeepestNesting, a duplicate key in
// an object. `line`: the number of its first line, for people.
Result<Json> parse_json(std::string_view text, std::ptrdiff_t line = 1);
// "line 2, column 5": where the byte with this number, from 1, is in a text that begins with line `line`.
std::string place_in(std::string_view text, std::size_t byte, std::ptrdiff_t line = 1);

// An upper bound of the memory for parsing JSON text: for values (including growing vectors and objects), and
// for strings with their copies.
struct JsonMemory {
  std::int64_t values = 0, texts = 0;  // bytes
};
JsonMemory memory_of_json(std::string_view text);

class Fields {
 public:
  // The body of a request: check() throws what is wrong.
  explicit Fields(const Json& object) : Fields(object, "", own_) {}
  // `prefix` is prepended to each name in the errors: "tasks[3]." or "".
  Fields(const Json& object, std::string prefix, FieldErrors& errors);

  // The value of that name; nullptr if it is absent or null. Each requested name becomes a known field.
  const Json* get(std::string_view name);
  bool has(std::string_view name) { return get(name) != nullptr; }

  // nullopt: absent, or invalid and reported.
  std::optional<std::string> text(std::string_view name, std::size_t most);
  std::optional<std::string> name(std::string_view name);  // an AMQP name: at most 255 bytes, no NUL
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most);
  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<bool> flag(std::string_view name);
  std::optional<Ms> duration(std::string_view name, Ms least);  // "30m", or an integer of ms
  std::optional<EpochMs> time(std::string_view name);           // RFC 3339
  std::optional<Silence> silence(std::string_view name);  // {presumed_after: ...} or {reported_within: ...}
  // queue, or exchange and routing_key; not both. Rejects Rung's own names and queues of other groups.
  Target target(const TargetRules& rules);

  void wrong(std::string_view name, std::string detail);
  // Reports unknown fields, before all other errors: a missing field may be a misspelt one.
  void finish();
  // Does that, and throws the errors (Problem), if there are any.
  void check();
  FieldErrors& errors() { return errors_; }

 private:
  FieldErrors own_;
  const Json& object_;
  const std::string prefix_;
  FieldErrors& errors_;
  const std::size_t first_;  // index into errors_ of this object's first error
  std::vector<std::string_view> known_;
};

// Quotes a text for a message: shortened, without control characters.
std::string shown(std::string_view text);

}  // namespace rung::api
