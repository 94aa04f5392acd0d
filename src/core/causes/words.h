// Words that say what kind of thing stands beside them in an error text. Thread: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace rung::causes {

// What a word does to its neighbours; a word may do several.
using Roles = std::uint64_t;
namespace role {
inline constexpr Roles kName = Roles{1} << 0;        // "column": what follows in quotes is a name
inline constexpr Roles kPlainName = Roles{1} << 1;   // "key": the same, if it looks like nothing but a name
inline constexpr Roles kCode = Roles{1} << 2;        // "errno": the number that follows says what happened
inline constexpr Roles kError = Roles{1} << 3;       // "error 1062": the same, but not in "error: 3 orders"
inline constexpr Roles kStatus = Roles{1} << 4;      // "http": a status is near
inline constexpr Roles kAnswer = Roles{1} << 5;      // "returned": a status may be near
inline constexpr Roles kOtherCode = Roles{1} << 6;   // "postal": its code is data
inline constexpr Roles kUnit = Roles{1} << 7;        // "ms": belongs to the number before it
inline constexpr Roles kCurrency = Roles{1} << 8;    // "eur": belongs to the number before or after it
inline constexpr Roles kCalendar = Roles{1} << 9;    // "mon", "january": part of a date
inline constexpr Roles kHost = Roles{1} << 10;       // "enotfound": a host follows
inline constexpr Roles kMaybeHost = Roles{1} << 11;  // "host": what follows is one if it looks like one
inline constexpr Roles kNoHost = Roles{1} << 12;     // "failed": no host, though it follows "lookup"
inline constexpr Roles kService = Roles{1} << 13;    // "postgres": a host when a port follows
inline constexpr Roles kConnect = Roles{1} << 14;    // "dial": a word with a port after it is a host
inline constexpr Roles kSays = Roles{1}
                               << 15;  // "reason": of key=value and JSON; the value says what happened
inline constexpr Roles kTechnical = Roles{1} << 16;  // "sha256": the digits are part of the word
inline constexpr Roles kTopLevel = Roles{1} << 17;   // "internal": the last part of a host's name
inline constexpr Roles kVendor = Roles{1} << 18;     // "ora": of a vendor's error code
inline constexpr Roles kSource = Roles{1} << 19;     // "java": the extension of a source file
inline constexpr Roles kData = Roles{1} << 20;       // "pdf": the extension of a file with data
inline constexpr Roles kMedia = Roles{1} << 21;      // "application": begins a content type
// "from", "error": may follow a status; no noun that is counted
inline constexpr Roles kAfterStatus = Roles{1} << 22;
inline constexpr Roles kLiteral = Roles{1} << 23;     // "true", "null": a value
inline constexpr Roles kIdentifier = Roles{1} << 24;  // "id": what follows a colon varies
inline constexpr Roles kLabel = Roles{1} << 25;       // "host": of [host db], which varies as a whole
inline constexpr Roles kThread = Roles{1}
                                 << 26;         // "thread": what follows is the name of one, if it is no word
inline constexpr Roles kPath = Roles{1} << 27;  // "path": of JSON; the names in its array stay
inline constexpr Roles kIdPrefix = Roles{1} << 28;   // "sku": of an id
inline constexpr Roles kCapitalId = Roles{1} << 29;  // "bic": what follows in capitals varies
inline constexpr Roles kResult = Roles{1} << 30;  // "refusal": ends or begins a key that says, refusalReason
inline constexpr Roles kParty = Roles{1} << 31;   // "customer": a name may follow
inline constexpr Roles kState = Roles{1} << 34;   // "status": of a printed object it is data
inline constexpr Roles kTrace = Roles{1} << 36;   // "traceid": whether it is said does not count
inline constexpr Roles kMethod = Roles{1} << 37;  // "get": of HTTP
inline constexpr Roles kContainer = Roles{1} << 35;  // given to keys of JSON: an object is the value
inline constexpr Roles kDefect = Roles{1} << 33;     // "missing": what is wrong with a field
inline constexpr Roles kDataType = Roles{1} << 32;   // "boolean": of what was received
// Of keys and labels whose values stay.
inline constexpr Roles kKept = kSays | kCode | kName | kStatus | kError | kPath;
}  // namespace role

// Of an ASCII word in lower case; 0 = none.
Roles roles_of(std::string_view lower);

// Of a key in its own case: those of the whole, and of "refusalReason", "result_code" those of what ends it.
Roles roles_of_key(std::string_view key);

// Whether `text` begins with `lower`; the case of ASCII letters in `text` does not count.
bool begins_with(std::string_view text, std::string_view lower);

// "Not Found", "(Bad Gateway": follows an HTTP status.
bool begins_with_reason(std::string_view text);
// "is required", "object has no attribute": what stands before it is a name.
bool begins_as_after_name(std::string_view text);

}  // namespace rung::causes
