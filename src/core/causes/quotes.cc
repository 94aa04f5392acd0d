// Quoted texts, and the values of keys.
#include <algorithm>
#include <array>

#include "src/core/causes/folded.h"
#include "src/core/causes/normaliser.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kLongestQuote = 2000;
constexpr std::size_t kLongestKey = 60;
constexpr std::size_t kLongestValue = 200;

// What follows in quotes is read: with message "...".
bool says_message(std::string_view word) {
  return word == "message" || word == "msg" || word == "reason" || word == "exception";
}

// Which database it is varies: a table counts without what stands before its dots.
std::string_view without_database(std::string_view name, std::string_view kind) {
  if (kind == "table" || kind == "collection") name.remove_prefix(name.find_last_of('.') + 1);
  return name;
}

}  // namespace

const std::array<Normaliser::Quote, 9> Normaliser::kQuotes{{{"\\\"", "\\\"", ""},
                                                            {"\"", "\"", ""},
                                                            {"'", "'", ""},
                                                            {"`", "`", "'"},
                                                            {"\xe2\x80\x9c", "\xe2\x80\x9d", ""},
                                                            {"\xe2\x80\x9e", "\xe2\x80\x9c", "\xe2\x80\x9d"},
                                                            {"\xe2\x80\x98", "\xe2\x80\x99", ""},
                                                            {"\xc2\xab", "\xc2\xbb", ""},
                                                            {"\xe2\x80\xb9", "\xe2\x80\xba", ""}}};

bool Normaliser::take_quote() {
  const char c = text_[at_];
  if (c != '"' && c != '\'' && c != '`' && c != '\\' && c != '\xe2' && c != '\xc2') return false;
  for (std::size_t kind = 0; kind < kQuotes.size(); ++kind) {
    const Quote& quote = kQuotes[kind];
    if (!rest().starts_with(quote.open)) continue;
    if (c == '\'' && at_ > 0 && is_word(before()) && before() != '-') return false;  // don't
    const std::size_t from = at_ + quote.open.size();
    const std::size_t close = find_close(kind, from);
    if (close == std::string_view::npos) return false;
    const std::size_t length =
        text_.substr(close).starts_with(quote.close) ? quote.close.size() : quote.other_close.size();
    quoted(from, close, close + length);
    return true;
  }
  return false;
}

// npos: the quote does not end.
std::size_t Normaliser::find_close(std::size_t kind, std::size_t from) {
  const Quote& quote = kQuotes[kind];
  const std::size_t most = std::min(text_.size(), from + kLongestQuote);
  // What was searched in vain for an earlier quote is not searched again.
  for (std::size_t i = std::max(from, searched_[kind]); i < most; ++i) {
    const char c = text_[i];
    if (c == '\n' && kind != 1 && kind != 0) {
      searched_[kind] = i;
      return std::string_view::npos;
    }
    if (c == '\\' && (kind == 1 || kind == 2) && (at(i + 1) == '\\' || at(i + 1) == quote.close[0])) {
      ++i;
      continue;
    }
    if (c != quote.close[0] && (quote.other_close.empty() || c != quote.other_close[0])) continue;
    const std::string_view here = text_.substr(i);
    if (!here.starts_with(quote.close) && (quote.other_close.empty() || !here.starts_with(quote.other_close)))
      continue;
    const char next = at(i + 1);
    if (c == '\'' && (is_letter(next) || is_digit(next))) continue;  // 'it doesn't'
    return i;
  }
  searched_[kind] = std::max(searched_[kind], most);
  return std::string_view::npos;
}

void Normaliser::quoted(std::size_t from, std::size_t to, std::size_t next) {
  const std::string_view content = text_.substr(from, to - from), after = text_.substr(next);
  const std::size_t begun = at_;
  if (key_of_json(content, after)) {
    if (at_ != begun) return;  // with its value
    at_ = next;
    return take_literal_of_json();
  }
  const bool value = json_value_ || (gap_ & (kColon | kEqual)) != 0;
  // with message "...", code "451"
  const bool announced =
      (gap_ & ~(kBlank | kOpen)) == 0 && (past_is(0, role::kError) || says_message(past_word(0)));
  const bool message = code_before_ && (gap_ & kComma) != 0 && depth_ > 0;  // (1062, "Duplicate entry ...")
  const bool argument = gap_ == kOpen && is_failure(past_word(0));  // NewConnectionError('No route to host')
  if ((value && says_) || message || argument || announced) return look_into(from, to, next);
  at_ = from;  // where is_code() expects the number
  const bool number = all_digits(content) && !value && past_word(0).ends_with("code") && is_code(content, to);
  at_ = next;
  if (number) return code(content);
  if (from < path_until_ && is_name(content, false)) return name(content);
  if (!value || past_is(0, role::kName | role::kPath)) {
    if (named(content, after)) {
      json_value_ = false;
      // Not all JVMs say what was null, so in a stack trace it does not count.
      const bool null =
          past_word(0) == "invoke" || begins_with(after, " is null") || begins_with(after, " because ");
      return name(without_database(content, past_word(0)), !null);
    }
  }
  star();
}

