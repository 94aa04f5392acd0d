// How one header is read, whatever a client made of it. For headers.cc, delay_headers.cc and the plugins.
// Thread: pure functions. Nothing here throws or fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/message.h"
#include "src/core/policy.h"

namespace rung::reading {

// The value of a header; nullptr where it is not there or null, as clients write what was left unset.
const Value* said(const std::optional<Table>& headers, std::string_view name);
std::string text_of(const Value* value);
// An integer of any width, or its decimal text: clients differ in what they make of a number.
std::optional<std::int64_t> int_of(const Value* value);
// Of an integer of any width, a float or decimal (cut off at the point) or the text of an integer.
struct Number {
  std::int64_t value = 0;
  bool understood = false, too_large = false;  // too_large: above an int64; `value` means nothing then
};
Number number_of(const Value& value);
// " 'text'" of a value that is a text, shortened, to be quoted in a refusal; "" of all others.
std::string shown(const Value& value);
// "" where no queue can have that name, or no column hold it: 255 bytes at most, UTF-8.
std::string queue_name(const Value* value);
Directives read_directives(const std::optional<Table>& headers);
// "NAME is not understood: WANTS", after what was said before.
void complain(std::string& complaint, std::string_view name, std::string_view wants);

// Facts that make an intake key: each with its length, so that no two lists of them read alike.
void append_field(std::string& to, std::string_view field);
// The same for a body: its digest.
void append_digest(std::string& to, std::string_view body);
// 16 bytes of the digest of all of them.
std::string key_of(std::string_view facts);

}  // namespace rung::reading
