#include "src/core/causes/fingerprint.h"

#include <re2/re2.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"

namespace rung {

namespace causes {
namespace {

constexpr std::size_t kTextBytes = 1000;
// Replaces a value that the user's masks have matched (CauseRules::mask).
constexpr char kMasked = '\x1a';

// --- what stays of a message without its values

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
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
char lowered(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

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
    for (const char c : word) out_ += lowered(c);
  }

  std::string out_;
};

// Of `text`, as much as `expression` matches at its beginning.
std::size_t matched(const RE2& expression, const re2::StringPiece& text) {
  re2::StringPiece found;
  return expression.Match(text, 0, text.size(), RE2::ANCHOR_START, &found, 1) ? found.size() : 0;
}

// `text` without what varies: words in lower case with one blank between them, and a * for values side by
// side, except at the beginning and at the end. At most kTextBytes, of the first 2 KB of `text`.
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

// --- the stack trace, by a table of what its lines look like in each language

struct Trace {
  std::string message;  // of the exception that caused the others, with its type where the language has one
  std::string frame;    // the first that is neither the language's nor a framework's; empty: all are
};

using re2::StringPiece;

constexpr std::size_t kMostLines = 400, kLongestLine = 2000;

// How a frame is named.
enum class Named { function, file_and_function, file };

// A kind of line. The first that fits decides; `foreign` is asked before `line`.
struct Form {
  std::string_view begins;  // literally
  const char* foreign;      // beginnings of lines with frames of the language or of a framework; "" = by file
  const char* line;         // all of a line; its groups: function, file
  Named named = Named::function;
  bool file_first = false, innermost_last = false;
};

// clang-format off
constexpr Form kForms[] = {
    // Java, Kotlin, Scala, Clojure
    {"at ", R"(at (?:java\.|(?:\w+/+)?(?:javax?|jakarta|sun|com\.sun|jdk|kotlinx?|scala|akka|groovy|clojure|reactor|rx|feign|okhttp3|okio|retrofit2|redis\.clients|oracle|liquibase|slick|play|cats|zio|graphql|org\.(?:springframework|apache|hibernate|postgresql|jboss|wildfly|junit|eclipse|slf4j|bson|jooq|elasticsearch|aspectj|mariadb|glassfish|h2|mongodb|quartz|yaml|codehaus|mybatis|gradle|thymeleaf|http4s|jetbrains|sqlite|redisson|flywaydb|axonframework)|com\.(?:rabbitmq|fasterxml|google|mysql|zaxxer|amazonaws|mongodb|microsoft|datastax|netflix|hazelcast|squareup|stripe|azure|twilio|oracle|ibm|typesafe|nimbusds|auth0|github\.benmanes)|io\.(?:netty|micrometer|grpc|lettuce|vertx|quarkus|micronaut|github\.resilience4j|reactivex|projectreactor|opentelemetry|smallrye|ktor|confluent|awspring|sentry|nats|r2dbc)|software\.amazon|ch\.qos|net\.bytebuddy|net\.sf|dev\.failsafe)[./]|\S*(?:\$\$Lambda|\$Proxy))[^\s]*\()",
     R"(at (?:[\w.@-]*/+)*([\w.$<>-]+)\((?:[\w$.-]+\.(?:java|kt|scala|groovy|clj)|Native Method|Unknown Source|<generated>|SourceFile|NO_SOURCE_FILE)(?::\d+)?\).*())"},
    // Node
    {"at ", R"(at (?:async )?(?:process\.|.*\((?:native|<anonymous>|index \d+)\)))", R"(at (?:async )?(?:new )?(.*?) \(([^()]+):\d+:\d+\).*)"},
    {"at ", R"(at (?:async )?(?:node:|native))", R"(at (?:async )?()([^()\s]+):\d+:\d+.*)", Named::file},
    // PHP (Symfony)
    {"at ", R"(at (?:Symfony|Doctrine|Illuminate)\\)", R"(at ([\w\\]+(?:->|::)\w+)\(.*\) \((.*):\d+\))"},
    // .NET
    {"at ", R"(at (?:(?:System|Microsoft|MassTransit|NServiceBus|RabbitMQ|Newtonsoft|Npgsql|MySql\w*|Dapper|Polly|EasyNetQ|StackExchange|Rebus|Azure|Amazon|MediatR|AutoMapper|Grpc|Castle|FluentValidation|MongoDB|Confluent|Oracle|Serilog|Refit|Wolverine|Hangfire|Quartz|GreenPipes|Autofac|Stripe|RestSharp|Flurl|Marten|Elastic\w*|Nest|NHibernate|Interop|Internal|Google|CsvHelper|MailKit|MimeKit|Akka|OpenTelemetry|Sentry)\.|lambda_method))",
     R"(at ([\w.<>`+\[\],|$]+)\(.*\)(?: in .*)?())"},
    // Python
    {"File \"", "", R"re(File "([^"]+)", line \d+(?:, in (.+))?)re", Named::file_and_function, true, true},
    // PHP
    {"#", R"(#\d+ (?:\{main\}|(?:\S+\(\d+\)|\[internal function\]): (?:(?:Illuminate|Symfony|Doctrine|Laravel|GuzzleHttp|PhpAmqpLib|Monolog|Composer|Enqueue|Interop|Zend|Laminas|Predis|Carbon|Psr|Twig|League|React|Amp|Swoole|Hyperf|Cake|Nette|Ramsey|Aws|Stripe|MongoDB|Spatie)\\|PDO|mysqli|Soap|Reflection|Yii|AMQP|DateTime|[a-z_0-9]+\()))",
     R"(#\d+ (\S+)\(\d+\): ([\w\\]+(?:\{closure[^}]*\})?(?:(?:->|::)[\w{}\\:]+)?).*)", Named::function, true},
    // C++: gdb, Boost
    {"#", R"(#\d+ +(?:0x[0-9a-f]+ in )?(?:std::|boost::|_|raise|abort|pthread_|kill|clone|malloc|free|operator|main |g_|gsignal|start_thread|\?\?))", R"(#\d+ +(?:0x[0-9a-f]+ in )?([\w:~<>]+).*?\)(?: (?:at|from) (\S+))?)"},
    {"", R"(\d{1,3}# (?:std::|boost::|0x|_|raise|abort|main))", R"(\d{1,3}# ([\w:~<>]+).*?(?: (?:at|in) (\S+))?)"},
    // Rust
    {"", R"(\d{1,3}: (?:0x[0-9a-f]+ - )?<?(?:(?:core|std|alloc|tokio\w*|futures\w*|hyper\w*|lapin|sqlx\w*|reqwest|tracing\w*|serde\w*|anyhow|actix\w*|axum|tower\w*|tonic|backtrace|eyre|diesel|rayon\w*|rdkafka|redis|h2|rustls)::|rust_|_|clone|start_thread|main$|F |&))",
     R"(\d{1,3}: (?:0x[0-9a-f]+ - )?(<?[\w:<>{}\[\]., &*-]+)())"},
    // Elixir
    {"(", R"(\((?:elixir|stdlib|kernel|phoenix\w*|ecto\w*|db_connection|broadway\w*|amqp\w*|plug\w*|postgrex|myxql|jason|gen_stage|cowboy|finch|mint|tesla|hackney|oban|logger|telemetry|req|redix|crypto|ssl) )",
     R"(\(\w+ [\d.]+\S*\) \S+:\d+: ((?:anonymous fn/\d+ in )?[\w.?!:]+).*())"},
    // Ruby
    {"", "", R"((?:from )?(\S+?):\d+:in [`']([^']+)'.*)", Named::file_and_function, true},
};
constexpr char kForeignFiles[] =
    R"(node_modules|node:|site-packages|dist-packages|/lib/python|<frozen|<string>|/gems/|/lib/ruby/|<internal:|vendor/|/pkg/mod/|/usr/lib|/usr/local/(?:go|lib)/|/rustc/|\.cargo/|/goroot/|/usr/include|/lib/x86_64|/lib64/|webpack/(?:bootstrap|runtime)|\((?:internal|deps)/|libc\.so|libstdc|\.nuget|/usr/share/php)";
constexpr char kForeignGo[] =
    R"((?:created by )?(?:panic\(|(?:runtime|net|database|encoding|reflect|sync|io|bufio|bytes|context|crypto|testing|os|syscall|strconv|errors|fmt|sort|strings|time|internal|math|text|html|log|regexp|hash|compress|mime|slices|maps)[./]|golang\.org/x/|google\.golang\.org/|go\.uber\.org/|go\.mongodb\.org/|gorm\.io/|k8s\.io/|cloud\.google\.com/|github\.com/(?:rabbitmq|streadway|gin-gonic|labstack|jackc|lib/pq|go-sql-driver|pkg/errors|redis|sirupsen|aws|gorilla|go-chi|stretchr|jmoiron|spf13|segmentio|nats-io|hashicorp|valyala|gofiber|uptrace|elastic|stripe|prometheus|getsentry|ThreeDotsLabs|IBM)/))";
constexpr char kForeignErlang[] = R"(gen_|proc_lib|gen$|lists|maps|erlang|ets|supervisor|timer|amqp|rabbit|ssl|inet|io|erl_|httpc|hackney|cowboy|jsx|binary|base64)";
// What compilers add to a name.
constexpr char kDecoration[] =
    R"(<(\w+)>[a-z]__\w*|\$?lambda\$(?:\d+\b)?|\$\$\w+|\$\d+|<>c\w*\.?|\.MoveNext|\.invokeSuspend|\.(?:func|gowrap|deferwrap)\d+(?:\.\d+)*|\{\{closure\}\}|::h[0-9a-f]{16}|(?:block |rescue |ensure )(?:\(\d+ levels\) )?in |anonymous fn/\d+ in | \[as .*\]|\([^*)]*\)|<[^<>]*>|`\d+|^Object\.)";
// clang-format on

struct Expressions {
  std::deque<RE2> foreign, lines;  // by form
  RE2 foreign_file{kForeignFiles}, foreign_go{kForeignGo}, foreign_erlang{kForeignErlang};
  RE2 decoration{kDecoration};
  RE2 go{R"((?:created by )?([\w./%\[\]-]+(?:\(\*?\w+\)[\w./\[\]-]*)?)(?:\(.*\))?(?: in goroutine \d+)?)"};
  RE2 go_file{R"(\s*\S+\.go:\d+.*)"};
  RE2 erlang{R"(\{(\w+),'?([\w/-]+)'?,\d+,\[\{file,)"};
  RE2 php_place{R"( (?:in|at) (\S+\.php)(?::| on line |\()\d+)"};
  RE2 rust_place{R"(panicked at (?:'.*', )?([^\s:']+\.rs):)"};
  RE2 old_panic{R"((?s)panicked at '(.*)', \S+\.rs:)"};
  RE2 ruby_message{R"(.*?:in [`'][^']*': (.*?)(?: \(([\w:]+)\))?)"};

  Expressions() {
    for (const Form& form : kForms) {
      foreign.emplace_back(form.foreign);
      lines.emplace_back(form.line);
    }
  }
};
const Expressions& expressions() {
  static const Expressions* const all = new Expressions;
  return *all;
}

StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }
std::string_view view(const StringPiece& text) { return {text.data(), text.size()}; }
bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
bool begins_with(const RE2& expression, std::string_view text) {
  return expression.Match(piece(text), 0, text.size(), RE2::ANCHOR_START, nullptr, 0);
}

// Without blanks around it, and what draws the tree of an exception group.
std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kAround = " \t\r|";
  line.remove_prefix(std::min(line.find_first_not_of(kAround), line.size()));
  return line.substr(0, line.find_last_not_of(kAround) + 1);
}

// "/app/src/orders.ship.js" -> "orders".
std::string_view stem_of(std::string_view file) {
  file = file.substr(file.find_last_of("/\\") + 1);
  return file.substr(0, file.find('.', 1));
}

// In lower case, with dots between its parts.
std::string dotted(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (is_word(c)) {
      out += lowered(c);
    } else if (!out.empty() && out.back() != '.') {
      out += '.';
    }
  }
  if (out.ends_with('.')) out.pop_back();
  return out;
}

std::string name_of(Named named, std::string_view function, std::string_view file) {
  std::string name(function);
  RE2::GlobalReplace(&name, expressions().decoration, "\\1");
  if (named == Named::function && !name.empty()) return dotted(name);
  const std::string stem = dotted(stem_of(file));
  name = dotted(std::string_view(name).substr(name.find_last_of("#.") + 1));
  return named == Named::file_and_function && !name.empty() ? stem + "." + name : stem;
}

struct Frame {
  std::string name = {};  // empty: it is the language's or a framework's
  bool innermost_last = false;
};

// Whether `text` may be of this form, cheaply.
bool may_be(const Form& form, std::string_view text) {
  if (!form.begins.empty()) return text.starts_with(form.begins);
  return form.named == Named::function ? is_digit(text[0]) : contains(text, ":in ");
}

// The frame that `line` is; `next`: the line after it, which has the file in Go and Rust.
std::optional<Frame> frame_of(std::string_view line, std::string_view next) {
  const std::string_view text = trimmed(line);
  if (text.size() < 4 || text.size() > kLongestLine) return std::nullopt;
  const Expressions& all = expressions();
  for (std::size_t i = 0; i < std::size(kForms); ++i) {
    const Form& form = kForms[i];
    if (!may_be(form, text)) continue;
    if (form.foreign[0] != '\0' && begins_with(all.foreign[i], text)) return Frame{};
    StringPiece function, file;
    if (!RE2::FullMatch(piece(text), all.lines[i], &function, &file)) continue;
    const bool place_below = trimmed(next).starts_with("at ") && is_digit(text[0]);
    if (RE2::PartialMatch(piece(text), all.foreign_file) ||
        (place_below && RE2::PartialMatch(piece(next), all.foreign_file)))
      return Frame{{}, form.innermost_last};
    if (form.file_first) std::swap(function, file);
    return Frame{name_of(form.named, view(function), view(file)), form.innermost_last};
  }
  StringPiece function;
  if (!contains(next, ".go:") || !RE2::FullMatch(piece(next), all.go_file) ||
      !RE2::FullMatch(piece(text), all.go, &function) || !(contains(text, ".") || text.starts_with("panic(")))
    return std::nullopt;
  if (begins_with(all.foreign_go, text) || RE2::PartialMatch(piece(next), all.foreign_file)) return Frame{};
  return Frame{name_of(Named::function, view(function), {})};
}

// Also where newlines have been escaped, as in JSON.
std::vector<std::string_view> lines_of(std::string_view text) {
  const bool escaped = !contains(text, "\n");
  const std::string_view separator = escaped ? "\\n" : "\n";
  std::vector<std::string_view> out;
  for (std::size_t from = 0; from < text.size() && out.size() < kMostLines;) {
    const std::size_t to = std::min(text.find(separator, from), text.size());
    out.push_back(text.substr(from, to - from));
    while (escaped && out.back().starts_with("\\t")) out.back().remove_prefix(2);
    from = to + separator.size();
  }
  return out;
}

// Prefixes of the root cause in a chain of exceptions.
constexpr std::string_view kCauses[] = {"Caused by: ", "[cause]: ", "---> ", "[previous exception]",
                                        "Traceback (most recent call last)"};

class Reader {
 public:
  explicit Reader(std::string_view error) : error_(error), lines_(lines_of(error)), first_(lines_.size()) {}

