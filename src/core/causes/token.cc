#include "src/core/causes/token.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/core/causes/words.h"

namespace rung::causes {
namespace {

// For each letter, which letters follow it in words: bit 0 = a. The pairs that make up 96 % of those in
// English and in identifiers.
constexpr std::array<std::uint32_t, 26> kPairs = {
    0x1febd6f, 0x1164b17, 0x11eddbd, 0x11ef97f, 0x1fffdff, 0x11ec93d, 0x01e79d1, 0x11e4115, 0x2befd7f,
    0x0104011, 0x0144911, 0x13ef97f, 0x03cf91f, 0x13efdff, 0x0fefd7f, 0x11ee99d, 0x0100000, 0x13efd7f,
    0x17ffdff, 0x17ef9ff, 0x00ef97f, 0x0044111, 0x0066195, 0x0089114, 0x00cb915, 0x0000111};

constexpr std::size_t kLongestToken = 64;

bool is_vowel(char c) {
  constexpr std::uint32_t kVowels = 0x1104111;  // a e i o u y
  return is_letter(c) && ((kVowels >> static_cast<unsigned>(lowered(c) - 'a')) & 1U) != 0;
}

// Calls `f` for each part between `separators`; false as soon as it is.
template <typename F>
bool all_parts(std::string_view text, std::string_view separators, F f) {
  for (std::size_t from = 0;;) {
    const std::size_t to = std::min(text.find_first_of(separators, from), text.size());
    if (!f(text.substr(from, to - from))) return false;
    if (to == text.size()) return true;
    from = to + 1;
  }
}

// `token` in lower case, with the bytes that fit.
struct Lower {
  explicit Lower(std::string_view token) : length(std::min(token.size(), kLongestToken)) {
    std::transform(token.begin(), token.begin() + static_cast<std::ptrdiff_t>(length), bytes.begin(),
                   lowered);
  }
  std::string_view view() const { return {bytes.data(), length}; }
  std::array<char, kLongestToken> bytes;
  std::size_t length;
};

// Percentage of pairs of letters that words have.
std::size_t usual_pairs(std::string_view letters) {
  std::size_t usual = 0;
  for (std::size_t i = 1; i < letters.size(); ++i)
    usual +=
        (kPairs[static_cast<std::size_t>(lowered(letters[i - 1]) - 'a')] >> (lowered(letters[i]) - 'a')) & 1U;
  return letters.size() < 2 ? 100 : usual * 100 / (letters.size() - 1);
}

// OrderNoById has four.
std::size_t camel_parts(std::string_view letters) {
  std::size_t parts = 1;
  for (std::size_t i = 1; i < letters.size(); ++i) {
    const bool next_lower = i + 1 < letters.size() && is_lower(letters[i + 1]);
    if (is_upper(letters[i]) && (is_lower(letters[i - 1]) || next_lower)) ++parts;
  }
  return parts;
}

bool letters_look_random(std::string_view part, bool after_prefix) {
  const std::size_t n = part.size();
  if (n < 6) return false;
  if (is_hex(part, 7)) return true;
  const bool lower = std::ranges::all_of(part, is_lower);
  if (lower && std::ranges::none_of(part, is_vowel)) return part.find("http") == std::string_view::npos;
  const bool upper = std::ranges::all_of(part, is_upper);
  if (n < 8 && !upper && !(after_prefix && camel_parts(part) >= 3)) return false;
  const std::size_t usual = usual_pairs(part);
  if (upper && n <= 12) return usual < 45;
  if (lower || upper) return n >= 10 && usual < (after_prefix ? 70U : 45U);
  const std::size_t parts = camel_parts(part);
  if (parts < 3) return n >= 10 && usual < 55;
  const bool short_parts = n < parts * 3 + (after_prefix ? parts / 2 + 1 : 0);
  return (short_parts && usual < (after_prefix ? 101U : 92U)) || (n >= 10 && n < parts * 4 && usual < 78) ||
         (n >= 16 && usual < 65);
}

bool is_camel_with_digits(std::string_view token) {
  if (!is_letter(token[0]) || std::ranges::count_if(token, is_digit) > 2) return false;
  std::size_t longest = 0;
  bool upper = false;
  for (std::size_t from = 0; from < token.size();) {
    std::size_t to = from;
    while (to < token.size() && !is_digit(token[to])) ++to;
    const std::string_view run = token.substr(from, to - from);
    if (!run.empty() && (run.size() < 2 || !is_lower(run.back()) || letters_look_random(run, false)))
      return false;
    upper = upper || std::ranges::any_of(run, is_upper);
    longest = std::max(longest, run.size());
    from = to + 1;
  }
  return upper && longest >= 4;
}

// AB-12, err_12; not A1B2.
bool digits_at_end(std::string_view token) {
  return all_digits(token.substr(std::min(token.find_first_of("0123456789"), token.size() - 1)));
}

bool is_technical(std::string_view lower) {
  if (lower.size() == 2 && lower[0] == 'v' && lower[1] >= '1') return true;
  return (roles_of(lower) & role::kTechnical) != 0 || lower.starts_with("iso-8859-") ||
         lower.starts_with("windows-125");
}

}  // namespace

HighChar high_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first >= 0xC2 && first <= 0xDF && continues(1)) {
    const unsigned c = ((first & 0x1FU) << 6U) | (byte(1) & 0x3FU);
    if (c == 0xA0 || c == 0x85) return {2, High::blank};
    if (c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0xBC && c <= 0xBE))
      return {2, High::digit};  // ² ³ ¹ ¼ ½ ¾
    if (c < 0xC0) return {2, c == 0xAA || c == 0xBA || c == 0xB5 ? High::letter : High::mark};
    const bool digit = (c >= 0x660 && c <= 0x669) || (c >= 0x6F0 && c <= 0x6F9) || (c >= 0x7C0 && c <= 0x7C9);
    return {2, digit ? High::digit : High::letter};
  }
  if ((first & 0xF0U) == 0xE0U && continues(1) && continues(2)) {
    const unsigned c = ((first & 0x0FU) << 12U) | ((byte(1) & 0x3FU) << 6U) | (byte(2) & 0x3FU);
    if (c < 0x800 || (c >= 0xD800 && c <= 0xDFFF)) return {1, High::mark};
    if (c == 0x2028 || c == 0x2029) return {3, High::newline};
    if ((c >= 0x2000 && c <= 0x200F) || c == 0x202F || c == 0x205F || c == 0x3000 || c == 0xFEFF ||
        c == 0x1680)
      return {3, High::blank};
    const bool numeral =
        (c >= 0x2070 && c <= 0x2089) || (c >= 0x2150 && c <= 0x2189) || (c >= 0x2460 && c <= 0x249B);
    if (numeral) return {3, High::digit};
    if ((c >= 0x2010 && c <= 0x2BFF) || (c >= 0x3001 && c <= 0x3020) || c == 0xFFFD) return {3, High::mark};
    if (c >= 0xFF10 && c <= 0xFF19) return {3, High::digit};
    if ((c >= 0xFF00 && c <= 0xFF20) || (c >= 0xFF3B && c <= 0xFF40) || (c >= 0xFF5B && c <= 0xFF65))
      return {3, High::mark};
    // The ten digits of the Indic scripts, of Thai, Lao, Tibetan, Myanmar, Khmer and Mongolian.
    const unsigned low = c & 0x7FU;
    const bool indic = c >= 0x900 && c <= 0xDFF && low >= 0x66 && low <= 0x6F;
    const bool other = (c >= 0xE50 && c <= 0xE59) || (c >= 0xED0 && c <= 0xED9) ||
                       (c >= 0xF20 && c <= 0xF29) || (c >= 0x1040 && c <= 0x1049) ||
                       (c >= 0x17E0 && c <= 0x17E9) || (c >= 0x1810 && c <= 0x1819);
    return {3, indic || other ? High::digit : High::letter};
  }
  if (first >= 0xF0 && first <= 0xF4 && continues(1) && continues(2) && continues(3)) {
    const unsigned c =
        ((first & 0x07U) << 18U) | ((byte(1) & 0x3FU) << 12U) | ((byte(2) & 0x3FU) << 6U) | (byte(3) & 0x3FU);
    if (c < 0x10000 || c > 0x10FFFF) return {1, High::mark};
    if (c >= 0x1D7CE && c <= 0x1D7FF) return {4, High::digit};
    return {4, c >= 0x1F000 && c <= 0x1FAFF ? High::mark : High::letter};
  }
  return {1, High::mark};
}

