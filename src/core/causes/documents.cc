// JSON, XML, HTML and logfmt: of what they carry, the keys that say what happened.
#include <algorithm>

#include "src/core/causes/folded.h"
#include "src/core/causes/normaliser.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kLongestJsonKey = 60;
constexpr std::size_t kLongestPath = 500;
constexpr std::size_t kLongestLeaf = 200;

// "ValidationError", "RESOURCE_NOT_FOUND": not the name of a customer.
bool quotes_failure(std::string_view quoted) {
  if (quoted.empty() || quoted[0] != '"') return false;
  const std::string_view value = quoted.substr(1, quoted.substr(1, kLongestJsonKey).find('"'));
  const auto constant = [](char c) { return is_upper(c) || c == '_'; };
  return value.size() < kLongestJsonKey &&
         (is_failure(folded(value)) ||
          (value.find('_') != std::string_view::npos && std::ranges::all_of(value, constant)));
}

}  // namespace

bool Normaliser::key_of_json(std::string_view content, std::string_view after) {
  const std::size_t blanks = std::min(after.find_first_not_of(' '), after.size());
  const std::string_view next = after.substr(blanks, 2);
  const bool key = next.starts_with("=>") || (next.starts_with(':') && braces_ > 0);
  if (!key || content.size() > kLongestJsonKey || !is_name(content, false) ||
      content.find('@') != std::string_view::npos)
    return false;
  Roles roles = roles_of_key(content);
  const std::size_t begin = text_.size() - after.size() + blanks + (next[0] == '=' ? 2 : 1);
  const std::size_t first = text_.find_first_not_of(' ', begin);
  if (content == "name" && quotes_failure(text_.substr(std::min(first, text_.size())))) roles |= role::kSays;
  if (take_data(roles, begin)) return true;
  const bool spoken = spoken_;
  if (has_digit(content)) {
    name(content, false);  // "lines[3].qty"
  } else {
    word(content, at(first) == '{' ? roles | role::kContainer : roles);
  }
  spoken_ = spoken;
  says_ = (roles & role::kSays) != 0;
  json_value_ = true;
  if ((roles & role::kPath) != 0) {
    const std::size_t bracket = text_.find_first_not_of(" \n", begin);
    if (at(bracket) == '[') path_until_ = std::min(text_.find(']', bracket), bracket + kLongestPath);
  }
  return true;
}

// "locale": "de_DE": whether it is said does not count, if anything else is.
bool Normaliser::take_data(Roles key, std::size_t begin) {
  if (keeps_data_ || (key & role::kKept) != 0) return false;
  while (at(begin) == ' ') ++begin;
  std::size_t end = end_of_run(begin, ",}]{[\"'\\");
  while (end > begin && at(end) == ',' && is_digit(at(end + 1))) end = end_of_run(end + 1, ",}]");
  if (end == begin) {
    const auto quote = std::ranges::find_if(
        kQuotes, [&](const Quote& one) { return text_.substr(begin).starts_with(one.open); });
    if (quote == kQuotes.end()) return false;
    const std::size_t from = begin + quote->open.size();
    end = find_close(static_cast<std::size_t>(quote - kQuotes.begin()), from);
    if (end == std::string_view::npos) return false;
    const std::string_view value = text_.substr(from, end - from);
    // Of {"email": "is already taken"} the key stays.
    for (std::size_t i = value.find(' '); i < value.size(); i = value.find(' ', i + 1)) {
      if (i + 1 < value.size() && is_lower(value[i + 1])) return false;
    }
    if ((Folded(value).roles() & role::kDefect) != 0) return false;
    end += quote->close.size();
  }
  at_ = end;
  mark(kOther);
  says_ = json_value_ = false;
  dropped_ = true;
  return true;
}

// Of a page of HTML only the title counts.
bool Normaliser::take_page() {
  constexpr std::string_view kTitle = "<title>";
  if (page_until_ > at_ && begins_with(rest(), "</title>")) {
    at_ = page_until_;
    mark(kOther);
    return true;
  }
  if (page_until_ > 0 || !(begins_with(rest(), "<html") || begins_with(rest(), "<!doctype html")))
    return false;
  page_until_ = text_.size();
  const std::size_t title = text_.find(kTitle, at_), end = text_.find("</html>", at_);
  if (end != std::string_view::npos) page_until_ = end + 7;
  if (title == std::string_view::npos) return false;
  at_ = title + kTitle.size();
  mark(kOpen);
  return true;
}

// <RequestId>7C9E</RequestId>: the same of XML.
bool Normaliser::take_element() {
  constexpr std::size_t kShortestTag = 3;  // <h1> is HTML's
  if (keeps_data_) return false;
  std::size_t begin = at_ + 1;
  while (begin - at_ < kLongestJsonKey && (is_word(at(begin)) || at(begin) == ':')) ++begin;
  std::string_view tag = text_.substr(at_ + 1, begin - at_ - 1);
  if (at(begin) != '>') return false;
  const std::size_t end = end_of_run(begin + 1, "<");
  if (end == begin + 1 || end - begin > kLongestLeaf || !text_.substr(end).starts_with("</") ||
      !text_.substr(end + 2).starts_with(tag))
    return false;
  const std::size_t close = end + 2 + tag.size();
  tag.remove_prefix(std::min(tag.find_last_of(':') + 1, tag.size()));
  if (at(close) != '>' || tag.size() < kShortestTag || (roles_of_key(tag) & role::kKept) != 0) return false;
  at_ = close + 1;
  mark(kOther);
  dropped_ = true;
  return true;
}

// Of "charge": {"id": "ch_7", "amount": 12} nothing stays.
void Normaliser::drop_empty_key() {
  const Past& key = past_[0];
  if (keeps_data_ || key.length == 0 || key.at == 0 || (key.roles & ~role::kContainer) != 0 ||
      (key.roles & role::kContainer) == 0)
    return;
  const std::size_t end = key.at + key.length;
  if (out_.words.size() != end && !(out_.words.size() == end + 2 && last_is_star_)) return;
  take_back(key.at);
  dropped_ = true;
}

// true, null and numbers after a key. The others are taken as everywhere.
void Normaliser::take_literal_of_json() {
  std::size_t i = at_;
  while (is_blank(at(i)) && i < text_.size()) ++i;
  i += at(i) == ':' ? 1 : at(i) == '=' ? 2 : 0;
  while (is_blank(at(i)) && i < text_.size()) ++i;
  at_ = i;
  mark(kColon);
  std::size_t end = i;
  while (is_letter(at(end))) ++end;
  if (end > i && end - i <= 5) {
    json_value_ = false;
    if ((Folded(text_.substr(i, end - i)).roles() & role::kLiteral) != 0 && !says_) {
      at_ = end;
      star();
    }
  }
}

// Of the value in logfmt: order=7 customer="Ann Lee".
std::size_t Normaliser::end_of_pair(std::size_t from) {
  if (at(from) != '"') return end_of_run(from, "");
  const std::size_t close = find_close(1, from + 1);
  return close == std::string_view::npos ? end_of_run(from, "") : close + 1;
}

}  // namespace rung::causes
