// Words that say what kind of thing stands beside them in an error text. All lower case. Thread: pure
// functions.
#pragma once

#include <string_view>

namespace rung::causes {

bool is_technical(std::string_view word);  // "utf8", "sha256", "http2": a digit that is part of the word
bool is_unit(std::string_view word);      // "ms", "seconds", "bytes", "eur", "utc", "pm": belongs to a number
bool is_currency(std::string_view word);  // "eur": also before a number
bool is_calendar(std::string_view word);  // "mon", "january": part of a date
bool is_top_level(std::string_view word);    // "com", "internal": the last part of a host name
bool announces_name(std::string_view word);  // "column", "method": what follows in quotes is a name
bool announces_code(std::string_view word);  // "status", "errno": the number that follows says what happened
bool announces_host(std::string_view word);  // "lookup", "enotfound": a host follows
bool is_reason_phrase(std::string_view text);  // "not found", "bad gateway": follows an HTTP status
bool says_what(std::string_view key);          // of key=value and JSON: the value says what happened
bool is_vendor(std::string_view prefix);       // "ora", "pls": of a vendor's error code
bool is_file_type(std::string_view word);      // "pdf", "csv"
bool names_place(std::string_view key);        // of JSON: "path", "field": where the error is
bool is_id_prefix(std::string_view word);      // "cus", "req": of cus_..., req_...
bool is_extension(std::string_view word);      // "java", "py": of a source file

}  // namespace rung::causes