std::string folded(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lowered);
  return out;
}

bool all_digits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }
bool has_digit(std::string_view text) { return std::ranges::any_of(text, is_digit); }
bool is_hex(std::string_view text, std::size_t least) {
  return text.size() >= least && std::ranges::all_of(text, is_hex_digit) &&
         !(std::ranges::any_of(text, is_upper) && std::ranges::any_of(text, is_lower));
}

bool looks_random(std::string_view token) {
  if (token.size() < 5 || token.size() > 200) return token.size() > 200;
  std::size_t last = token.size();
  while (last > 0 && token[last - 1] != '_' && token[last - 1] != '-') --last;
  if (last-- == 0) return letters_look_random(token, false);
  const std::string_view tail = token.substr(last + 1);
  // The suffix of a pod: orders-worker-xkqzt.
  const bool pod = token[last] == '-' && tail.size() == 5 && std::ranges::all_of(tail, is_lower) &&
                   std::ranges::none_of(tail, is_vowel) && tail != "https";
  if (pod || letters_look_random(tail, true)) return true;
  // ord_abcdefghijkl, SKU-A
  const bool id = (roles_of(Lower(token.substr(0, token.find_first_of("_-"))).view()) & role::kIdPrefix) != 0;
  if (!id) return false;
  return std::ranges::none_of(token, is_lower) || (tail.size() >= 8 && usual_pairs(tail) < 85);
}

