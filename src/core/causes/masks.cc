#include <re2/re2.h>

#include <algorithm>
#include <iterator>

#include "src/core/causes/parts.h"

namespace rung::causes {
namespace {

constexpr std::size_t kMostBytes = 2048;
// A mask sees at most so far, so that no text takes long: each match may read all of it.
constexpr std::size_t kWindow = 256;

// Of all expressions that match at a place, the first in this order decides.
// clang-format off

// After what announces a value: that stays, the value goes.
struct Announced {
  const char* stays;
  const char* value;
};
constexpr Announced kAnnounced[] = {
    {R"(\b(?i:entry|value|string|input|parsing|text|float|integer|int\(\)|integer\(\)|date|type \w+|base \d+|(?:given|with) key|input_value|vhost)\b(?:: ?| |=)(?:was )?)", R"((?:"[^"\n]*"|'[^'\n]*'|`[^`\n]*`))"},
    {R"(\b(?i:account|article|asset|batch|carrier|city|client|company|contact|country|currency|customer|device|driver|file|invoice|item|language|locale|merchant|meter|order|parcel|patient|payee|product|region|room|sensor|shipment|site|sku|station|store|supplier|tag|tenant|topic|user|vehicle|voucher|warehouse|zone)\b(?:: ?| |=))", R"((?:"[^"\n]*"|'[^'\n]*'|`[^`\n]*`))"},
    {R"(\b(?:lookup|ENOTFOUND|EAI_AGAIN|resolve(?: host)?:?) )", R"(["']?[\w.-]+["']?)"},
    {R"(\b(?i:host|hostname|server|node|peer|pod|user|tenant)=)", R"(["']?[^\s"',;)]+)"},
    {R"([Ii][Dd]["']?(?:: ?|=))", R"(["']?[\w+/=-]{3,}["']?)"},
    {R"(\[Source: )", R"(.*?column: \d+\])"},
    {R"((?:Failing row contains |\b(?i:values) ?|\)=|parameters: ))", R"([(\[{].*?[)\]}])"},
};

// Codes and names with digits stay.
constexpr const char* kStays[] = {
    R"(\b(?:add|added|bad|dead|decade|faced?|faded?|fed|feed?|bed|cafe|deed)\b)",
    R"([\[(]{0,2}\b(?i:http(?:/[\d.]+)?|status|status ?code|errno|os error|error code|exit code|exit status|exited with(?: code| status)?|killed by signal|signal|reply-code|sqlstate|sqlcode|curl:|curl error|code|hresult|error)\b["']?(?:: ?| |=|\[|\(|: \(| \(|->){0,3}["']?(?:-?\d{1,5}|0x8\w{7}|[0-9A-Z]{5})\b)",
    R"([\[(]{0,2}\b(?i:returned|responded with|got|answered|failed with)(?: status| code)?[ :]{1,2}["'(]?[1-5]\d\d\b)",
    R"(\bMsg \d{1,5}\b)",
    R"(\b[1-5]\d\d (?:[245]\.\d{1,2}\.\d{1,3}\b|[A-Z][a-z]+))",
    R"(\B\((?:\d{1,3}\)|\d{1,4}, ?b?["']))",
    R"((?:(?:->|→) [1-5]|: [45])\d\d$)",
    R"(\b(?:ORA|PLS|TNS|E|CS|TS|AADSTS|SQL|DPY|PGRST|ERR)-?\d{3,6}[A-Z]?\b)",
    R"(\b(?i:utf-?(?:8|16|32)|utf8mb\d|iso-?8859-?\d+|sha-?(?:1|256|384|512)|md5|u?int(?:8|16|32|64)|float(?:32|64)|base64|http[/]?[123](?:\.[01])?|ipv[46]|x509|ec2|s3|oauth2|v[1-9]|tls1?|i18n|k8s|p12|log4j|h2)\b)",
    R"(\b(?:[A-Za-z_]\w*\.)+[A-Z]\w*)",
    R"(\b[A-Z][a-z]+\d{1,2}[A-Z][A-Za-z]+\b)",
};

