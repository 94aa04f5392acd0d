// A JSON object of a request, read field by field: what is missing, of the wrong kind, too long or not known
// is told with its name and with what would be right. Thread: one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/json.h"
#include "src/core/policy.h"
#include "src/core/result.h"
#include "src/core/task.h"
#include "src/core/time.h"

namespace rung::api {

// What is wrong with one field of a request: "delay", "tasks[3].headers".
struct FieldError {
  std::string field, detail;
  bool operator==(const FieldError&) const = default;
};
using FieldErrors = std::vector<FieldError>;

inline constexpr std::size_t kNameBytes = 255;  // AMQP's short strings, and the columns

// Of what is wrong with a request so much is told.
inline constexpr std::size_t kMostTold = 20;

// The JSON text as an object or array, in time that grows with its length alone. Errors: no JSON, nested
// deeper than kDeepestNesting, a key twice in one object.
Result<Json> parse_json(std::string_view text);

// At most so much memory does JSON text take when it is parsed: its values (the vectors and objects that hold
// them, while they grow), and its texts with their copies.
struct JsonMemory {
  std::int64_t values = 0, texts = 0;  // bytes
};
JsonMemory memory_of_json(std::string_view text);

class Fields {
 public:
  // `prefix` stands before each name in the errors: "tasks[3]." or "".
  Fields(const Json& object, std::string prefix, FieldErrors& errors);

  // The value of that name; nullptr where it is absent or null. Each name that is asked for is known.
  const Json* get(std::string_view name);
  bool has(std::string_view name) { return get(name) != nullptr; }

  // nullopt: absent, or wrong and told.
  std::optional<std::string> text(std::string_view name, std::size_t most);
  std::optional<std::string> name(std::string_view name);  // a text as AMQP's names are: 255 bytes, no NUL
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most);
  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<bool> flag(std::string_view name);
  std::optional<Ms> duration(std::string_view name, Ms least);  // "30m", or an integer of ms
  std::optional<EpochMs> time(std::string_view name);           // RFC 3339
  std::optional<Silence> silence(std::string_view name);  // {presumed_after: ...} or {reported_within: ...}
  // queue, or exchange and routing_key; not both.
  // None of Rung's own names is one, and no queue of another group.
  Target target(const TargetRules& rules);

  void wrong(std::string_view name, std::string detail);
  // Says which fields were never asked for, before all else: what is missing may be one of them misspelt.
  void finish();
  const std::string& prefix() const { return prefix_; }

 private:
  const Json& object_;
  const std::string prefix_;
  FieldErrors& errors_;
  const std::size_t first_;  // of errors_, those of this object begin there
  std::vector<std::string_view> known_;
};

// The text between the quotes of a sentence: cut, without control characters.
std::string shown(std::string_view text);

}  // namespace rung::api
