#include "src/core/causes/text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "src/core/causes/token.h"
#include "src/core/causes/words.h"

namespace rung::causes {
namespace {

constexpr std::size_t kLongestQuote = 2000;
constexpr int kDeepest = 2;  // quoted JSON in quoted JSON

struct Quote {
  std::string_view open, close, other_close;
};
constexpr auto kQuotes = std::to_array<Quote>({{"\\\"", "\\\"", ""},
                                               {"\"", "\"", ""},
                                               {"'", "'", ""},
                                               {"`", "`", "'"},
                                               {"\xe2\x80\x9c", "\xe2\x80\x9d", ""},
                                               {"\xe2\x80\x9e", "\xe2\x80\x9c", "\xe2\x80\x9d"},
                                               {"\xe2\x80\x98", "\xe2\x80\x99", ""},
                                               {"\xc2\xab", "\xc2\xbb", ""}});

// What follows a quoted name, in lower case.
constexpr auto kAfterName = std::to_array<std::string_view>({"is required",
                                                             "is not allowed",
                                                             "is missing",
                                                             "must ",
                                                             "cannot be",
                                                             "can't be",
                                                             "can not be",
                                                             "should ",
                                                             "is not defined",
                                                             "is undefined",
                                                             "is not a function",
                                                             "is not iterable",
                                                             "object has no",
                                                             "column",
                                                             "field",
                                                             "property",
                                                             "parameter",
                                                             "is a required",
                                                             "was not provided",
                                                             "may not be",
                                                             "has no attribute",
                                                             "is mandatory",
                                                             "object is not",
                                                             "violates",
                                                             "does not have a",
                                                             "doesn't have a",
                                                             "is invalid",
                                                             "not in index",
                                                             "header"});

class Normaliser {
 public:
  Normaliser(std::string_view text, int depth) : text_(text), depth_(depth) {}

  std::string run() {
    while (at_ < text_.size() && out_.size() < kMostNormalised) step();
    out_.resize(std::min(out_.size(), kMostNormalised));
    while (!out_.empty() && (out_.back() == ' ' || out_.back() == '.')) out_.pop_back();
    return std::move(out_);
  }
  const std::string& codes() const { return codes_; }

 private:
  void step() {
    if (const std::size_t blank = blank_at(text_, at_); blank > 0) {
      at_ += blank;
      if (!out_.empty() && out_.back() != ' ') out_ += ' ';
      return;
    }
    if (take_quote() || take_url() || take_path() || take_value() || take_token()) return;
    take_sign();
  }

  // --- output

  void star() {
    if (is_currency(last_word_) && gap() == " ") {
      out_.resize(word_end_ - last_word_.size());
      clear_since_star_ = false;
    }
    last_word_.clear();
    if (star_end_ != 0 && clear_since_star_) {
      out_.resize(star_end_);
    } else {
      while (!out_.empty() && (out_.back() == '-' || out_.back() == '+' || out_.back() == '$'))
        out_.pop_back();
      out_ += '*';
      star_end_ = out_.size();
    }
    clear_since_star_ = true;
  }
  void word(std::string_view text) {
    const std::string lower = lowered(text);
    out_ += lower;
    clear_since_star_ = false;
    before_last_ = std::move(last_word_);
    last_word_ = lower;
    word_end_ = out_.size();
    if (is_error_constant(text)) keep_code(lower);
  }
  void code(std::string_view text) {
    const std::string lower = lowered(text);
    out_ += lower;
    clear_since_star_ = false;
    keep_code(lower);
    code_end_ = out_.size();
  }
  void keep_code(const std::string& code) {
    if (codes_.size() < 100) codes_.append(codes_.empty() ? "" : " ").append(code);
  }
  bool after_star() const { return star_end_ != 0 && clear_since_star_; }
  // What stands between the last word and here.
  std::string_view gap() const { return std::string_view(out_).substr(std::min(word_end_, out_.size())); }

  // --- quotes

