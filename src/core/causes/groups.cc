// What stands in brackets and varies as a whole.
#include <algorithm>
#include <string>
#include <utility>

#include "src/core/causes/folded.h"
#include "src/core/causes/normaliser.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kLongestGroup = 500;
constexpr std::size_t kLongestLabel = 24;

Roles roles_of_label(std::string_view label) {
  return label.size() > kLongestLabel ? role::kSays : Folded(label).roles();
}

// "total * active *": labels and values in turns, as of (total=10, active=10), and no label says what
// happened.
bool are_pairs(std::string_view words) {
  while (!words.empty()) {
    const std::size_t blank = words.find(' ');
    if (blank == std::string_view::npos || words[0] == '*' || words.substr(blank, 2) != " *") return false;
    if ((roles_of_label(words.substr(0, blank)) & role::kKept) != 0) return false;
    words.remove_prefix(std::min(blank + 3, words.size()));
  }
  return true;
}

// cid: deadbeef, and all others with a value of one word.
bool is_pair(std::string_view item) {
  const std::size_t label = item.find_first_of("=:");
  if (label == std::string_view::npos || label == 0 || label + 1 >= item.size()) return false;
  const std::string_view name = item.substr(0, label), value = item.substr(label + 1);
  const auto in_name = [](char c) { return is_letter(c) || c == '_' || c == '-' || c == '.'; };
  const Roles roles = roles_of_label(name);
  if (!std::ranges::all_of(name, in_name) || (roles & role::kKept) != 0) return false;
  return item[label] == '=' ||
         ((roles & (role::kLabel | role::kIdentifier)) != 0 && value.find(' ', 1) == std::string_view::npos);
}

bool are_plain_pairs(std::string_view group) {
  if (group.empty()) return false;
  for (std::size_t from = 0; from < group.size();) {
    const std::size_t to = std::min(group.find_first_of(",;", from), group.size());
    const std::size_t begin = std::min(group.find_first_not_of(' ', from), to);
    if (!is_pair(group.substr(begin, to - begin))) return false;
    from = to + 1;
  }
  return true;
}

// Of TimeoutError{code: 7}, Response{code=404}.
bool names_result(std::string_view name) {
  for (const std::string_view word :
       {"Error", "Exception", "Failure", "Response", "Status", "Result", "Violation", "Fault", "Reason"})
    if (name.find(word) != std::string_view::npos) return true;
  return false;
}

// host db, queue id A2A0: one value after its label.
bool is_labelled(std::string_view group) {
  const std::size_t blank = group.find_last_of(' ');
  if (blank == std::string_view::npos || blank + 1 == group.size() ||
      group.find_first_of("=,;\"'`") != std::string_view::npos)
    return false;
  std::string_view label = group.substr(0, blank);
  if (label.ends_with(':')) label.remove_suffix(1);
  const std::size_t last = label.find_last_of(' ') + 1;
  if (last == 0) return (roles_of_label(label) & role::kLabel) != 0;
  return std::ranges::all_of(label, [](char c) { return is_letter(c) || c == ' ' || c == '-'; }) &&
         (roles_of_label(label.substr(last)) & role::kIdentifier) != 0 && label.find(' ') == last - 1;
}

// Whether the first item is one of key=value or of key: value; not host:port.
bool has_label(std::string_view group) {
  const std::size_t sign = group.find_first_of("=: ,;");
  if (sign == std::string_view::npos || sign == 0 || !is_letter(group[sign - 1])) return false;
  return group[sign] == '=' || group.substr(sign).starts_with(": ");
}

}  // namespace

bool Normaliser::take_group() { return take_zone() || take_source() || take_list() || take_pairs(); }

// 2025-03-04T01:12:15+01:00[Europe/Berlin]
bool Normaliser::take_zone() {
  if (text_[at_] != '[' || !last_is_star_ || !is_digit(before())) return false;
  const std::size_t end = text_.find(']', at_);
  if (end == std::string_view::npos || end - at_ > kLongestLabel * 2) return false;
  const std::string_view zone = text_.substr(at_ + 1, end - at_ - 1);
  if (zone.find('/') == std::string_view::npos || has_digit(zone)) return false;
  at_ = end + 1;
  star();
  return true;
}

