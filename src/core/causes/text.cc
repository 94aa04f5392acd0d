#include "src/core/causes/text.h"

#include <algorithm>
#include <utility>

#include "src/core/causes/folded.h"
#include "src/core/causes/normaliser.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kCodesBytes = 100;

}  // namespace

unsigned Normaliser::gap_of(char c) {
  switch (c) {
    case ':':
      return kColon;
    case '=':
      return kEqual;
    case '-':
      return kMinus;
    case ',':
      return kComma;
    case '.':
    case ';':
      return kStop;
    case '"':
    case '\'':
    case '#':
    case '`':
      return kOpen;
    default:
      return kOther;
  }
}

// The type stands before the text: KeyError, 'total'.
Normaliser::Normaliser(std::string_view text, std::string_view type) : text_(text) {
  type.remove_prefix(type.find_last_of(".:\\") + 1);
  past_[0].roles = Folded(type).roles();
}

Text Normaliser::run() {
  out_.words.reserve(std::min(text_.size(), kTextBytes) + 64);
  while (at_ < text_.size() && out_.words.size() < kTextBytes) step();
  if (nested_) return std::move(out_);
  // Whether values stand around it does not count: they may be empty, or a prefix like [req-7f9a].
  if (out_.words.starts_with("* ")) out_.words.erase(0, 2);
  if (out_.words.ends_with(" *")) out_.words.resize(out_.words.size() - 2);
  return std::move(out_);
}

void Normaliser::step() {
  const char c = text_[at_];
  if (open_closes_ > 0 && at_ >= closes_[open_closes_ - 1]) {
    --open_closes_;
    mark(kOther);
    // The closing quote is no opening one.
    if (at_ == closes_[open_closes_]) {
      at_ += is_high(c) ? high_at(text_, at_).length : c == '\\' ? 2 : 1;
      return;
    }
  }
  if (is_blank(c)) {
    mark(c == '\n' ? kBlank | kStop : kBlank);
    ++at_;
    return;
  }
  if (is_letter(c) || is_digit(c) || c == '_') {
    take_atom();
    return;
  }
  if (take_quote()) return;
  if (is_high(c)) return take_high();
  if ((c == '/' || c == '~' || c == '.' || c == '\\') && take_path()) return;
  if (c == ':' && take_hex_groups()) return;
  if (c == '=' && take_value()) return;
  take_mark();
}

void Normaliser::take_high() {
  const HighChar c = high_at(text_, at_);
  if (c.kind == High::letter || c.kind == High::digit) {
    take_atom();
    return;
  }
  mark(c.kind == High::mark ? kOther : c.kind == High::newline ? kBlank | kStop : kBlank);
  at_ += c.length;
}

// ==, !=, <=, >= and their like say what was compared.
bool Normaliser::take_operator() {
  const char c = text_[at_];
  if ((c != '=' && c != '!' && c != '<' && c != '>') || at(at_ + 1) != '=' || at(at_ + 2) == '>')
    return false;
  const std::size_t length = at(at_ + 2) == '=' ? 3 : 2;
  if (at(at_ + length) == '=' || (is_word(before()) && !is_word(at(at_ + length))))
    return false;  // =====, AbC==
  const std::string_view op = text_.substr(at_, 2);
  word(op, 0);
  at_ += length;
  return true;
}

