// Words, names and paths.
#include <algorithm>
#include <array>

#include "src/core/causes/folded.h"
#include "src/core/causes/normaliser.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kLongestBlob = 512;  // as much of it is looked at

}  // namespace
bool Normaliser::take_atom() {
  const char next = at(at_ + 1);
  if ((next == '\'' || next == '"') &&
      std::string_view("burfxNE").find(text_[at_]) != std::string_view::npos && at_boundary()) {
    ++at_;  // b'...'
    return true;
  }
  if (text_[at_] == 'L' && before() == '\n' && rest().starts_with("LINE ") && number_follows(at_ + 4)) {
    at_ = std::min(text_.find('\n', at_), text_.size());  // PostgreSQL's: an excerpt of the query
    return star(), true;
  }
  if (begins_with(rest(), "n/a") && at_boundary() && !is_word(at(at_ + 3))) {
    at_ += 3;
    return star(), true;
  }
  if (take_person_or_company()) return true;
  if (take_url() || take_hex_groups() || take_path()) return true;
  const std::size_t end = end_of_atom(at_);
  if (end == at_) return ++at_, true;
  if (take_attempt(end) || take_constraint(end) || take_announced(end) || take_blob()) return true;
  if (take_relative_path(end) || take_address(end)) return true;
  segments(end);
  return true;
}

// Of word bytes with single dots, @ and the like between them.
std::size_t Normaliser::end_of_atom(std::size_t from) const {
  std::size_t end = from;
  while (end < text_.size()) {
    const char c = text_[end], next = at(end + 1);
    if (is_high(c)) {
      const HighChar high = high_at(text_, end);
      if (high.kind != High::letter && high.kind != High::digit) break;
      end += high.length;
      continue;
    }
    const bool joint = c == '.' || c == '@' || c == '$' || c == '+';
    if (is_word(c)) {
      ++end;
    } else if ((joint && (is_word(next) || is_high(next)) && next != '-') || (c == '\\' && is_upper(next))) {
      ++end;
    } else if (c == ':' && next == ':' && (is_letter(at(end + 2)) || at(end + 2) == '_')) {
      end += 2;
    } else {
      break;
    }
  }
  return end;
}

bool Normaliser::take_url() {
  std::size_t end = at_;
  while (end - at_ < 24 && (is_word(at(end)) || at(end) == '+' || (at(end) == ':' && is_letter(at(end + 1)))))
    ++end;
  const bool arn = end - at_ >= 4 && (begins_with(rest(), "arn:aws") || begins_with(rest(), "urn:"));
  if (!arn && !text_.substr(end).starts_with("://")) return false;
  at_ = end_of_run(end, "\"'<>`|)]},;\\");
  while (at_ > end && (text_[at_ - 1] == '.' || text_[at_ - 1] == ':')) --at_;
  star();
  return true;
}

bool Normaliser::take_path() {
  if (!at_boundary()) return false;
  const char c = text_[at_], next = at(at_ + 1), third = at(at_ + 2);
  const bool drive = is_letter(c) && next == ':' && (third == '\\' || (third == '/' && at(at_ + 3) != '/'));
  const bool share = c == '\\' && next == '\\' && is_word(third);
  const bool begins =
      is_word(next) || next == '.' || next == '{' || next == ':' || next == '<' || next == '_';
  const bool absolute = c == '/' && (begins || next == '/' || next == '\0' || next == ')' || is_blank(next));
  const bool relative =
      (c == '~' && next == '/') || (c == '.' && (next == '/' || (next == '.' && third == '/')));
  if (!drive && !share && !absolute && !relative) return false;
  std::size_t end = end_of_run(at_ + (drive ? 3 : 1), kPathEnds);
  // C:\Program Files\Acme
  while ((drive || share) && end < text_.size() && text_[end] == ' ') {
    const std::size_t to = end_of_run(end + 1, kPathEnds);
    if (text_.substr(end, to - end).find('\\') == std::string_view::npos) break;
    end = to;
  }
  if (absolute && extension_of(text_.substr(at_, end - at_)).empty()) end = end_with_blanks(end);
  while (end > at_ + 1 && (text_[end - 1] == '.' || text_[end - 1] == ':')) --end;
  at_ = end;
  star();
  return true;
}