// The quote's content is read like the text around it.
void Normaliser::look_into(std::size_t from, std::size_t close, std::size_t next) {
  const std::string_view content = text_.substr(from, close - from);
  at_ = from;
  json_value_ = says_ = false;
  const bool number = past_is(0, role::kCode) && is_code_of_vendor(content);
  if (number || (is_name(content, false) && content.size() <= kLongestKey && !has_digit(content))) {
    at_ = next;
    word(content, 0);
    keep_code(past_word(0));
    return;
  }
  if (open_closes_ < closes_.size()) closes_[open_closes_++] = close;
}

bool Normaliser::named(std::string_view content, std::string_view after) const {
  // "SHOP"."SHIPMENT": the first is where it is installed.
  const auto from = static_cast<std::size_t>(content.data() - text_.data());
  const bool dotted =
      from > 2 && text_[from - 2] == '.' && text_[from - 3] == text_[from - 1] && text_[from - 1] != '\'';
  if (dotted) return is_name(content, false);
  if (after.size() > 1 && after[0] == '.' && after[1] == text_[from - 1]) return false;
  if ((gap_ & (kComma | kStop | kStar)) != 0) return begins_as_after_name(after) && is_name(content, false);
  // 'First Name' is required
  const bool words =
      content.size() <= 40 && std::ranges::all_of(content, [](char c) { return is_letter(c) || c == ' '; });
  if (past_word(0) == "of" && past_word(1) == "instance" && is_name(content, false)) return true;
  if (past_is(0, role::kName) || (past_is(0, role::kPath) && json_value_))
    return is_name(content, false) || words;
  if (past_is(0, role::kPlainName) && is_name(content, true)) return true;
  if (past_word(0) == "named" && past_is(1, role::kName) && is_name(content, false)) return true;
  if (past_word(0) == "for" && past_word(1) == "validation" && is_name(content, false)) return true;
  if (past_word(0) == "key" && is_name(content, false)) {
    const std::string_view one = past_word(1);
    const bool kind = one == "for" || one == "config" || one == "array" || one == "foreign" ||
                      one == "unique" || one == "missing" || one == "required" || one == "primary" ||
                      one == "undefined" || one == "unknown";
    if (kind) return true;
  }
  return begins_as_after_name(after) && (is_name(content, false) || words);
}

// Of key=value, and of Key (id)=(42).
bool Normaliser::take_value() {
  const char next = at(at_ + 1);
  if (at_ == 0 || next == '=' || next == '>' || next == '~') return false;
  if (before() == ')' && next == '(') {
    const std::size_t end = std::min(text_.find(')', at_), text_.size());
    if (end - at_ > kLongestValue) return false;
    at_ = end;
    star();
    return true;
  }
  if ((gap_ & ~(kBlank | kOther)) != 0 || last_is_star_ || past_[0].length == 0) return false;
  const bool blank = is_blank(before()) && is_blank(next);  // id = 42
  if (!blank && !is_word(before())) return false;
  mark(kEqual);
  if (past_is(0, role::kSays | role::kCode) && !(in_object() && past_is(0, role::kState))) {
    says_ = past_is(0, role::kSays);
    ++at_;
    return true;
  }
  if (logfmt_ && !keeps_data_ && !blank && !past_is(0, role::kKept) && next != '{' && next != '[') {
    take_back(past_[0].at);
    spoken_ = spoken_before_;
    dropped_ = true;
    at_ = end_of_pair(at_ + 1);
    mark(kOther);
    return true;
  }
  std::size_t from = at_ + 1;
  if (blank) ++from;
  ++at_;
  if (past_is(0, role::kName)) {
    const std::size_t end = end_of_run(from, ",;)}]&|\"'<>");
    const std::string_view value = text_.substr(from, end - from);
    if (!is_name(value, false)) return true;
    at_ = end;
    name(value);
    return true;
  }
  if (from >= text_.size() || std::string_view("\"'`{[(<\\").find(text_[from]) != std::string_view::npos ||
      is_blank(text_[from]) || is_high(text_[from]))
    return true;
  at_ = end_of_value(from);
  star();
  return true;
}

// A value in brackets goes on over blanks, up to the next key: {name=Ann Lee, id=4}.
std::size_t Normaliser::end_of_value(std::size_t from) const {
  constexpr std::string_view kStops = ",;)}]&|\"'<>`";
  std::size_t end = end_of_run(from, kStops);
  while (depth_ > 0 && end < text_.size() && text_[end] == ' ' && end - from < kLongestValue) {
    const std::size_t to = end_of_run(end + 1, kStops);
    const std::string_view next = text_.substr(end + 1, to - end - 1);
    if (next.empty() || next.find('=') != std::string_view::npos || next.find(':') != std::string_view::npos)
      break;
    end = to;
  }
  while (end > from && (text_[end - 1] == '.' || text_[end - 1] == ':')) --end;
  return end;
}

}  // namespace rung::causes
