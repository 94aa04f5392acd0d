// Words that say what kind of thing stands beside them in an error text. Thread: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace rung::causes {

// What a word does to its neighbours; a word may do several.
using Roles = std::uint32_t;
namespace role {
inline constexpr Roles kName = 1U << 0;        // "column": what follows in quotes is a name
inline constexpr Roles kPlainName = 1U << 1;   // "key": the same, if it looks like nothing but a name
inline constexpr Roles kCode = 1U << 2;        // "errno": the number that follows says what happened
inline constexpr Roles kError = 1U << 3;       // "error 1062": the same, but not in "error: 3 orders"
inline constexpr Roles kStatus = 1U << 4;      // "http": a status is near
inline constexpr Roles kAnswer = 1U << 5;      // "returned": a status may be near
inline constexpr Roles kOtherCode = 1U << 6;   // "postal": its code is data
inline constexpr Roles kUnit = 1U << 7;        // "ms": belongs to the number before it
inline constexpr Roles kCurrency = 1U << 8;    // "eur": belongs to the number before or after it
inline constexpr Roles kCalendar = 1U << 9;    // "mon", "january": part of a date
inline constexpr Roles kHost = 1U << 10;       // "enotfound": a host follows
inline constexpr Roles kMaybeHost = 1U << 11;  // "host": what follows is one if it looks like one
inline constexpr Roles kNoHost = 1U << 12;     // "failed": no host, though it follows "lookup"
inline constexpr Roles kService = 1U << 13;    // "postgres": a host when a port follows
inline constexpr Roles kConnect = 1U << 14;    // "dial": a word with a port after it is a host
inline constexpr Roles kSays = 1U << 15;  // "reason": of key=value and JSON; the value says what happened
inline constexpr Roles kTechnical = 1U << 16;  // "sha256": the digits are part of the word
inline constexpr Roles kTopLevel = 1U << 17;   // "internal": the last part of a host's name
inline constexpr Roles kVendor = 1U << 18;     // "ora": of a vendor's error code
inline constexpr Roles kSource = 1U << 19;     // "java": the extension of a source file
inline constexpr Roles kData = 1U << 20;       // "pdf": the extension of a file with data
inline constexpr Roles kMedia = 1U << 21;      // "application": begins a content type
inline constexpr Roles kAfterStatus = 1U
                                      << 22;  // "from", "error": may follow a status; no noun that is counted
inline constexpr Roles kLiteral = 1U << 23;   // "true", "null": a value
inline constexpr Roles kIdentifier = 1U << 24;  // "id": what follows a colon varies
inline constexpr Roles kLabel = 1U << 25;       // "host": of [host db], which varies as a whole
inline constexpr Roles kThread = 1U << 26;      // "thread": what follows is the name of one, if it is no word
inline constexpr Roles kPath = 1U << 27;        // "path": of JSON; the names in its array stay
inline constexpr Roles kIdPrefix = 1U << 28;    // "sku": of an id
inline constexpr Roles kCapitalId = 1U << 29;   // "bic": what follows in capitals varies
}  // namespace role

// Of an ASCII word in lower case; 0 = none.
Roles roles_of(std::string_view lower);

// Whether `text` begins with `lower`; the case of ASCII letters in `text` does not count.
bool begins_with(std::string_view text, std::string_view lower);

// "Not Found", "(Bad Gateway": follows an HTTP status.
bool begins_with_reason(std::string_view text);
// "is required", "object has no attribute": what stands before it is a name.
bool begins_as_after_name(std::string_view text);

}  // namespace rung::causes