// /in/Kunden (2).csv: to the extension, if what stands between does not look like a sentence.
std::size_t Normaliser::end_with_blanks(std::size_t end) const {
  for (std::size_t i = end; i < text_.size() && i < end + 60; ++i) {
    const char c = text_[i], next = at(i + 1);
    if (c == ' ' && !(is_upper(next) || is_high(next) || is_digit(next) || next == '(')) return end;
    if (std::string_view("\"'`:,;=\n/").find(c) != std::string_view::npos) return end;
    if (c != '.') continue;
    std::size_t to = i + 1;
    while (is_letter(at(to)) || is_digit(at(to))) ++to;
    return (Folded(text_.substr(i + 1, to - i - 1)).roles() & role::kData) != 0 ? to : end;
  }
  return end;
}

// orders/2024/4711.csv, api.example.com/orders; not application/json, not TCP/IP.
bool Normaliser::take_relative_path(std::size_t end) {
  if (text_[std::min(end, text_.size() - 1)] != '/' || end >= text_.size() ||
      !(is_word(at(end + 1)) || at(end + 1) == '{'))
    return false;
  const std::string_view first = text_.substr(at_, end - at_);
  const Folded folded(first);
  if ((folded.roles() & role::kMedia) != 0 || folded.view() == "http" || folded.view() == "https")
    return false;
  std::size_t to = end_of_run(end, kPathEnds);
  while (to > end && (text_[to - 1] == '.' || text_[to - 1] == ':')) --to;
  const std::string_view path = text_.substr(at_, to - at_);
  const Roles extension = Folded(extension_of(path)).roles();
  const bool file = (extension & (role::kData | role::kSource)) != 0;
  const bool host = first.find('.') != std::string_view::npos && is_host(first, end);
  if (std::ranges::count(path, '/') < 2 && !file && !host) return false;
  at_ = to;
  star();
  return true;
}

bool Normaliser::take_blob() {
  const bool token = rest().starts_with("eyJ");
  const auto in_blob = [&](char c) {
    return is_letter(c) || is_digit(c) || c == '+' || c == '/' || c == '-' || c == '_' || (token && c == '.');
  };
  std::size_t end = at_;
  while (end < text_.size() && end - at_ < kLongestBlob && in_blob(text_[end])) ++end;
  const std::size_t letters = end;
  while (at(end) == '=' && end - letters < 3) ++end;
  if (is_word(at(end)) || end - letters > 2) end = letters;  // key=value
  const bool quoted =
      end == letters + 1 && std::string_view("'\"{[(").find(at(end)) != std::string_view::npos;
  const bool padded = end > letters && !quoted && (end - at_) % 4 == 0 && end - at_ >= 8;
  if (!padded && !(token && end - at_ >= 12) && !is_blob(text_.substr(at_, end - at_))) return false;
  while (end < text_.size() && (in_blob(text_[end]) || text_[end] == '=')) ++end;
  at_ = end;
  star();
  return true;
}

// Segment by segment: com.acme.Order2.
void Normaliser::segments(std::size_t end) {
  char joint = '\0';
  while (at_ < end) {
    std::size_t to = at_;
    while (to < end && (is_word(text_[to]) || is_high(text_[to]))) ++to;
    if (to > at_) {
      std::string_view text = text_.substr(at_, to - at_);
      while (text.ends_with('-')) text.remove_suffix(1);
      if (!text.empty()) segment(text, at_ + text.size(), joint);
    }
    if (to < end) {
      joint = text_[to];
      to += joint == ':' ? 2 : 1;
    }
    at_ = std::max(at_, to);
  }
}