  bool take_quote() {
    const std::string_view rest = text_.substr(at_);
    for (const Quote& quote : kQuotes) {
      if (!rest.starts_with(quote.open)) continue;
      if (quote.open == "'" && at_ > 0 && is_word_byte(text_[at_ - 1])) return false;  // don't
      const std::size_t from = quote.open.size();
      const auto end = end_of(rest, from, quote);
      if (!end) return false;
      const std::string_view content = rest.substr(from, end->first - from);
      const std::string_view after = rest.substr(end->second);
      at_ += end->second;
      quoted(content, after);
      return true;
    }
    return false;
  }
  // Where the content ends, and where the text goes on.
  static std::optional<std::pair<std::size_t, std::size_t>> end_of(std::string_view rest, std::size_t from,
                                                                   const Quote& quote) {
    const std::size_t most = std::min(rest.size(), from + kLongestQuote);
    for (std::size_t i = from; i < most; ++i) {
      if (rest[i] == '\n' && quote.open != "\"") return std::nullopt;
      if (rest[i] == '\\' && quote.open == "\"") {
        ++i;
        continue;
      }
      for (const std::string_view close : {quote.close, quote.other_close}) {
        if (close.empty() || !rest.substr(i).starts_with(close)) continue;
        const std::size_t next = i + close.size();
        if (close == "'" && next < rest.size() && is_word_byte(rest[next])) continue;  // 'it doesn't'
        return std::pair(i, next);
      }
    }
    return std::nullopt;
  }

  void quoted(std::string_view content, std::string_view after) {
    const std::size_t blanks = std::min(after.find_first_not_of(' '), after.size());
    const std::string_view next = after.substr(blanks);
    if (is_name(content) && (part_of_name_ || next.starts_with(".\"") || next.starts_with(".`"))) {
      const bool first = !std::exchange(part_of_name_, next.starts_with('.'));
      return first ? star() : word(content);  // the first is the database
    }
    part_of_name_ = false;
    if (content.size() > 4 && is_number(content.substr(0, 3)) && is_reason_phrase(lowered(content.substr(4))))
      return nested(content);
    // A message in a tuple or a call: (1406, "Data too long for ..."), Error("missing field ...").
    const std::size_t before = out_.find_last_not_of(' ');
    const bool argument =
        before != std::string::npos && (out_[before] == '(' || (out_[before] == ',' && in_tuple_));
    if (argument && depth_ < kDeepest && std::ranges::count(content, ' ') >= 2) return nested(content);
    const bool in_object =
        out_.find_last_not_of(' ') == std::string::npos ||
        std::string_view("{,[(").find(out_[out_.find_last_not_of(' ')]) != std::string_view::npos;
    if (in_object && (next.starts_with(':') || next.starts_with("=>")) && is_name(content) &&
        content.size() <= 60) {
      key_ = lowered(content);
      in_place_ = names_place(key_);
      word(content);
      return;
    }
    if (in_place_ && is_name(content)) {
      word(content);
      return keep_code(last_word_);
    }
    const bool value = !std::exchange(key_, {}).empty() && says_what(last_word_);
    if (value && depth_ < kDeepest) return nested(content);
    if (is_name(content) && (announced() || follows(next))) {
      const bool schema = announced();
      // The database may be another one.
      const std::size_t dot = last_word_ == "table" ? content.find_last_of('.') : std::string_view::npos;
      Normaliser inner(dot == std::string_view::npos ? content : content.substr(dot + 1), kDeepest);
      word(inner.run());
      if (schema) keep_code(last_word_);
      return;
    }
    star();
  }
  void nested(std::string_view content) {
    Normaliser inner(content, depth_ + 1);
    const std::string text = is_name(content) && content.size() <= 40 ? lowered(content) : inner.run();
    if (text == "*") return star();
    word(text);
    keep_code(inner.codes());
  }
  bool announced() const {
    if (last_word_ == "key") {
      return before_last_ == "for" || before_last_ == "array" || before_last_ == "foreign" ||
             before_last_ == "unique" || before_last_ == "missing" || before_last_ == "required" ||
             before_last_ == "primary";
    }
    if (last_word_ == "name")
      return before_last_ == "undefined" || before_last_ == "invalid" || before_last_ == "column";
    return announces_name(last_word_);
  }
  static bool follows(std::string_view next) {
    const std::string lower = lowered(next.substr(0, 24));
    return std::ranges::any_of(kAfterName, [&](std::string_view text) { return lower.starts_with(text); });
  }

  // --- URLs, paths, values

