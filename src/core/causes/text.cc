#include "src/core/causes/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "src/core/causes/folded.h"
#include "src/core/causes/normaliser.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kCodesBytes = 100;
constexpr std::size_t kLongestItem = 8;  // words

constexpr std::size_t kMostWords = 520;  // what fits into kTextBytes

// A list of the same counts as one: "server * failed server * failed".
void omit_repeats(std::string& words) {
  std::array<std::uint16_t, kMostWords + 1> begins;  // of the words that stay, and of the next
  std::size_t count = 0, end = 0;                    // what stays
  const auto word = [&](std::size_t i) {
    return std::string_view(words).substr(begins[i], begins[i + 1] - begins[i]);
  };
  for (std::size_t from = 0; from < words.size() && count < kMostWords;) {
    std::size_t to = from;
    while (words[to] != ' ') ++to;
    ++to;
    if (end != from) words.replace(end, to - from, words, from, to - from);
    begins[count++] = static_cast<std::uint16_t>(end);
    end += to - from;
    begins[count] = static_cast<std::uint16_t>(end);
    from = to;
    for (std::size_t n = 1; n <= kLongestItem && 2 * n <= count; ++n) {
      if (words[begins[count - 1]] != words[begins[count - 1 - n]]) continue;
      std::size_t same = 0;
      while (same < n && word(count - 1 - same) == word(count - 1 - same - n)) ++same;
      if (same < n) continue;
      count -= n;
      end = begins[count];
      break;
    }
  }
  words.resize(end);
}

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
Normaliser::Normaliser(std::string_view text, std::string_view type, bool keeps_data)
    : text_(text), keeps_data_(keeps_data) {
  type.remove_prefix(type.find_last_of(".:\\") + 1);
  past_[0].roles = Folded(type).roles();
  std::size_t key = 0;
  while (is_word(at(key))) ++key;
  logfmt_ = key > 0 && at(key) == '=' && !is_blank(at(key + 1)) && at(key + 1) != '=';
}

Text Normaliser::run() {
  out_.words.reserve(std::min(text_.size(), kTextBytes) + 64);
  while (at_ < text_.size() && out_.words.size() < kTextBytes) step();
  if (nested_) return std::move(out_);
  out_.words += ' ';
  omit_repeats(out_.words);
  out_.words.pop_back();
  // Whether values stand around it does not count: they may be empty, or a prefix like [req-7f9a].
  if (out_.words.starts_with("* ")) out_.words.erase(0, 2);
  if (out_.words.ends_with(" *")) {
    out_.words.resize(out_.words.size() - 2);
    for (const std::string_view time : {" since", " until", " after"})
      if (out_.words.ends_with(time)) out_.words.resize(out_.words.size() - time.size());
  }
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
  if (c == '<' && (take_inspected() || take_page() || take_element())) return;
  if (c == '<' && at(at_ + 1) == '/' && is_letter(at(at_ + 2))) ++at_;  // </body>
  if (c == '[' || c == '(' || c == '{' || c == '<') {
    begin_object();
    mark(kOpen);
    depth_ += c == '<' ? 0 : 1;
    braces_ += c == '{' ? 1 : 0;
  } else if (c == ']' || c == ')' || c == '}') {
    if (c == '}') drop_empty_key();
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
  std::array<std::uint64_t, 4> ends{};  // a bit for each byte
  for (const char c : stops)
    ends[static_cast<unsigned char>(c) / 64U] |= 1ULL << (static_cast<unsigned char>(c) % 64U);
  for (; from < text_.size(); ++from) {
    const auto c = static_cast<unsigned char>(text_[from]);
    if (is_blank(text_[from]) || ((ends[c / 64U] >> (c % 64U)) & 1U) != 0) break;
  }
  return from;
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
  spoken_before_ = std::exchange(spoken_, true);
}

// With its letters; digits in it vary.
void Normaliser::name(std::string_view text, bool is_code) {
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
  spoken_before_ = std::exchange(spoken_, true);
  if (is_code) keep_code(past_word(0));
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

// Of what has been written, keeps `size` bytes, and words that are whole.
void Normaliser::take_back(std::size_t size) {
  while (past_[0].length > 0 && past_[0].at >= size) {
    past_[0] = past_[1];
    past_[1] = past_[2];
    past_[2] = {};
  }
  out_.words.resize(size);
  while (out_.words.ends_with(' ')) out_.words.pop_back();
  last_is_star_ = out_.words.ends_with(" *") || out_.words == "*";
}

// request_id=7f9a, trace id: 7f9a
bool Normaliser::drop_trace_id() {
  if (!past_is(0, role::kTrace | role::kIdentifier)) return false;
  const bool id = past_word(0) == "id";
  if (last_is_star_ || keeps_data_ || (gap_ & ~(kBlank | kColon | kEqual | kOpen)) != 0) return false;
  const std::string_view word = past_word(1);
  const bool two = id && (word == "request" || word == "trace" || word == "correlation" || word == "span");
  if (!two && !past_is(0, role::kTrace)) return false;
  take_back(past_[two ? 1 : 0].at);
  dropped_ = true;
  says_ = json_value_ = false;
  mark(kOther);
  return true;
}

void Normaliser::star() {
  if (drop_trace_id()) return;
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

Text normalise(std::string_view text, std::string_view type) {
  Normaliser reader(text, type, false);
  Text out = reader.run();
  return reader.says_nothing(out) ? Normaliser(text, type, true).run() : out;
}

}  // namespace rung::causes
