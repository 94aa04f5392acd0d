// Addresses: hosts, e-mail, what hashCode() prints; and what words before it say is a value.
#include <algorithm>

#include "src/core/causes/folded.h"
#include "src/core/causes/normaliser.h"
#include "src/core/causes/token.h"

namespace rung::causes {

// fe80::1, 2001:db8::1, 00:1b:44:11:3a:b7
bool Normaliser::take_hex_groups() {
  std::size_t end = at_, colons = 0;
  bool twice = false, digit = false;
  for (std::size_t group = 0; end < text_.size() && end - at_ < 48; ++end) {
    const char c = text_[end];
    if (c == ':') {
      twice = twice || at(end + 1) == ':';
      ++colons;
      group = 0;
    } else if (is_hex_digit(c)) {
      if (++group > 4) return false;
      digit = digit || is_digit(c);
    } else {
      break;
    }
  }
  if (!((twice && digit) || colons >= 5) || is_word(at(end))) return false;
  at_ = at(end) == '%' ? end_of_run(end, "\"'<>`|)]},;") : end;
  star();
  return true;
}

// E-mail addresses, hosts, versions, files, what hashCode() prints.
bool Normaliser::take_address(std::size_t end) {
  if (take_mail(end)) return true;
  const std::string_view atom = text_.substr(at_, end - at_);
  const std::size_t dot = atom.find('.');
  const bool dotted = dot != std::string_view::npos && dot > 0;
  const bool version =
      dotted && is_digit(atom[dot - 1]) &&
      (is_digit(atom[0]) || ((atom[0] == 'v' || atom[0] == 'V') && all_digits(atom.substr(1, dot - 1))));
  const bool mail_status = version && code_before_ && dot == 1 && atom.size() >= 5 && atom.size() <= 7 &&
                           std::ranges::count(atom, '.') == 2;
  if (mail_status) {
    code(atom);  // 550 5.1.1
    at_ = end;
    return true;
  }
  const bool file = dotted && at(end) != '(' && (Folded(extension_of(atom)).roles() & role::kData) != 0;
  const bool noon =
      last_is_star_ && atom.size() == 3 && (begins_with(atom, "p.m") || begins_with(atom, "a.m"));
  if (!version && !file && !noon && !is_host(atom, end)) {
    // MongoDB's: which database it is varies.
    if (past_word(0) == "collection" && dotted) at_ += dot + 1;
    return false;
  }
  at_ = version ? end_of_ratio(end) : end;
  if (is_port(end, 1)) {
    while (is_digit(at(end + 1))) ++end;
    at_ = at(end + 1) == '/' ? end_of_run(end + 1, kPathEnds) : end + 1;
  }
  star();
  return true;
}

// ann@example.com, o'brien@example.com; com.acme.Order@6d06d69c, of which the name stays.
bool Normaliser::take_mail(std::size_t end) {
  if (at(end) == '\'' && is_letter(at(end + 1))) {
    const std::size_t more = end_of_atom(end + 1);
    if (text_.substr(end, more - end).find('@') == std::string_view::npos) return false;
    end = more;
  }
  const std::string_view atom = text_.substr(at_, end - at_);
  const std::size_t sign = atom.find('@');
  if (sign == std::string_view::npos || sign == 0) return false;
  if (is_hex(atom.substr(sign + 1), 4)) {
    segments(at_ + sign);
    mark(kOther);
  }
  at_ = end;
  star();
  return true;
}

bool Normaliser::is_port(std::size_t colon, std::size_t least) const {
  if (at(colon) != ':') return false;
  std::size_t to = colon + 1;
  while (is_digit(at(to))) ++to;
  return to - colon > least && to - colon <= 6 && !is_word(at(to)) && at(to) != ':';
}

bool Normaliser::is_host(std::string_view atom, std::size_t end) const {
  if (std::ranges::any_of(atom, [](char c) { return is_upper(c) || c == '$' || c == ':'; }) ||
      is_digit(atom[0]))
    return false;
  const bool looks = std::ranges::any_of(atom, [](char c) { return c == '.' || c == '-' || is_digit(c); });
  // Most are words.
  if (!looks && at(end) != ':' && !past_is(0, role::kHost | role::kConnect) && atom != "localhost")
    return false;
  const Folded whole(atom);
  const Roles roles = whole.roles();
  if (past_is(0, role::kHost) && (gap_ & (kStop | kComma)) == 0 && (roles & role::kNoHost) == 0) return true;
  if (whole.view() == "localhost") return true;
  const std::size_t dot = atom.find_last_of('.');
  const Roles last = dot == std::string_view::npos ? 0 : Folded(atom.substr(dot + 1)).roles();
  const bool connect = past_is(0, role::kConnect) && (gap_ & kStop) == 0;
  if ((last & role::kSource) == 0 && (roles & (role::kCode | role::kError | role::kSays)) == 0) {
    if (is_port(end, 2) && (looks || connect || (roles & role::kService) != 0)) return true;
    if (is_port(end, 1) && (connect || before() == '(')) return true;
    if (connect && begins_with(text_.substr(end), " port ") && is_digit(at(end + 6))) return true;
  }
  if (at(end) == '(') return false;
  if (past_is(0, role::kMaybeHost) && looks &&
      (has_digit(atom) || (last & role::kTopLevel) != 0 || std::ranges::any_of(atom, is_high)))
    return true;
  if (dot == std::string_view::npos || dot == 0) return false;
  const bool machine = has_digit(atom) && atom.find('-') != std::string_view::npos;
  return (last & role::kTopLevel) != 0 || (machine && (last & role::kSource) == 0);
}

std::size_t Normaliser::end_of_digits(std::size_t from) const {
  while (is_digit(at(from))) ++from;
  return from;
}

// Of 3 in "3 of 10", "3/10", "3 out of 10".
std::size_t Normaliser::end_of_ratio(std::size_t end) const {
  for (const std::string_view of : {" of ", "/", " out of "}) {
    if (!text_.substr(end).starts_with(of)) continue;
    const std::size_t to = end_of_digits(end + of.size());
    if (to > end + of.size() && !is_word(at(to)) && at(to) != '/') return to;
  }
  return end;
}

// attempt 3, attempt=3, (try 3/10), retry #3 of 10: which it was does not count, nor whether it is said.
bool Normaliser::take_attempt(std::size_t end) {
  if (end - at_ > 7 || std::string_view("aArRtT").find(text_[at_]) == std::string_view::npos) return false;
  const Folded word(text_.substr(at_, end - at_));
  if (word.view() != "attempt" && word.view() != "retry" && word.view() != "try") return false;
  std::size_t begin = end;
  while (begin < end + 3 && std::string_view(" =:#").find(at(begin)) != std::string_view::npos) ++begin;
  const std::size_t to = end_of_digits(begin);
  if (begin == end || to == begin || is_word(at(to))) return false;
  at_ = end_of_ratio(to);
  mark(kOther);
  return true;
}

// constraint (SHOP.FK_LINES_2) violated: without where it is installed, and without digits.
bool Normaliser::take_constraint(std::size_t end) {
  if (past_word(0) != "constraint" || (gap_ & ~(kBlank | kOpen)) != 0) return false;
  std::string_view atom = text_.substr(at_, end - at_);
  if (!is_name(atom, false) || Folded(atom).roles() != 0) return false;
  if ((gap_ & kOpen) != 0) atom.remove_prefix(atom.find_last_of('.') + 1);
  at_ = end;
  name(atom);
  return true;
}

// What the words before it say varies: the name of a thread, an id, a constant of an enum.
bool Normaliser::take_announced(std::size_t end) {
  const std::string_view atom = text_.substr(at_, end - at_);
  const std::size_t dot = atom.find_last_of('.');
  if (dot != std::string_view::npos && past_word(0) == "constant" && past_word(1) == "enum") {
    segments(at_ + dot);
  } else if (past_is(0, role::kThread) && (gap_ & ~kBlank) == 0 &&
             atom.find_first_of(".-_0123456789") != std::string_view::npos) {
    while (at(end) == '#' || is_word(at(end))) ++end;
  } else if (past_word(0) == "user" && past_word(1) == "by" && gap_ == kBlank && is_upper(atom[0])) {
    // locked by user EDI_BATCH
  } else if (!past_is(0, role::kIdentifier) || (gap_ & kColon) == 0 ||
             (gap_ & (kComma | kStop | kStar)) != 0) {
    return false;
  }
  at_ = end;
  while (at(at_) == '=') ++at_;  // base64
  star();
  return true;
}

}  // namespace rung::causes