  bool take_url() {
    if (at_ > 0 && is_word_byte(text_[at_ - 1])) return false;
    std::size_t end = at_;
    while (end < text_.size() && end - at_ < 20 &&
           (is_letter(text_[end]) || text_[end] == '+' || text_[end] == '-'))
      ++end;
    if (end == at_ || !text_.substr(end).starts_with("://")) return false;
    at_ = end_of_run(end, " \t\n\r\"'<>`)]},;");
    while (at_ > end && (text_[at_ - 1] == '.' || text_[at_ - 1] == ':')) --at_;
    star();
    return true;
  }
  bool take_path() {
    const bool boundary = at_ == 0 || !is_word_byte(text_[at_ - 1]);
    if (!boundary) return false;
    const auto byte = [&](std::size_t i) { return i < text_.size() ? text_[i] : '\0'; };
    const bool windows =
        is_letter(byte(at_)) && byte(at_ + 1) == ':' && byte(at_ + 2) == '\\' && byte(at_ + 3) != '"';
    const bool unix_path =
        (byte(at_) == '/' || (byte(at_) == '~' && byte(at_ + 1) == '/') ||
         (byte(at_) == '.' && (byte(at_ + 1) == '/' || text_.substr(at_).starts_with("../")))) &&
        (is_word_byte(byte(at_ + 1)) || byte(at_ + 1) == '.' || byte(at_ + 1) == '/' || byte(at_ + 1) == '{');
    if (!windows && !unix_path) return false;
    at_ = end_of_run(at_ + (windows ? 3 : 1), windows ? " \t\n\r\"'<>`|;,)]:" : " \t\n\r\"'<>`|;,)]");
    while (text_[at_ - 1] == '.' || text_[at_ - 1] == ':' || text_[at_ - 1] == ' ') --at_;
    star();
    return true;
  }
  std::size_t end_of_run(std::size_t from, std::string_view stops) const {
    return std::min(text_.find_first_of(stops, from), text_.size());
  }
  // The value of key=value, and of Key (id)=(42).
  bool take_value() {
    if (text_[at_] != '=' || at_ == 0 || text_.substr(at_).starts_with("==") ||
        text_.substr(at_).starts_with("=>"))
      return false;
    if (text_.substr(at_).starts_with("=(")) {
      const std::size_t end = text_.find(')', at_);
      if (end == std::string_view::npos) return false;
      out_ += '=';
      at_ = end + 1;
      return star(), true;
    }
    if (!is_word_byte(text_[at_ - 1])) return false;
    const std::string key = last_word_.substr(last_word_.find_last_of('.') + 1);
    if (key.empty() || says_what(key) || announces_name(key) || announces_code(key)) {
      key_ = says_what(key) ? key : std::string();
      out_ += '=';
      ++at_;
      return true;
    }
    out_ += '=';
    ++at_;
    if (at_ < text_.size() && !is_word_byte(text_[at_]) && text_[at_] != '-' && text_[at_] != '/') {
      last_word_.clear();  // what follows in quotes is a value
      return true;
    }
    at_ = end_of_run(at_, " \t\n\r\"'<>`|;,)]}&");
    star();
    return true;
  }

  // --- tokens