void Normaliser::segment(std::string_view text, std::size_t end, char joint) {
  if (std::ranges::any_of(text, is_high)) return mixed(text);
  if (!has_digit(text)) return letters(text, end, joint);
  // Active Directory's: error, data 52e
  if (text.size() == 3 && past_word(0) == "data" && past_is(1, role::kError) && is_hex(text, 3))
    return code(text);
  if (all_digits(text)) {
    if (is_code(text, end)) return code(text);
    star();
    at_ = end_of_ratio(end);
    return;
  }
  const bool near = (gap_ & (kStop | kComma | kOther | kStar)) == 0;
  if (near && text.size() == 5 && (past_word(0) == "sqlstate" || past_word(1) == "sqlstate"))
    return code(text);
  if (near && past_is(0, role::kCode | role::kError) && text.size() >= 8 && text.size() <= 10 &&
      begins_with(text, "0x"))
    return code(text);
  if (near && announces_code(text) && is_code_of_vendor(text)) return code(text);
  if (digits_belong(text)) return word(text, Folded(text).roles(), joint);
  if (is_vendor_code(text) || is_error_constant(text)) return code(text);
  // HTTP404, error-404
  const std::size_t digits = text.find_first_of("0123456789");
  std::string_view prefix = text.substr(0, digits);
  while (prefix.ends_with('-') || prefix.ends_with('_')) prefix.remove_suffix(1);
  const Folded folded(prefix);
  if ((folded.roles() & (role::kStatus | role::kError | role::kCode)) != 0 &&
      all_digits(text.substr(digits)) && text.size() - digits <= 5) {
    word(prefix, folded.roles());
    return code(text.substr(digits));
  }
  star();
}

void Normaliser::letters(std::string_view text, std::size_t end, char joint) {
  const Folded folded(text);
  const Roles roles = at(end) == '=' || at(end) == ':' ? roles_of_key(text) : folded.roles();
  const bool joined = joint != '\0';
  if (belongs_to_number(text, roles, end, joined) || varies(text, roles, end)) return star();
  std::string_view stem = text;
  if (folded.view() == "errors") stem.remove_suffix(1);  // 2 validation errors
  // "1 order", "3 orders"
  if (last_is_star_ && (since_star_ & ~(kBlank | kOther)) == 0 && text.size() > 3 && text.ends_with('s') &&
      folded.view() != "does" && !joined &&
      std::string_view("suia").find(text[text.size() - 2]) == std::string_view::npos)
    stem.remove_suffix(1);
  word(stem, roles, joint);
  const bool data = in_object() && (roles & (role::kState | role::kSays)) != role::kSays;
  says_ = (roles & role::kSays) != 0 && !data &&
          (at(end) == ':' || at(end) == '=' || (at(end) == ' ' && at(end + 1) == '='));
  json_value_ = false;
  if (is_error_constant(text)) keep_code(past_word(0));
  skip_version(end);
  if (data && at(end) == ':') take_bare_value(end + 1);
}

// Units, currencies, parts of dates.
bool Normaliser::belongs_to_number(std::string_view text, Roles roles, std::size_t end, bool joined) const {
  const bool close = last_is_star_ && (since_star_ & (kColon | kEqual | kComma | kStop)) == 0;
  if (close && (roles & (role::kUnit | role::kCurrency)) != 0 && !joined) return true;
  if (at(end) == '$' && text.size() <= 3 && number_follows(end + 1)) return true;  // US$ 12
  // EUR 12, and the codes alone: HUF/EUR
  if ((roles & role::kCurrency) != 0 && std::ranges::all_of(text, is_upper)) return true;
  const bool may = text.size() == 3 && begins_with(text, "may");
  return (roles & role::kCalendar) != 0 &&
         (date_follows(end) || (last_is_star_ && (since_star_ & kColon) == 0 && !may));
}