bool is_vendor_code(std::string_view token) {
  if (token.size() > 20) return false;
  const std::size_t letters = std::min(token.find_first_of("0123456789"), token.size());
  std::string_view digits = token.substr(letters), prefix = token.substr(0, letters);
  const bool dash = prefix.ends_with('-') || prefix.ends_with('_');
  if (dash) prefix.remove_suffix(1);
  if (!digits.empty() && is_upper(digits.back()) && !dash) digits.remove_suffix(1);
  if (!all_digits(digits) || digits.size() > 6 || !std::ranges::all_of(prefix, is_upper) || prefix.empty())
    return false;
  const bool known = (roles_of(Lower(prefix).view()) & role::kVendor) != 0;
  if (dash) return known && digits.size() >= 3;
  return (known && digits.size() >= 3) || ((prefix == "E" || prefix == "P") && digits.size() >= 4);
}

bool is_code_of_vendor(std::string_view token) {
  return !token.empty() && token.size() <= 20 && is_letter(token[0]) && !is_hex(token, 7) &&
         std::ranges::count_if(token, is_digit) <= 5 && digits_at_end(token);
}

bool is_numbered(std::string_view token) {
  const std::string_view prefix = token.substr(0, token.find_first_of("-_0123456789"));
  return prefix.size() <= 4 && std::ranges::none_of(token, is_lower) &&
         (roles_of(Lower(prefix).view()) & role::kIdPrefix) == 0;
}

bool is_error_constant(std::string_view token) {
  if (token.size() < 5 ||
      !std::ranges::all_of(token, [](char c) { return is_upper(c) || c == '_' || is_digit(c); }))
    return false;
  if (token.starts_with("ERR_") || token.starts_with("UND_ERR")) return true;
  return token[0] == 'E' && token != "ERROR" && token != "ERRORS" && token != "EXCEPTION" &&
         token.size() <= 16 && !has_digit(token);
}

bool digits_belong(std::string_view token) {
  if (token.size() > kLongestToken) return false;
  const Lower lower(token);
  if (is_technical(lower.view())) return true;
  if (token.find_first_of("_-") == std::string_view::npos) return is_camel_with_digits(token);
  std::size_t letters = 0;
  return all_parts(lower.view(), "_-",
                   [&](std::string_view part) {
                     if (has_digit(part)) return is_technical(part);
                     letters += part.size();
                     return true;
                   }) &&
         letters >= 2;
}

bool is_failure(std::string_view lower) {
  return lower.ends_with("error") || lower.ends_with("exception") || lower.ends_with("failure") ||
         lower.ends_with("timeout");
}

bool is_name(std::string_view text, bool plain) {
  if (text.empty() || text.size() > 120) return false;
  const char first = text[0];
  if (!is_letter(first) && (plain || std::string_view("_$:@/[").find(first) == std::string_view::npos))
    return false;
  if (first == '/' && text.find('/', 1) != std::string_view::npos) return false;
  for (const char c : text) {
    if (plain ? !(is_letter(c) || c == '_' || c == '.' || c == '-')
              : !is_word(c) && std::string_view(".$[]:\\/#@?!<>*,()").find(c) == std::string_view::npos)
      return false;
  }
  if (text.find("://") != std::string_view::npos) return false;
  // An id is no name.
  return all_parts(text, ".$[]:\\/#@?!<>*,()", [](std::string_view part) {
    if (part.empty() || all_digits(part)) return true;
    if (!has_digit(part)) return !looks_random(part);
    if (digits_belong(part)) return true;
    if (part.size() >= 20 && part.find('-') != std::string_view::npos && is_hex_digit(part[0])) return false;
    std::size_t changes = 0;
    for (std::size_t i = 1; i < part.size(); ++i)
      changes += is_digit(part[i]) != is_digit(part[i - 1]) ? 1 : 0;
    const bool separated = part.find('_') != std::string_view::npos;
    return is_letter(part[0]) && changes <= (separated ? 4U : 2U) && !is_hex(part, 6) &&
           part.find('-') == std::string_view::npos;
  });
}

bool is_blob(std::string_view text) {
  if (text.size() < 12) return false;
  std::size_t digits = 0, uppers = 0, lowers = 0, changes = 0;
  bool sign = false, slash = false;
  int before = 0;
  for (const char c : text) {
    const int kind = is_digit(c) ? 1 : is_upper(c) ? 2 : is_lower(c) ? 3 : 0;
    digits += kind == 1 ? 1 : 0;
    uppers += kind == 2 ? 1 : 0;
    lowers += kind == 3 ? 1 : 0;
    changes += kind != before ? 1 : 0;
    sign = sign || c == '+' || c == '=';
    slash = slash || c == '/';
    before = kind;
  }
  const bool varied = digits >= 1 && uppers >= 2 && lowers >= 2;
  return varied && changes * 3 > text.size() && (sign || text.size() >= (slash && digits > 1 ? 16U : 20U));
}

}  // namespace rung::causes
