#include "src/core/causes/token.h"

#include <algorithm>

#include "src/core/causes/words.h"

namespace rung::causes {
namespace {

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_vowel(char c) { return std::string_view("aeiouyAEIOUY").find(c) != std::string_view::npos; }
unsigned char byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

// Calls `f` for each part between the given separators; false as soon as it does.
template <typename F>
bool all_parts(std::string_view text, char separator, F f) {
  for (std::size_t from = 0;;) {
    const std::size_t to = std::min(text.find(separator, from), text.size());
    if (!f(text.substr(from, to - from))) return false;
    if (to == text.size()) return true;
    from = to + 1;
  }
}

}  // namespace

std::size_t blank_at(std::string_view text, std::size_t at) {
  const unsigned char c = byte_at(text, at), next = byte_at(text, at + 1), third = byte_at(text, at + 2);
  if (c == ' ' || (c >= '\t' && c <= '\r')) return 1;
  if (c == 0xc2 && next == 0xa0) return 2;  // no-break space
  // Thin and narrow spaces, and ’ as in 1’234.
  if (c == 0xe2 && next == 0x80 && ((third >= 0x80 && third <= 0x8b) || third == 0xaf)) return 3;
  if (c == 0xe2 && next == 0x80 && third == 0x99 && at > 0 && is_digit_byte(text[at - 1])) return 3;
  return 0;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (is_upper(c)) c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool has_digit(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_digit_byte(text[i])) return true;
    const unsigned char c = byte_at(text, i), next = byte_at(text, i + 1), third = byte_at(text, i + 2);
    if (c == 0xd9 && next >= 0xa0 && next <= 0xa9) return true;                    // Arabic-Indic
    if (c == 0xdb && next >= 0xb0 && next <= 0xb9) return true;                    // Persian
    if (c == 0xe0 && next == 0xa5 && third >= 0xa6 && third <= 0xaf) return true;  // Devanagari
    if (c == 0xef && next == 0xbc && third >= 0x90 && third <= 0x99) return true;  // full width
  }
  return false;
}

bool is_number(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit_byte); }

