// Makes an error text what all texts of its cause have in common. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace rung::causes {

inline constexpr std::size_t kMostNormalised = 1000;

// `text` in lower case, with one blank for each run of them; what varies from failure to failure is a *, also
// several such things that only blanks and punctuation separate. At most kMostNormalised bytes. Any bytes are
// fine; linear in the length of `text`.
//
//   Varies: numbers, ids (a token with a digit, or letters that look random), quoted values, URLs, paths,
//   addresses, hosts, times, and the value of key=value. Stays:  codes (HTTP 404, errno 111, ORA-00001),
//   quoted names ('total' after "column"), technical words (sha256).
std::string normalise(std::string_view text);

// Of normalise(): only the codes, "404 econnrefused", at most a few.
std::string codes_of(std::string_view text);

}  // namespace rung::causes
