// Reads single headers, whatever type a client gave the value. For headers.cc, delay_headers.cc and the
// plugins. Thread: pure functions. Nothing here throws or fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/message/message.h"

namespace rung::reading {

// The value of a header; nullptr if it is absent or null (clients write unset values as null).
const Value* said(const std::optional<Table>& headers, std::string_view name);
std::string text_of(const Value* value);
// From an integer of any width, or its decimal text: clients encode numbers differently.
std::optional<std::int64_t> int_of(const Value* value);
// From an integer of any width, a float or decimal (truncated) or the text of an integer.
struct Number {
  std::int64_t value = 0;
  bool understood = false, too_large = false;  // too_large: exceeds an int64; `value` is then meaningless
};
Number number_of(const Value& value);
// " 'text'" for a text value, shortened, to quote it in a refusal; "" for other types.
std::string shown(const Value& value);
// "" if no queue can have that name or no column can store it: 255 bytes at most, UTF-8.
std::string queue_name(const Value* value);
// Appends "NAME is not understood: WANTS" to earlier complaints.
void complain(std::string& complaint, std::string_view name, std::string_view wants);

}  // namespace rung::reading