  std::optional<Trace> read() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const std::string_view text = trimmed(lines_[i]);
      if (std::ranges::any_of(kCauses, [&](std::string_view begin) { return text.starts_with(begin); }))
        cause_ = i;
    }
    if (lines_.size() > 1) walk(cause_, lines_.size());
    if (frame_.empty() && cause_ > 0) {  // those around it
      const std::size_t first = first_, last = last_;
      walk(0, cause_);
      if (first < lines_.size()) first_ = first, last_ = last;
    }
    if (first_ == lines_.size()) return without_frames();
    return Trace{message(), frame_};
  }

 private:
  // Finds the first own frame of these lines; of Python's, the last.
  void walk(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      const std::string_view text = trimmed(lines_[i]);
      const bool ends = text.starts_with("goroutine ") || text.starts_with("Suppressed: ");
      if (ends && (!frame_.empty() || first_ < i)) return;
      const auto frame = frame_of(lines_[i], i + 1 < lines_.size() ? lines_[i + 1] : std::string_view());
      if (!frame) continue;
      first_ = std::min(first_, i);
      last_ = i;
      if (!frame->name.empty()) frame_ = frame->name;
      if (!frame_.empty() && !frame->innermost_last) return;
    }
  }

  std::string message() const {
    const Expressions& all = expressions();
    if (trimmed(lines_[cause_]).starts_with("Traceback")) {
      for (std::size_t i = last_ + 1; i < lines_.size(); ++i) {
        if (!lines_[i].empty() && lines_[i][0] != ' ') return std::string(lines_[i]);
      }
    }
    const std::size_t from = first_ < cause_ ? 0 : cause_;
    std::string text, type;
    if (first_ == from) {  // Ruby
      RE2::FullMatch(piece(trimmed(lines_[first_])), all.ruby_message, &text, &type);
      return type.empty() ? text : type + ": " + text;
    }
    text.assign(lines_[from].data(), lines_[first_].data());
    for (const std::string_view mark : kCauses) {
      if (const std::size_t at = text.rfind(mark); at != std::string::npos) text.erase(0, at + mark.size());
    }
    return text;
  }

  // Erlang's stand in one term; PHP and Rust may say only where.
  std::optional<Trace> without_frames() const {
    const Expressions& all = expressions();
    StringPiece rest = piece(error_), name, function;
    std::string frame;
    if (contains(error_, ",[{file,")) {
      while (frame.empty() && RE2::FindAndConsume(&rest, all.erlang, &name, &function)) {
        if (!begins_with(all.foreign_erlang, view(name)))
          frame = std::string(name) + "." + std::string(function);
      }
      return Trace{std::string(error_.substr(0, error_.find("[{"))), frame};
    }
    StringPiece file;
    const bool rust = contains(error_, "panicked at ") && RE2::PartialMatch(rest, all.rust_place, &file);
    if (!rust && (!contains(error_, ".php") || !RE2::PartialMatch(rest, all.php_place, &file)))
      return std::nullopt;
    if (!RE2::PartialMatch(file, all.foreign_file)) frame = dotted(stem_of(view(file)));
    std::string text(error_);
    if (rust && !RE2::PartialMatch(rest, all.old_panic, &text)) text = lines_.size() > 1 ? lines_[1] : "";
    return Trace{text, frame};
  }

  const std::string_view error_;
  const std::vector<std::string_view> lines_;
  std::size_t cause_ = 0;         // the line where the exception begins that caused the others
  std::size_t first_, last_ = 0;  // its frames' lines
  std::string frame_;
};