  bool take_token() {
    for (const std::string_view currency : {"\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5"}) {
      if (text_.substr(at_).starts_with(currency)) return at_ += currency.size(), true;
    }
    // "Unexpected token < in JSON": whatever it is.
    if (last_word_ == "token" && before_last_ == "unexpected" &&
        !is_word_byte(at_ + 1 < text_.size() ? text_[at_ + 1] : ' '))
      return ++at_, star(), true;
    const bool boundary = at_ == 0 || !is_word_byte(text_[at_ - 1]);
    if (boundary && text_[at_] == ':' && end_of_ipv6() > at_ + 2) return at_ = end_of_ipv6(), star(), true;
    if (!is_word_byte(text_[at_])) return false;
    if (const std::size_t end = end_of_base64(); is_base64(text_.substr(at_, end - at_)))
      return at_ = end, star(), true;
    if (const std::size_t end = end_of_ipv6(); end > at_) return at_ = end, star(), true;
    const std::size_t end = end_of_atom();
    const std::string_view atom = text_.substr(at_, end - at_);
    if (take_relative_path(end) || take_address(atom, end)) return true;
    // Segment by segment: com.acme.Order2.
    std::size_t from = at_;
    while (from < end) {
      std::size_t to = from;
      while (to < end && is_word_byte(text_[to])) ++to;
      if (to > from) token(text_.substr(from, to - from), to);
      if (to < end) sign(text_[to]);
      from = to + 1;
    }
    at_ = end;
    return true;
  }
  std::size_t end_of_base64() const {
    std::size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit_byte(text_[end]) || text_[end] == '+' ||
                                  text_[end] == '/' || text_[end] == '='))
      ++end;
    return end;
  }
  std::size_t end_of_ipv6() const {
    const std::size_t end = std::min(text_.find_first_not_of("0123456789abcdefABCDEF:", at_), text_.size());
    const std::string_view run = text_.substr(at_, end - at_);
    return std::ranges::count(run, ':') >= 3 || run.find("::") != std::string_view::npos ? end : at_;
  }
  // Of a run of word bytes with single dots, @ and + between them.
  std::size_t end_of_atom() const {
    std::size_t end = at_;
    while (end < text_.size()) {
      if (is_word_byte(text_[end])) {
        ++end;
      } else if ((text_[end] == '.' || text_[end] == '@' || text_[end] == '+') && end + 1 < text_.size() &&
                 is_word_byte(text_[end + 1])) {
        ++end;
      } else {
        break;
      }
    }
    return end;
  }
  // a/b/c.ext; not application/json.
  bool take_relative_path(std::size_t end) {
    if (end + 1 >= text_.size() || text_[end] != '/' || !is_word_byte(text_[end + 1])) return false;
    const std::size_t to = end_of_run(end, " \t\n\r\"'<>`|;,)](:");
    const std::string_view path = text_.substr(at_, to - at_);
    const auto slashes = std::ranges::count(path, '/');
    const std::size_t dot = path.find_last_of('.');
    const bool file = dot != std::string_view::npos && path.find('/', dot) == std::string_view::npos &&
                      path.size() - dot <= 6 && !has_digit(path.substr(dot));
    const std::string first = lowered(path.substr(0, path.find('/')));
    const bool content_type = first == "application" || first == "text" || first == "image" ||
                              first == "http" || first == "multipart" || first == "audio" || first == "video";
    if (content_type || (slashes < 2 && !file)) return false;
    at_ = to;
    star();
    return true;
  }
  // E-mail addresses, hosts, versions, what hashCode() prints.
  bool take_address(std::string_view atom, std::size_t end) {
    const std::size_t sign_at = atom.find('@');
    if (sign_at != std::string_view::npos && sign_at > 0) {
      const std::string_view domain = atom.substr(sign_at + 1);
      if (!is_hex(domain) || domain.find('.') != std::string_view::npos) return at_ = end, star(), true;
      at_ += sign_at + 1;  // com.acme.Order@6d06d69c
      const std::size_t stop = end;
      Normaliser inner(atom.substr(0, sign_at), kDeepest);
      word(inner.run());
      at_ = stop;
      return star(), true;
    }
    if (is_version(atom) || is_host(atom, end)) return at_ = end, star(), true;
    return false;
  }
  bool is_host(std::string_view atom, std::size_t end) const {
    const bool upper = std::ranges::any_of(atom, [](char c) { return c >= 'A' && c <= 'Z'; });
    const std::size_t dot = atom.find_last_of('.');
    const std::string last = lowered(dot == std::string_view::npos ? atom : atom.substr(dot + 1));
    if (!upper && end + 1 < text_.size() && text_[end] == ':' && is_digit_byte(text_[end + 1])) {
      std::size_t to = end + 1;
      while (to < text_.size() && is_digit_byte(text_[to])) ++to;
      const std::size_t digits = to - end - 1;
      const bool port = digits >= 2 && digits <= 5 && (to == text_.size() || !is_word_byte(text_[to]));
      if (port && !is_extension(last) && !announces_code(last) && last != "line" && last != "error")
        return true;
    }
    if (announces_host(last_word_) && !upper) return true;
    if (lowered(atom) == "localhost") return true;
    if (dot != std::string_view::npos && is_file_type(last)) return true;
    return !upper && dot != std::string_view::npos && dot > 0 && is_top_level(last) && !announced();
  }

  void token(std::string_view text, std::size_t end) {
    const std::string lower = lowered(text);
    if (has_digit(text)) return with_digits(text, lower, end);
    if (after_star() && (is_unit(lower) || is_rest_of_value(text, lower))) return star();
    if (is_calendar(lower) && (after_star() || date_follows(end))) return star();
    if (looks_random(text)) return star();
    key_ = end < text_.size() && (text_[end] == ':' || text_[end] == '=') && says_what(lower) ? lower
                                                                                              : std::string();
    std::string_view stem = text;
    // "1 order was", "3 orders were"
    if (after_star() && stem.size() > 4 && stem.back() == 's' && stem[stem.size() - 2] != 's')
      stem.remove_suffix(1);
    word(stem);
  }
  // ".pdf" of a path with a blank in it; a pair of hexadecimal digits among others.
  bool is_rest_of_value(std::string_view text, const std::string& lower) const {
    const bool file = out_.size() == star_end_ + 1 && out_.back() == '.' && is_file_type(lower);
    return file || (text.size() == 2 && text.find_first_not_of("ABCDEF") == std::string_view::npos);
  }
  bool date_follows(std::size_t end) const {
    const std::size_t next = text_.find_first_not_of(" ,.", end);
    if (next == std::string_view::npos) return false;
    return is_digit_byte(text_[next]) || (text_[end] == ' ' && is_calendar(lowered(text_.substr(next, 3))));
  }
  void with_digits(std::string_view text, const std::string& lower, std::size_t end) {
    if (is_number(text)) return is_code(text, end) ? code(text) : star();
    if (last_word_ == "sqlstate" && text.size() == 5) return code(text);
    if (is_technical(lower)) return word(text);
    if (is_vendor_code(text)) return code(text);
    if (is_numbered_name(text)) {
      word(letters_of(text));
      return;
    }
    if (is_camel_with_digits(text)) return word(text);
    star();
  }

