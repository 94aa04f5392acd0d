// Names of people and companies that stand in no quotes.
#include <algorithm>
#include <array>

#include "src/core/causes/folded.h"
#include "src/core/causes/normaliser.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kMostNameWords = 8;
constexpr std::size_t kLongestPersonOrCompany = 100;
constexpr std::string_view kNameEnds = ":;,()\"'[]{}<>=|";

// "GmbH": as companies write it.
constexpr std::array<std::string_view, 44> kLegalForms = {
    "GmbH",    "AG",   "KG",  "KGaA",  "UG",   "OHG",   "GbR", "e.V",   "eG",  "SE",  "Ltd",
    "Limited", "Inc",  "LLC", "LLP",   "Corp", "Co",    "PLC", "plc",   "SA",  "S.A", "SAS",
    "SARL",    "Sarl", "SpA", "S.p.A", "Srl",  "S.r.l", "S.L", "BV",    "B.V", "NV",  "N.V",
    "AS",      "ASA",  "AB",  "ApS",   "A/S",  "Oy",    "Oyj", "s.r.o", "a.s", "Kft", "d.o.o"};

bool is_legal_form(std::string_view word) {
  if (word.size() < 2 || word.size() > 8 ||
      (is_lower(word[0]) && word.find('.') == std::string_view::npos && word != "eG" && word != "plc"))
    return false;
  while (word.ends_with('.')) word.remove_suffix(1);
  return std::ranges::any_of(kLegalForms,
                             [&](std::string_view form) { return form[0] == word[0] && form == word; });
}

bool is_joint(std::string_view word) {
  return word == "&" || word == "+" || word == "e" || word == "et" || word == "and" || word == "und" ||
         word == "y" || word == "de" || word == "di" || word == "del" || word == "la" || word == "van" ||
         word == "von" || word == "der" || word == "den";
}

}  // namespace

// Whether a word with a capital begins here: Ann, Ö-Werk.
bool Normaliser::is_capital(std::size_t i) const {
  const char c = at(i);
  if (!is_high(c)) return is_upper(c);
  const unsigned first = static_cast<unsigned char>(c), second = static_cast<unsigned char>(at(i + 1));
  if (first == 0xC3) return second >= 0x80 && second <= 0x9E;                   // À to Þ
  if (first == 0xC4 || first == 0xC5) return second % 2 == 0 || first == 0xC5;  // Latin Extended-A, in pairs
  return (first == 0xCE && second >= 0x86 && second <= 0xA9) ||
         (first == 0xD0 && second >= 0x80 && second <= 0xAF);
}

// Ann Lee, Mei-Lin O'Hara; not ANN, Not2.
bool Normaliser::is_titled(std::size_t from, std::size_t to) const {
  if (to < from + 2 || !is_capital(from)) return false;
  const std::string_view word = text_.substr(from, to - from);
  return std::ranges::none_of(word, [](char c) { return is_digit(c) || c == '_' || c == '@'; }) &&
         std::ranges::any_of(word, is_lower) && (is_high(word[0]) || !is_upper(word[1]) || word[1] == '\'');
}

bool Normaliser::take_person_or_company() {
  if (!is_capital(at_) || !at_boundary()) return false;
  return take_company() || take_person();
}

// Whether another word of a company's name follows; most words with a capital stand alone.
bool Normaliser::goes_on(std::size_t end) const {
  if (at(end) != ' ') return false;
  if (!is_lower(at(end + 1))) return true;
  const std::string_view next = text_.substr(end + 1, end_of_run(end + 1, kNameEnds) - end - 1);
  return is_joint(next) || is_legal_form(next);
}

// Blue Kettle Ltd., Müller & Söhne KG, SARL Petit Pois: to the last legal form.
bool Normaliser::take_company() {
  std::size_t end = 0, words = 0;
  bool leads = false;
  for (std::size_t from = at_; words < kMostNameWords && from < at_ + kLongestPersonOrCompany; ++words) {
    const std::size_t to = end_of_run(from, kNameEnds);
    const std::string_view word = text_.substr(from, to - from);
    if (words == 0 && !goes_on(to)) return false;
    const bool form = is_legal_form(word);
    if (words == 0 && (Folded(word).roles() & role::kParty) != 0) return false;
    if (form && words == 0) leads = true;
    if ((form && words > 0) || (leads && words > 0 && is_titled(from, to))) end = to;
    if (!form && !is_joint(word) && !is_capital(from)) break;
    if (at(to) != ' ') break;
    from = to + 1;
  }
  if (end == 0) return false;
  at_ = end;
  star();
  return true;
}

// customer Ann Lee is blocked; not "Customer Not Found", not "user Unknown".
bool Normaliser::take_person() {
  if (gap_ != kBlank || !past_is(0, role::kParty) || at_ <= past_[0].length) return false;
  const bool german = past_word(0) == "kunde" || past_word(0) == "kundin" || past_word(0) == "lieferant";
  if (!german && !is_lower(text_[at_ - 1 - past_[0].length])) return false;
  std::size_t end = at_, words = 0;
  for (std::size_t from = at_; words < kMostNameWords && from < at_ + kLongestPersonOrCompany; ++words) {
    std::size_t to = end_of_run(from, kNameEnds);
    if (at(to) == '\'' && is_letter(at(to + 1))) to = end_of_run(to + 1, kNameEnds);  // O'Hara
    if (!is_titled(from, to) || begins_with_reason(text_.substr(from)) ||
        begins_with(text_.substr(from), "not "))
      break;
    end = to;
    if (at(to) != ' ') break;
    from = to + 1;
  }
  if (end == at_ || (Folded(text_.substr(at_, end - at_)).roles() & role::kDefect) != 0) return false;
  at_ = end;
  star();
  return true;
}

}  // namespace rung::causes