void Normaliser::take_mark() {
  if (take_operator()) return;
  const char c = text_[at_];
  // *.example.com
  if (c == '*' && at(at_ + 1) == '.' && is_word(at(at_ + 2)) && at_boundary()) {
    at_ = end_of_atom(at_ + 2);
    return star();
  }
  // (got ): the value is empty
  if ((c == ')' || c == ']' || c == ',') && before() == ' ' && (gap_ & ~kBlank) == 0) star();
  const bool empty = (c == '[' && at(at_ + 1) == ']') || (c == '{' && at(at_ + 1) == '}');
  if (empty && at_boundary()) {
    at_ += 2;
    return star();
  }
  if ((c == '(' || c == '[') && take_group()) return;
  if (c == '<' && at(at_ + 1) == '/' && is_letter(at(at_ + 2))) ++at_;  // </body>
  if (c == '[' || c == '(' || c == '{' || c == '<') {
    mark(kOpen);
    depth_ += c == '<' ? 0 : 1;
    braces_ += c == '{' ? 1 : 0;
  } else if (c == ']' || c == ')' || c == '}') {
    braces_ -= c == '}' && braces_ > 0 ? 1 : 0;
    mark(kOther);
    depth_ -= depth_ > 0 ? 1 : 0;
  } else if (c == '\\' &&
             (at(at_ + 1) == 'n' || at(at_ + 1) == 't' || at(at_ + 1) == 'r')) {  // an escaped newline
    mark(kBlank | kStop);
    ++at_;
  } else {
    mark(gap_of(c));
  }
  if (c == ',' || c == ';') says_ = false;
  ++at_;
}

bool Normaliser::at_boundary() const {
  if (at_ == 0) return true;
  const char c = text_[at_ - 1];
  return !is_word(c) && c != ')' && c != ']' && !(is_high(c));
}

std::size_t Normaliser::end_of_run(std::size_t from, std::string_view stops) const {
  for (; from < text_.size(); ++from) {
    if (is_blank(text_[from]) || stops.find(text_[from]) != std::string_view::npos) break;
  }
  return from;
}

std::string_view Normaliser::past_word(std::size_t i) const {
  return std::string_view(out_.words).substr(past_[i].at, past_[i].length);
}

void Normaliser::append(std::string_view text, char joint) {
  if (!out_.words.empty()) {
    if (joint == '\0' || last_is_star_) {
      out_.words += ' ';
    } else {
      out_.words += joint;
    }
  }
  for (const char c : text.substr(0, kTextBytes)) out_.words += lowered(c);
}

void Normaliser::word(std::string_view text, Roles roles, char joint) {
  append(text, joint);
  past_[2] = past_[1];
  past_[1] = past_[0];
  const std::size_t length = std::min(text.size(), kTextBytes);
  past_[0] = {roles, static_cast<std::uint32_t>(out_.words.size() - length),
              static_cast<std::uint32_t>(length)};
  gap_ = 0;
  last_is_star_ = code_before_ = false;
}

// With its letters; digits in it vary.
void Normaliser::name(std::string_view text) {
  append("", '\0');
  const std::size_t begin = out_.words.size();
  bool digits = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_digit(text[i])) {
      if (!digits) out_.words += '*';
      digits = true;
    } else {
      out_.words += lowered(text[i]);
      if (is_letter(text[i])) digits = false;
    }
  }
  past_[2] = past_[1];
  past_[1] = past_[0];
  past_[0] = {0, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(out_.words.size() - begin)};
  gap_ = 0;
  last_is_star_ = code_before_ = false;
  keep_code(past_word(0));
}

void Normaliser::keep_code(std::string_view written) {
  if (out_.codes.size() + written.size() < kCodesBytes)
    out_.codes.append(out_.codes.empty() ? "" : " ").append(written);
}

void Normaliser::code(std::string_view text) {
  word(text, 0);
  code_before_ = true;
  keep_code(past_word(0));
}

void Normaliser::star() {
  if (!last_is_star_) {
    append("*", '\0');
    // DNS:a.example, DNS:b.example: a list.
    const std::size_t end_of_one = past_[1].at + past_[1].length;
    if (past_[1].length > 0 && past_[0].at == end_of_one + 3 && past_word(0) == past_word(1)) {
      out_.words.resize(end_of_one + 2);
      past_[0] = past_[1];
      past_[1] = past_[2];
    }
  }
  last_is_star_ = true;
  code_before_ = false;
  gap_ |= kStar;
  since_star_ = 0;
  says_ = json_value_ = false;
}

Text normalise(std::string_view text, std::string_view type) { return Normaliser(text, type).run(); }

}  // namespace rung::causes
