// Properties and headers as they stand in the database. Nobody but us writes them, yet people have hands:
// what does not read is an error, what reads is written back to what reads the same. Input: JSON text.
#include "src/core/message/message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/values.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rung;
  const auto text = fuzz::text_of(data, size);
  if (const auto headers = headers_from_json(text)) {
    fuzz::hold(fuzz::depth(*headers) <= kDeepestNesting, "nesting is bounded");
    const std::string json = headers_to_json(*headers);
    const auto again = headers_from_json(json);
    fuzz::hold(is_utf8(json) && again && fuzz::same(*again, *headers), "headers are the same again", json);
    fuzz::hold(headers_to_json(*again) == json, "and so is their text", json);
  } else {
    fuzz::hold(!headers.error().message.empty(), "an error says what");
  }
  if (const auto properties = properties_from_json(text)) {
    const auto again = properties_from_json(properties_to_json(*properties));
    fuzz::hold(again && *again == *properties, "properties are the same again");
  }
  return 0;
}