bool is_hex(std::string_view text) {
  const bool hex = std::ranges::all_of(
      text, [](char c) { return is_digit_byte(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
  return hex && (text.size() >= 7 || (text.size() >= 4 && has_digit(text)));
}

bool is_base64(std::string_view text) {
  if (text.size() < 16) return false;
  const auto some = [&](bool (*f)(char)) { return std::ranges::any_of(text, f); };
  if (!some(is_upper) || !some(is_lower) || text.find_first_of("+/") == std::string_view::npos) return false;
  // Not a path: its parts would be words.
  return some(is_digit_byte) || text.find('+') != std::string_view::npos;
}

bool is_version(std::string_view text) {
  if (text.starts_with('v') || text.starts_with('V')) text.remove_prefix(1);
  if (text.empty() || !is_digit_byte(text[0]) || text.find('.') == std::string_view::npos) return false;
  return all_parts(text, '.', [](std::string_view part) { return !part.empty() && is_digit_byte(part[0]); });
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 120) return false;
  if (!is_letter(text[0]) && text[0] != '_' && text[0] != '$' && text[0] != ':' && text[0] != '@')
    return false;
  for (const char c : text) {
    if (!is_word_byte(c) && std::string_view(".$[]:\\/#@?!").find(c) == std::string_view::npos) return false;
  }
  if (text.find("://") != std::string_view::npos || text.find('@', 1) != std::string_view::npos) return false;
  // An id is no name.
  for (std::size_t from = 0; from < text.size();) {
    std::size_t to = from;
    while (to < text.size() && is_word_byte(text[to])) ++to;
    const std::string_view part = text.substr(from, to - from);
    if (looks_random(part)) return false;
    if (has_digit(part) && !is_number(part) && !is_technical(lowered(part)) && !is_numbered_name(part) &&
        !is_camel_with_digits(part) && std::ranges::count_if(part, is_digit_byte) > 2)
      return false;
    from = to + 1;
  }
  return true;
}

namespace {

// NffrFeUfNV: the parts of a name in camel case have vowels, and its acronyms are followed by a longer word.
bool is_random_mix(std::string_view text) {
  std::size_t parts = 0, mute = 0, odd = 0;
  for (std::size_t from = 0; from < text.size(); ++parts) {
    std::size_t to = from + 1;
    while (to < text.size() && !(is_lower(text[to - 1]) && is_upper(text[to]))) ++to;
    const std::string_view part = text.substr(from, to - from);
    const std::size_t uppers = std::min(
        static_cast<std::size_t>(std::ranges::find_if_not(part, is_upper) - part.begin()), part.size());
    const bool vowels = std::ranges::any_of(part, [](char c) { return is_vowel(c) && c != 'y' && c != 'Y'; });
    mute += uppers < part.size() && !vowels ? 1 : 0;
    odd += uppers >= 2 && part.size() - uppers <= 4 ? 1 : 0;
    from = to;
  }
  if (text.size() < 8 || parts < 3) return false;
  return mute >= 2 || odd >= 2 || mute + odd >= 3 ||
         (parts >= 4 && mute + odd >= 1 && text.size() < 3 * parts);
}

}  // namespace

bool looks_random(std::string_view whole) {
  const std::size_t underscore = whole.find('_');
  const bool prefix = underscore != std::string_view::npos && underscore >= 2 && underscore <= 5 &&
                      std::ranges::all_of(whole.substr(0, underscore), is_lower);
  if (prefix && whole.size() - underscore > 8 && is_hex(whole.substr(underscore + 1))) return true;
  if (prefix && whole.size() - underscore > 10 && is_id_prefix(whole.substr(0, underscore)) &&
      whole.find('_', underscore + 1) == std::string_view::npos)
    return true;
  std::string text;
  for (const char c : prefix ? whole.substr(underscore + 1) : whole) {
    if (c != '_' && c != '-' && !is_digit_byte(c)) text += c;
  }
  if (text.size() < 6 || !std::ranges::all_of(text, is_letter)) return false;
  if (text.size() >= 7 && is_hex(text)) return true;
  const bool separated = text.size() != whole.size();
  const bool lower = std::ranges::all_of(text, is_lower), upper = std::ranges::all_of(text, is_upper);
  std::size_t run = 0, longest = 0;
  for (const char c : text) longest = std::max(longest, run = is_vowel(c) ? 0 : run + 1);
  if (!separated && upper) return text.size() >= 8 && longest >= 6;
  if (!separated && longest >= 6 && text.size() >= 10) return true;
  if (lower) {
    return !separated && std::ranges::none_of(text, is_vowel) && text.size() >= 7 &&
           text.find("http") == std::string::npos;
  }
  const bool id = prefix && text.size() >= 8 && std::ranges::count_if(text, is_upper) >= 3;
  return !upper && (id || is_random_mix(text));
}

bool is_vendor_code(std::string_view text) {
  const std::size_t dash = text.find_first_of("-_");
  if (dash != std::string_view::npos && is_vendor(lowered(text.substr(0, dash)))) {
    const std::string_view rest = text.substr(dash + 1);
    if (is_number(rest) && rest.size() >= 3) return true;
  }
  // E11000, SQL0803N, AADSTS50034, TS2345, CS0103, P2002
  const std::size_t letters = std::min(text.find_first_of("0123456789"), text.size());
  const std::string prefix = lowered(text.substr(0, letters));
  std::string_view digits = text.substr(letters);
  if (!digits.empty() && is_upper(digits.back())) digits.remove_suffix(1);
  const bool upper = std::ranges::all_of(text.substr(0, letters), is_upper);
  if (upper && is_number(digits) && digits.size() >= 4 && digits.size() <= 6 &&
      (prefix == "e" || prefix == "ts" || prefix == "cs" || is_vendor(prefix)))
    return true;
  // ERR_HTTP2_STREAM_ERROR
  if (text.find('_') == std::string_view::npos) return false;
  return all_parts(text, '_', [](std::string_view part) {
    const auto count = std::ranges::count_if(part, is_digit_byte);
    return !part.empty() && is_upper(part[0]) && count <= 2 &&
           std::ranges::all_of(part, [](char c) { return is_upper(c) || is_digit_byte(c); }) &&
           static_cast<std::size_t>(count) + 2 <= part.size();
  });
}

bool is_error_constant(std::string_view text) {
  if (text.size() < 5 || !std::ranges::all_of(text, [](char c) { return is_upper(c) || c == '_'; }))
    return false;
  return text.find('_') != std::string_view::npos || text[0] == 'E';
}

bool is_numbered_name(std::string_view text) {
  if (text.find('_') == std::string_view::npos || text.find('-') != std::string_view::npos) return false;
  std::size_t longest = 0;
  const bool fits = all_parts(text, '_', [&](std::string_view part) {
    if (is_number(part)) return true;
    const bool word =
        !part.empty() && std::ranges::all_of(part, is_letter) && (part.size() == 1 || is_lower(part[1]));
    if (word) longest = std::max(longest, part.size());
    return word || is_technical(part);
  });
  return fits && longest >= 4;
}

std::string letters_of(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!is_digit_byte(c)) out += c;
  }
  return lowered(out);
}

bool is_camel_with_digits(std::string_view text) {
  if (text.find_first_of("-_") != std::string_view::npos) return false;
  const auto digits = std::ranges::count_if(text, is_digit_byte);
  const auto uppers = std::ranges::count_if(text, is_upper);
  if (digits > 2 || static_cast<std::size_t>(digits) == text.size() || !is_letter(text[0])) return false;
  // Each run of letters is a word: Http, Stream.
  std::size_t from = 0, longest = 0;
  while (from < text.size()) {
    std::size_t to = from;
    while (to < text.size() && !is_digit_byte(text[to])) ++to;
    const std::string_view run = text.substr(from, to - from);
    if (!run.empty() && (run.size() < 2 || !is_lower(run.back()) || looks_random(run))) return false;
    longest = std::max(longest, run.size());
    from = to + 1;
  }
  return longest >= 4 && uppers >= 1;
}

}  // namespace rung::causes