// nullopt: `error` has no stack trace. Of several exceptions, the one that caused the others: Java's last
// "Caused by", .NET's innermost, Node's [cause], and in Python the one that is printed last.
std::optional<Trace> find_trace(std::string_view error) { return Reader(error).read(); }

}  // namespace
}  // namespace causes

namespace {

constexpr std::size_t kMostBytes = 16 * 1024;  // kErrorBytes, src/core/task/task.h
constexpr std::size_t kShownBytes = 500;
constexpr std::size_t kIdBytes = 6;

// The colours of a terminal, and what else an escape character begins.
std::string without_escapes(std::string_view error) {
  std::string text(error);
  if (text.find('\x1b') == std::string::npos) return text;
  static const RE2* const escapes =
      new RE2(R"(\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)?)");
  RE2::GlobalReplace(&text, *escapes, "");
  return text;
}

}  // namespace

std::optional<std::string> CauseRules::name_of(std::string_view error) const {
  const auto rule = std::ranges::find_if(
      rules_, [&](const CauseRule& one) { return !one.name.empty() && one.regex.matches(error); });
  if (rule == rules_.end()) return std::nullopt;
  return rule->name;
}

void CauseRules::mask(std::string& text) const {
  for (const CauseRule& rule : rules_) {
    if (rule.name.empty()) RE2::GlobalReplace(&text, *rule.regex.compiled, std::string(1, causes::kMasked));
  }
}

std::string cause_text(std::string_view error, const CauseRules* rules) {
  const std::string whole = without_escapes(error.substr(0, kMostBytes));
  if (rules != nullptr) {
    if (auto name = rules->name_of(whole)) return *std::move(name);
  }
  auto trace = causes::find_trace(whole);
  std::string message = whole;
  if (trace) message = std::move(trace->message);
  if (rules != nullptr) rules->mask(message);
  std::string text = causes::masked(message);
  if (trace && !trace->frame.empty()) text.append(text.empty() ? "in " : " in ").append(trace->frame);
  return text;
}

Fingerprint fingerprint_of(std::string_view queue, std::string_view error_type, const std::string& text) {
  std::string facts;
  facts.reserve(queue.size() + error_type.size() + text.size() + 24);
  append_field(facts, queue);
  append_field(facts, error_type);
  append_field(facts, text);
  return {to_hex(sha256(facts), kIdBytes), clean_utf8(text, kShownBytes)};
}

Fingerprint fingerprint(std::string_view queue, std::string_view error_type, std::string_view error,
                        const CauseRules* rules) {
  return fingerprint_of(queue, error_type, cause_text(error, rules));
}

}  // namespace rung