  // Whether a number says what has happened.
  bool is_code(std::string_view digits, std::size_t end) const {
    if (digits.size() > 6) return false;
    if (out_ == "(" && digits.size() == 4 && end < text_.size() && text_[end] == ',')
      return true;  // (1406, "...")
    const std::string_view between = gap();
    const auto only = [&](std::string_view bytes) {
      return between.find_first_not_of(bytes) == std::string_view::npos;
    };
    const std::string next =
        lowered(text_.substr(std::min(text_.find_first_not_of(' ', end), text_.size()), 24));
    const bool http = digits.size() == 3 && digits[0] >= '1' && digits[0] <= '5';
    if (http && is_reason_phrase(next)) return true;
    if (last_word_.empty() && code_end_ != 0 && out_.size() - code_end_ <= 2 && digits.size() == 5)
      return true;
    if (announces_code(last_word_) && only(" :=([#\"'")) {
      const bool other = before_last_ == "postal" || before_last_ == "zip" || before_last_ == "country" ||
                         before_last_ == "coupon" || before_last_ == "promo" || before_last_ == "product" ||
                         before_last_ == "currency" || before_last_ == "discount";
      return !other;
    }
    if ((last_word_ == "error" || last_word_ == "err" || last_word_ == "msg" || last_word_ == "errors") &&
        only(" =([#") && digits.size() >= 2)
      return true;
    const bool told = last_word_ == "returned" || last_word_ == "responded" || last_word_ == "response" ||
                      last_word_ == "got" || last_word_ == "received" || last_word_ == "with" ||
                      last_word_ == "answered" || last_word_ == "replied" || last_word_ == "unexpected";
    const bool ends = next.empty() || !is_letter(next[0]);
    if (http && told && only(" :=([") && ends) return true;
    return http && http_line_ > 0 && out_.size() - http_line_ < 12;  // HTTP/1.1 404
  }

  void take_sign() {
    const char c = text_[at_];
    if (c == '[') {  // an IPv6 address, perhaps with a zone
      const std::size_t end = text_.find_first_of("] \n", at_);
      const std::string_view inside = text_.substr(at_ + 1, std::min(end, text_.size()) - at_ - 1);
      const bool hex = inside.find_first_not_of("0123456789abcdefABCDEF:.") == inside.find('%');
      if (end != std::string_view::npos && text_[end] == ']' && hex && std::ranges::count(inside, ':') >= 2) {
        at_ = end + 1;
        return star();
      }
    }
    if (c == '[' && text_.substr(at_).starts_with("[]")) {
      out_ += '[';
      at_ += 1;
      return star();
    }
    ++at_;
    sign(c);
  }
  void sign(char c) {
    if (static_cast<unsigned char>(c) >= 0x80 || static_cast<unsigned char>(c) < 0x20) return;
    if (c == '/' && last_word_ == "http") http_line_ = out_.size();
    if (c == '%' && after_star()) return;
    if (c == '*') return star();
    if (c == '=' && out_.ends_with('*')) return;  // base64's padding
    if (std::string_view(")],.").find(c) != std::string_view::npos && out_.ends_with(' ')) out_.pop_back();
    if (c == '(') in_tuple_ = out_.empty() || is_letter(out_.back());
    if (c == '(' && last_word_ == "contains") {  // a row
      at_ = std::min(text_.find_first_of(")\n", at_), text_.size());
      return star();
    }
    out_ += c;
  }

  const std::string_view text_;
  const int depth_;
  std::size_t at_ = 0;
  std::string out_, codes_;
  std::string last_word_, before_last_, key_;
  std::size_t star_end_ = 0, word_end_ = 0, code_end_ = 0, http_line_ = 0;
  bool part_of_name_ = false;      // "SHOP"."ORDERS"
  bool in_place_ = false;          // the value of a JSON key says where the error is
  bool in_tuple_ = false;          // after ( at the beginning, or of a call
  bool clear_since_star_ = false;  // nothing but blanks and punctuation since the last *
};

}  // namespace

std::string normalise(std::string_view text) { return Normaliser(text, 0).run(); }

std::string codes_of(std::string_view text) {
  Normaliser normaliser(text, 0);
  normaliser.run();
  return normaliser.codes();
}

}  // namespace rung::causes