bool Normaliser::varies(std::string_view text, Roles roles, std::size_t end) const {
  if ((roles & (role::kLiteral | role::kDataType)) != 0 && (gap_ & (kComma | kStop)) == 0 &&
      (past_word(0) == "got" || past_word(0) == "received" || past_word(0) == "actual"))
    return true;
  if ((roles & role::kLiteral) != 0) {
    if ((gap_ & (kColon | kEqual)) != 0 && depth_ > 0 && !says_) return true;
  }
  if (past_is(0, role::kCapitalId) && (gap_ & ~(kBlank | kColon)) == 0 && text.size() >= 2 &&
      (roles & role::kIdentifier) == 0 && std::ranges::all_of(text, is_upper))
    return true;
  return is_hex_pair(text, end) || (looks_random(text) && !is_error_constant(text));
}

// nginx/1.18.0 (Ubuntu), HTTP/2: which version does not count.
void Normaliser::skip_version(std::size_t end) {
  if (at(end) != '/' || !is_digit(at(end + 1))) return;
  std::size_t to = end + 1, dots = 0;
  for (; is_digit(at(to)) || (at(to) == '.' && is_digit(at(to + 1))); ++to) dots += at(to) == '.' ? 1 : 0;
  const bool http = past_word(0) == "http" && to == end + 2;
  if ((dots == 0 && !http) || is_word(at(to))) return;
  at_ = to;
  if (dots > 1 && at(to) == ' ' && at(to + 1) == '(' && is_upper(at(to + 2)))
    at_ = std::min(text_.find(')', to), text_.size() - 1) + 1;
}

// FD 29 EF 14: a dump.
bool Normaliser::is_hex_pair(std::string_view text, std::size_t end) const {
  if (text.size() != 2 || !is_upper(text[0]) || !is_upper(text[1]) || !is_hex_digit(text[0]) ||
      !is_hex_digit(text[1]))
    return false;
  const bool more = at(end) == ' ' && is_hex_digit(at(end + 1)) && is_hex_digit(at(end + 2)) &&
                    !is_word(at(end + 3)) && has_digit(text_.substr(end + 1, 2));
  return more || (last_is_star_ && (since_star_ & ~kBlank) == 0);
}

bool Normaliser::number_follows(std::size_t end) const {
  while (at(end) == ' ' || at(end) == '-') ++end;
  return is_digit(at(end));
}

bool Normaliser::date_follows(std::size_t end) const {
  std::size_t i = end;
  while (at(i) == ' ' || at(i) == ',' || at(i) == '.' || at(i) == '-' || at(i) == '/') ++i;
  if (is_digit(at(i))) return true;
  std::size_t to = i;  // Mon Jan 2
  while (is_letter(at(to))) ++to;
  return i > end && to - i >= 3 && to - i <= 9 &&
         (Folded(text_.substr(i, to - i)).roles() & role::kCalendar) != 0 && number_follows(to);
}

// Words without blanks between them, as in Chinese: only their numbers vary.
void Normaliser::mixed(std::string_view text) {
  for (std::size_t from = 0; from < text.size();) {
    std::size_t to = from;
    bool digits = false;
    while (to < text.size()) {
      const HighChar high = is_high(text[to]) ? high_at(text, to)
                                              : HighChar{1, is_digit(text[to]) ? High::digit : High::letter};
      if (to == from) digits = high.kind == High::digit;
      if ((high.kind == High::digit) != digits) break;
      to += high.length;
    }
    const std::string_view run = text.substr(from, to - from);
    const bool unit = last_is_star_ && (since_star_ & ~kBlank) == 0 &&
                      (Folded(run).roles() & (role::kUnit | role::kCurrency)) != 0;
    if (digits || unit) {
      star();
    } else {
      word(run, Folded(run).roles() & role::kParty);
    }
    from = to;
  }
}

}  // namespace rung::causes