// Jackson's [Source: (String)"{...}"; line: 1, column: 7], which quotes what it read.
bool Normaliser::take_source() {
  if (!rest().starts_with("[Source: ")) return false;
  const std::size_t line = std::min(text_.find('\n', at_), text_.size());
  const std::size_t column = std::min(text_.find("column: ", at_), line);
  at_ = std::min(text_.find(']', column), line);
  star();
  return true;
}

// (65825, null, Berlin): the values of a row.
bool Normaliser::take_list() {
  const std::string_view last = past_word(0);  // "values", after a * too, where a plural is none
  const bool row = last == "contains" || last == "values" || last == "value" || past_word(1) == "value";
  if (text_[at_] != '(' || (!row && !is_digit(at(at_ + 1)))) return false;
  std::size_t commas = 0, end = at_ + 1;
  for (const std::size_t most = at_ + kLongestGroup; end < most && at(end) != ')'; ++end) {
    if (end >= text_.size() || text_[end] == '\n' || text_[end] == '(') return false;
    if (text_[end] == ',' && ++commas == 1 && (at(end + 2) == '"' || at(end + 2) == '\'') && !row)
      return false;
  }
  if (at(end) != ')' || commas < (row ? 0U : 2U)) return false;
  at_ = end + 1;
  star();
  return true;
}

// Order{id=7, status=NEW}, %Order{status: :new}, Order(id=7, status=NEW): an object that was printed. Its
// state is data.
void Normaliser::begin_object() {
  const char open = text_[at_];
  if ((open != '{' && open != '(') || !is_word(before()) || in_object()) return;
  if (open == '(' && !has_label(text_.substr(at_ + 1, kLongestLabel))) return;
  std::size_t from = at_;
  while (from > 0 && at_ - from < kLongestLabel * 2 && is_word(text_[from - 1])) --from;
  const std::string_view name = text_.substr(from, at_ - from);
  if (!is_upper(name[0]) || names_result(name)) return;
  const std::string_view inside = text_.substr(at_, kLongestGroup);
  object_until_ = at_ + std::min(inside.find(open == '{' ? '}' : ')'), inside.size());
}

// Ruby's #<Order:0x00007f8b id=7>: the name stays.
bool Normaliser::take_inspected() {
  if (before() != '#') return false;
  const std::string_view rest = text_.substr(at_ + 1, kLongestGroup);
  const std::size_t close = rest.find_first_of(">\n"), end = rest.find_first_of(" >");
  if (close == std::string_view::npos || rest[close] != '>' || end == 0 || !is_upper(rest[0])) return false;
  std::string_view name = rest.substr(0, end);
  name = name.substr(0, name.find(":0x"));
  if (names_result(name) || !is_name(name, false)) return false;
  word(name, 0);
  at_ += close + 2;
  star();
  return true;
}

// A value without quotes after a key of such an object.
void Normaliser::take_bare_value(std::size_t from) {
  while (at(from) == ' ') ++from;
  if (!is_letter(at(from)) && at(from) != ':') return;
  at_ = end_of_run(from, ",;)}]");
  star();
}

std::string Normaliser::words_of(std::string_view group) {
  Normaliser inner(group, {}, true);
  inner.nested_ = true;
  inner.depth_ = 1;
  Text text = inner.run();
  return text.codes.empty() ? std::move(text.words) : std::string("*");
}

// (total=10, active=10), [cid: 7d1f], [host db]
bool Normaliser::take_pairs() {
  if (nested_) return false;
  const char open = text_[at_], close = open == '(' ? ')' : ']';
  std::size_t end = at_ + 1;
  for (const std::size_t most = at_ + kLongestGroup; at(end) != close; ++end) {
    if (end >= text_.size() || end >= most || text_[end] == '\n' || text_[end] == open) return false;
  }
  const std::string_view group = text_.substr(at_ + 1, end - at_ - 1);
  if (!is_labelled(group) && (!has_label(group) || !(are_plain_pairs(group) || are_pairs(words_of(group)))))
    return false;
  at_ = end + 1;
  star();
  return true;
}

}  // namespace rung::causes
