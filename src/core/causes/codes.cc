// Which numbers say what happened, and stay.
#include <algorithm>

#include "src/core/causes/folded.h"
#include "src/core/causes/normaliser.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kLongestCode = 6;       // digits
constexpr std::size_t kLongestNegative = 10;  // of an HRESULT: -2147467259

}  // namespace

std::string_view Normaliser::after(std::size_t end) const {
  while (end < text_.size() && (is_blank(text_[end]) || text_[end] == ')' || text_[end] == ']') &&
         text_[end] != '\n')
    ++end;
  return text_.substr(std::min(end, text_.size()));
}

bool Normaliser::is_code(std::string_view number, std::size_t end) const {
  const bool negative = (gap_ & kMinus) != 0 && before() == '-';
  if (number.size() > (negative ? kLongestNegative : kLongestCode)) return false;
  const bool http = number.size() == 3 && number[0] >= '1' && number[0] <= '5';
  if (http && begins_with_reason(text_.substr(end))) return true;
  if (http && is_mail_status(end)) return true;
  // GET /v1/orders/7 -> 404
  if (http && number[0] >= '4' && last_is_star_ && past_is(0, role::kMethod)) {
    const std::string_view next = after(end);
    return next.empty() || !is_letter(next[0]);
  }
  if ((gap_ & kStar) == 0) {
    // ERROR 1062 (23000)
    if (code_before_ && number.size() == 5 && (gap_ & kOpen) != 0) return true;
    const bool near = (gap_ & (kStop | kComma | kOther)) == 0;
    if (near && past_is(0, role::kCode) &&
        !(past_is(0, role::kStatus | role::kCode) && past_is(1, role::kOtherCode))) {
      const std::string_view next = after(end);
      const bool unit = past_is(0, role::kStatus) && !http && next.starts_with('/');
      return !unit;
    }
    if (near && past_is(0, role::kError) && (gap_ & kColon) == 0 &&
        (number.size() >= 2 || at(end) == ':' || at(end) == ')')) {
      // Error 1062: ..., but not: error 12 orders
      const std::string_view next = after(end);
      return next.empty() || !is_letter(next[0]) || (gap_ & kOpen) != 0;
    }
    if (past_word(0) == "msg" && begins_with(text_.substr(end), ", level")) return true;
    // curl: (28), pymysql.err.OperationalError: (2006, "...")
    if ((gap_ & kOpen) != 0 && before() == '(') {
      const char close = at(end);
      const std::size_t quote = text_.find_first_not_of(' ', end + 1);
      if (close == ',' && quote != std::string_view::npos && (text_[quote] == '"' || text_[quote] == '\''))
        return true;
      if (close == ')' && past_word(0) == "curl") return true;
    }
  }
  return http && is_status(end);
}

// error code PAY-1003, reason code: R12; not of "code AB12" alone, which may be data.
bool Normaliser::announces_code(std::string_view token) const {
  if (past_word(0) == "reason" || (past_is(0, role::kError) && (gap_ & kColon) == 0))
    return is_numbered(token);
  return past_is(0, role::kCode) && (past_word(0) != "code" || past_is(1, role::kResult)) &&
         !past_is(1, role::kOtherCode);
}

// Whether words nearby speak of a response.
bool Normaliser::is_status(std::size_t end) const {
  if ((gap_ & (kStar | kStop | kComma)) != 0) return false;
  const std::string_view next = after(end);
  std::size_t letters = 0;
  while (letters < next.size() && is_letter(next[letters])) ++letters;
  const Roles following = Folded(next.substr(0, letters)).roles();
  const bool ends = letters == 0 || (following & role::kAfterStatus) != 0;
  // 200 ms, 150 orders; 503/504, 250%, 1.5
  if (at(end) == '%' || ((at(end) == '.' || at(end) == ',') && is_digit(at(end + 1)))) return false;
  if ((following & (role::kUnit | role::kCurrency)) != 0) return false;
  for (std::size_t i = 0; i < 2; ++i) {
    if (past_is(i, role::kStatus) && !past_is(i + 1, role::kOtherCode)) return ends || i == 0;
  }
  return ends && past_is(0, role::kAnswer) &&
         ((gap_ & kColon) == 0 || past_is(0, role::kStatus) || !past_is(0, role::kError) || letters == 0);
}

// 550 5.1.1 User unknown
bool Normaliser::is_mail_status(std::size_t end) const {
  const char first = at(at_);
  if ((first != '2' && first != '4' && first != '5') || (at(end) != ' ' && at(end) != '-')) return false;
  return at(end + 1) == first && at(end + 2) == '.' && is_digit(at(end + 3)) &&
         (at(end + 4) == '.' || (is_digit(at(end + 4)) && at(end + 5) == '.'));
}

}  // namespace rung::causes