// Values go.
constexpr const char* kGoes[] = {
    "\x1a",
    // what may be said or not
    R"([\[(,;]? ?\b(?i:attempt|try|retry)[ =:#]{1,2}\d+(?: ?(?:of|/) ?\d+)?[)\]]?)",
    R"(\[\]|\{\}|''|"")",
    R"(=\{[^{}\n]*\})",
    // places: URLs, addresses, hosts, paths, files
    R"(\b[a-z][a-z0-9+.-]*://[^\s"'<>`)\]},]*[^\s"'<>`)\]},.:;])",
    R"(["']?[\w\x80-\xff.+%'-]+@[\w\x80-\xff-]+(?:\.[\w\x80-\xff-]+)+["']?)",
    R"(\b[A-Za-z][\w-]*(?:\.[\w-]+)*\.(?:internal|local|svc|com|net|org|io|de|lan|example|test)\b\.?(?:[:/][\w.:\[\]]*\d)?)",
    R"(\b(?:localhost\b|[A-Za-z][\w-]*(?:\.[\w-]+)*)(?:/[\w.\[\]:]*)?:\d{2,5}\b)",
    R"(\B(?:[.~]{1,2})?[\\/](?:[\w\x80-\xff.@%+~$-]+[\\/])*[\w\x80-\xff.@%+~*:-]+)",
    R"(\b[A-Za-z]:\\[^\s"'<>|]*)",
    R"(\b[\w-]+(?:[/.][\w-]+)*\.(?:csv|json|xml|txt|pdf|edi|zip|png|jpg|tmp|xlsx|log|gz|parquet)\b)",
    // text in brackets or quotes that contains digits
    R"(<[^<>\n]*>)",
    R"([\[(][^()\[\]\n"'=:]*\d[^()\[\]\n"'=:]*[)\]])",
    R"([\[(](?:[A-Za-z]+[ :]+){0,2}[^\s()\[\]=]*\d[^\s()\[\]=]*(?:, (?:[A-Za-z]+[ :]+){0,2}[^\s()\[\]=]*\d[^\s()\[\]=]*)*[)\]])",
    R"(["'`][^"'`()\[\]{}:,=\n]*[\d\x80-\xff][^"'`()\[\]{}=\n]*["'`])",
    // dates
    R"(\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?(?:\d{1,2}[ /-])?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}[ /-]\d{1,4}(?:,? ?\d{4})?(?:[ :]\d\d:\d\d(?::\d\d)?)?(?: [AP]M)?(?: [A-Z]{3,4})?(?: \d{4}| [+-]\d{4})?)",
    R"(\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?: ?(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)\b)?)",
    // numbers and ids
    R"([-+]?(?:\b[A-Z]{3} |(?:[$]|€|£|¥) ?)?\b\d(?:[\d.,'_ ]|’|\xc2\xa0|\xe2\x80\xaf)*(?: ?(?:%|[$]|€|£|¥|zł|Kč)| ?(?:[kKMGT]?i?B|[num]?s|secs?|seconds?|milliseconds|min|minutes?|hours?|days?|bytes?|kr)\b|\b))",
    R"([\w-]*\d[\w-]*(?:[.:/@#+%=~]+[\w-]+)*=*)",
    R"(\b(?:[0-9a-f]{7,}|[a-f]{3,6}|[A-Za-z])\b)",
    R"(\b(?:EUR|USD|GBP|CHF|PLN|CZK|HUF|SEK|NOK|DKK|JPY|CNY|CAD|AUD)\b)",
};
// clang-format on

std::string joined(std::string out, std::string_view expression) {
  if (!out.empty()) out += "|";
  return out.append("(?:").append(expression).append(")");
}

RE2::Options options() {
  RE2::Options out;
  out.set_encoding(RE2::Options::EncodingLatin1);
  out.set_max_mem(std::int64_t{32} << 20U);
  return out;
}

struct Masks {
  RE2 announced, stays, all;
};

const Masks& masks() {
  static const Masks* const compiled = [] {
    std::string announced, stays, all;
    for (const Announced& one : kAnnounced) {
      announced = joined(announced, one.stays);
      all = joined(all, std::string(one.stays) + one.value);
    }
    for (const char* one : kStays) {
      stays = joined(stays, one);
      all = joined(all, one);
    }
    for (const char* one : kGoes) all = joined(all, one);
    return new Masks{RE2(announced, options()), RE2(stays, options()), RE2(all, options())};
  }();
  return *compiled;
}

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_letter(char c) { return is_upper(c) || is_lower(c); }
bool is_word(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

// Letters that are an id, not a word: without vowels, with many consonants in a row, or with capitals all
// over.
bool is_random(std::string_view word) {
  int letters = 0, vowels = 0, run = 0, longest = 0, humps = 0, lower = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (c == '_' || c == '-') {
      run = 0;
      continue;
    }
    if (!is_letter(c)) return false;
    const bool vowel = std::string_view("aeiouyAEIOUY").find(c) != std::string_view::npos;
    ++letters;
    vowels += vowel ? 1 : 0;
    lower += is_lower(c) ? 1 : 0;
    run = vowel ? 0 : run + 1;
    longest = std::max(longest, run);
    humps += i > 0 && is_upper(c) && !is_upper(word[i - 1]) ? 1 : 0;
  }
  if (letters < 6 || word.find("http") != std::string_view::npos ||
      word.find("HTTP") != std::string_view::npos)
    return false;
  return vowels == 0 || longest >= 6 || (lower == 0 && vowels * 6 <= letters) ||
         (humps >= 2 && letters < (humps + 1) * 3) || (humps >= 3 && letters < (humps + 1) * 4);
}

class Words {
 public:
  void add(std::string_view text) {
    for (std::size_t i = 0, end = 0; i < text.size(); i = std::max(end, i + 1)) {
      for (end = i; end < text.size() && continues(text, i, end);) ++end;
      if (end > i) add_word(text.substr(i, end - i));
    }
  }
  void add_value() {
    if (!out_.empty() && !out_.ends_with('*')) out_ += " *";
  }
  bool full() const { return out_.size() >= kTextBytes; }
  std::string done() {
    if (out_.ends_with(" *")) out_.resize(out_.size() - 2);
    if (full()) out_.resize(kTextBytes);
    return std::move(out_);
  }

 private:
  // "a.b-c" is one word.
  static bool continues(std::string_view text, std::size_t begin, std::size_t at) {
    if (is_word(text[at])) return true;
    return (text[at] == '.' || text[at] == '-') && at > begin && at + 1 < text.size() &&
           is_word(text[at + 1]);
  }
  void add_word(std::string_view word) {
    if (is_random(word)) return add_value();
    if (!out_.empty()) out_ += ' ';
    for (const char c : word) out_ += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  }

  std::string out_;
};

// Of `text`, as much as `expression` matches at its beginning.
std::size_t matched(const RE2& expression, const re2::StringPiece& text) {
  re2::StringPiece found;
  return expression.Match(text, 0, text.size(), RE2::ANCHOR_START, &found, 1) ? found.size() : 0;
}

}  // namespace

std::string masked(std::string_view text) {
  text = text.substr(0, kMostBytes);
  const Masks& m = masks();
  const re2::StringPiece whole(text.data(), text.size());
  Words words;
  for (std::size_t at = 0; at < text.size() && !words.full();) {
    const std::size_t end = std::min(at + kWindow, text.size());
    re2::StringPiece found;
    if (!m.all.Match(whole, at, end, RE2::UNANCHORED, &found, 1)) {
      const std::size_t blank = end == text.size() ? end : text.substr(0, end).find_last_of(" \n\t");
      const std::size_t next = blank == std::string_view::npos || blank <= at ? end : blank;
      words.add(text.substr(at, next - at));
      at = next;
      continue;
    }
    const auto from = static_cast<std::size_t>(found.data() - text.data());
    words.add(text.substr(at, from - at));
    std::size_t stays = matched(m.announced, found);
    if (stays == 0 && matched(m.stays, found) == found.size()) stays = found.size();
    words.add(text.substr(from, stays));
    if (stays < found.size()) words.add_value();
    at = from + found.size();
  }
  return words.done();
}

}  // namespace rung::causes
