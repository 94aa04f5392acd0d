#include "src/core/causes/fingerprint.h"

#include <re2/re2.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "src/core/message/identity.h"

namespace rung {

namespace causes {
namespace {

using re2::StringPiece;

constexpr std::size_t kTextBytes = 1000;
// Replaces a value that the user's masks have matched (CauseRules::mask).
constexpr char kMasked = '\x1a';

// --- what stays of a message without its values

constexpr std::size_t kMostBytes = 2048;
// A mask sees at most so far, so that no text takes long: each match may read all of it.
constexpr std::size_t kWindow = 256;

// Of all expressions that match at a place, the first in this order decides.
// clang-format off

// Words, codes and names stay, values go.
struct Mask {
  const char* stays;
  const char* goes;
};
constexpr Mask kMasks[] = {
    // what announces a value
    {R"(\b(?i:entry|value|string|input|parsing|text|float|integer|int\(\)|integer\(\)|date|type \w+|base \d+|(?:given|with) key|input_value|vhost)\b(?:: ?| |=)(?:was )?)", R"((?:"[^"\n]*"|'[^'\n]*'|`[^`\n]*`))"},
    {R"(\b(?i:account|article|asset|batch|carrier|city|client|company|contact|country|currency|customer|device|driver|file|invoice|item|language|locale|merchant|meter|order|parcel|patient|payee|product|region|room|sensor|shipment|site|sku|station|store|supplier|tag|tenant|topic|user|vehicle|voucher|warehouse|zone)\b(?:: ?| |=))", R"((?:"[^"\n]*"|'[^'\n]*'|`[^`\n]*`))"},
    {R"(\b(?:lookup|ENOTFOUND|EAI_AGAIN|resolve(?: host)?:?) )", R"(["']?[\w.-]+["']?)"},
    {R"(\b(?i:host|hostname|server|node|peer|pod|user|tenant)=)", R"(["']?[^\s"',;)]+)"},
    {R"([Ii][Dd]["']?(?:: ?|=))", R"(["']?[\w+/=-]{3,}["']?)"},
    {R"(\[Source: )", R"(.*?column: \d+\])"},
    {R"((?:Failing row contains |\b(?i:values) ?|\)=|parameters: ))", R"([(\[{].*?[)\]}])"},
    // codes and names with digits
    {R"(\b(?:add|added|bad|dead|decade|faced?|faded?|fed|feed?|bed|cafe|deed)\b)", ""},
    {R"([\[(]{0,2}\b(?i:http(?:/[\d.]+)?|status|status ?code|errno|os error|error code|exit code|exit status|exited with(?: code| status)?|killed by signal|signal|reply-code|sqlstate|sqlcode|curl:|curl error|code|hresult|error)\b["']?(?:: ?| |=|\[|\(|: \(| \(|->){0,3}["']?(?:-?\d{1,5}|0x8\w{7}|[0-9A-Z]{5})\b)", ""},
    {R"([\[(]{0,2}\b(?i:returned|responded with|got|answered|failed with)(?: status| code)?[ :]{1,2}["'(]?[1-5]\d\d\b)", ""},
    {R"(\bMsg \d{1,5}\b)", ""},
    {R"(\b[1-5]\d\d (?:[245]\.\d{1,2}\.\d{1,3}\b|[A-Z][a-z]+))", ""},
    {R"(\B\((?:\d{1,3}\)|\d{1,4}, ?b?["']))", ""},
    {R"((?:(?:->|→) [1-5]|: [45])\d\d$)", ""},
    {R"(\b(?:ORA|PLS|TNS|E|CS|TS|AADSTS|SQL|DPY|PGRST|ERR)-?\d{3,6}[A-Z]?\b)", ""},
    {R"(\b(?i:utf-?(?:8|16|32)|utf8mb\d|iso-?8859-?\d+|sha-?(?:1|256|384|512)|md5|u?int(?:8|16|32|64)|float(?:32|64)|base64|http[/]?[123](?:\.[01])?|ipv[46]|x509|ec2|s3|oauth2|v[1-9]|tls1?|i18n|k8s|p12|log4j|h2)\b)", ""},
    {R"(\b(?:[A-Za-z_]\w*\.)+[A-Z]\w*)", ""},
    {R"(\b[A-Z][a-z]+\d{1,2}[A-Z][A-Za-z]+\b)", ""},
    {"", "\x1a"},
    // what may be said or not
    {"", R"([\[(,;]? ?\b(?i:attempt|try|retry)[ =:#]{1,2}\d+(?: ?(?:of|/) ?\d+)?[)\]]?)"},
    {"", R"(\[\]|\{\}|''|"")"},
    {"", R"(=\{[^{}\n]*\})"},
    // places: URLs, addresses, hosts, paths, files
    {"", R"(\b[a-z][a-z0-9+.-]*://[^\s"'<>`)\]},]*[^\s"'<>`)\]},.:;])"},
    {"", R"(["']?[\w\x80-\xff.+%'-]+@[\w\x80-\xff-]+(?:\.[\w\x80-\xff-]+)+["']?)"},
    {"", R"(\b[A-Za-z][\w-]*(?:\.[\w-]+)*\.(?:internal|local|svc|com|net|org|io|de|lan|example|test)\b\.?(?:[:/][\w.:\[\]]*\d)?)"},
    {"", R"(\b(?:localhost\b|[A-Za-z][\w-]*(?:\.[\w-]+)*)(?:/[\w.\[\]:]*)?:\d{2,5}\b)"},
    {"", R"(\B(?:[.~]{1,2})?[\\/](?:[\w\x80-\xff.@%+~$-]+[\\/])*[\w\x80-\xff.@%+~*:-]+)"},
    {"", R"(\b[A-Za-z]:\\[^\s"'<>|]*)"},
    {"", R"(\b[\w-]+(?:[/.][\w-]+)*\.(?:csv|json|xml|txt|pdf|edi|zip|png|jpg|tmp|xlsx|log|gz|parquet)\b)"},
    // text in brackets or quotes that contains digits
    {"", R"(<[^<>\n]*>)"},
    {"", R"([\[(][^()\[\]\n"'=:]*\d[^()\[\]\n"'=:]*[)\]])"},
    {"", R"([\[(](?:[A-Za-z]+[ :]+){0,2}[^\s()\[\]=]*\d[^\s()\[\]=]*(?:, (?:[A-Za-z]+[ :]+){0,2}[^\s()\[\]=]*\d[^\s()\[\]=]*)*[)\]])"},
    {"", R"(["'`][^"'`()\[\]{}:,=\n]*[\d\x80-\xff][^"'`()\[\]{}=\n]*["'`])"},
    // dates
    {"", R"(\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?(?:\d{1,2}[ /-])?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}[ /-]\d{1,4}(?:,? ?\d{4})?(?:[ :]\d\d:\d\d(?::\d\d)?)?(?: [AP]M)?(?: [A-Z]{3,4})?(?: \d{4}| [+-]\d{4})?)"},
    {"", R"(\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?: ?(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)\b)?)"},
    // numbers and ids
    {"", R"([-+]?(?:\b[A-Z]{3} |(?:[$]|€|£|¥) ?)?\b\d(?:[\d.,'_ ]|’|\xc2\xa0|\xe2\x80\xaf)*(?: ?(?:%|[$]|€|£|¥|zł|Kč)| ?(?:[kKMGT]?i?B|[num]?s|secs?|seconds?|milliseconds|min|minutes?|hours?|days?|bytes?|kr)\b|\b))"},
    {"", R"([\w-]*\d[\w-]*(?:[.:/@#+%=~]+[\w-]+)*=*)"},
    {"", R"(\b(?:[0-9a-f]{7,}|[a-f]{3,6}|[A-Za-z])\b)"},
    {"", R"(\b(?:EUR|USD|GBP|CHF|PLN|CZK|HUF|SEK|NOK|DKK|JPY|CNY|CAD|AUD)\b)"},
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
  RE2 stays, all;
};

const Masks& masks() {
  static const Masks* const compiled = [] {
    std::string stays, all;
    for (const Mask& one : kMasks) {
      if (one.stays[0] != '\0') stays = joined(stays, one.stays);
      all = joined(all, std::string(one.stays) + one.goes);
    }
    return new Masks{RE2(stays, options()), RE2(all, options())};
  }();
  return *compiled;
}

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_upper(c) || (c >= 'a' && c <= 'z'); }
bool is_word(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || (c & 0x80) != 0; }
char lowered(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

// Letters that are an id, not a word: with many consonants in a row, or with capitals all over.
bool is_random(std::string_view word) {
  std::size_t consonants = 0, most = 0, parts = 1;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (!is_letter(c) && c != '_' && c != '-') return false;
    consonants = std::string_view("aeiouyAEIOUY_-").find(c) == std::string_view::npos ? consonants + 1 : 0;
    most = std::max(most, consonants);
    parts += i > 0 && is_upper(c) && !is_upper(word[i - 1]) ? 1 : 0;
  }
  if (word.size() < 6 || word.find("http") != std::string_view::npos ||
      word.find("HTTP") != std::string_view::npos)
    return false;
  return most >= 6 || (parts >= 3 && word.size() < parts * (parts > 3 ? 4 : 3));
}

void append_value(std::string& out) {
  if (!out.empty() && !out.ends_with('*')) out += " *";
}

// The words of `text`, in lower case, with one blank between them. "a.b-c" is one.
void append_words(std::string& out, std::string_view text) {
  for (std::size_t i = 0, end = 0; i < text.size(); i = end + 1) {
    const auto joins = [&](std::size_t at) {
      return (text[at] == '.' || text[at] == '-') && at > i && at + 1 < text.size() && is_word(text[at + 1]);
    };
    for (end = i; end < text.size() && (is_word(text[end]) || joins(end));) ++end;
    const std::string_view word = text.substr(i, end - i);
    if (is_random(word)) {
      append_value(out);
    } else if (!word.empty()) {
      if (!out.empty()) out += ' ';
      std::ranges::transform(word, std::back_inserter(out), lowered);
    }
  }
}

// Of `text`, as much as `expression` matches at its beginning.
std::size_t matched(const RE2& expression, const StringPiece& text) {
  StringPiece found;
  return expression.Match(text, 0, text.size(), RE2::ANCHOR_START, &found, 1) ? found.size() : 0;
}

// `text` without what varies: words in lower case with one blank between them, and a * for values side by
// side, except at the beginning and at the end. At most kTextBytes, of the first 2 KB of `text`.
std::string masked(std::string_view text) {
  text = text.substr(0, kMostBytes);
  const Masks& m = masks();
  const StringPiece whole(text.data(), text.size());
  std::string out;
  for (std::size_t at = 0; at < text.size() && out.size() < kTextBytes;) {
    const std::size_t end = std::min(at + kWindow, text.size());
    StringPiece found;
    if (!m.all.Match(whole, at, end, RE2::UNANCHORED, &found, 1)) {
      const std::size_t blank = end == text.size() ? end : text.substr(0, end).find_last_of(" \n\t");
      const std::size_t next = blank == std::string_view::npos || blank <= at ? end : blank;
      append_words(out, text.substr(at, next - at));
      at = next;
      continue;
    }
    const auto from = static_cast<std::size_t>(found.data() - text.data());
    append_words(out, text.substr(at, from - at));
    const std::size_t stays = matched(m.stays, found);
    append_words(out, text.substr(from, stays));
    if (stays < found.size()) append_value(out);
    at = from + found.size();
  }
  if (out.ends_with(" *")) out.resize(out.size() - 2);
  return out.substr(0, kTextBytes);
}

// --- the stack trace

struct Trace {
  std::string message;  // of the exception that caused the others, with its type where the language has one
  std::string frame;    // the first that is neither the language's nor a framework's; empty: all are
};

constexpr std::size_t kMostLines = 400, kShortestFrame = 4, kLongestFrame = 2000;

// clang-format off

// Before it is read line by line: the message first, then each frame in a line, with its file.
struct Rewriting {
  std::string_view has;  // literally: only such a text is rewritten
  const char* from;
  const char* to;
};
constexpr Rewriting kRewritings[] = {
    {"--->", R"( ---> )", "\n---> "},  // .NET
    {".go:", R"(\n[ \t]+(\S+\.go:\d))", " \\1"},
    {"at ", R"((\n *\d+: [^\n]*)\n\s+(at ))", "\\1 \\2"},  // Rust
    {"panicked at '", R"((?:thread '[^'\n]*' )?panicked at '([^\n]*)', (\S+\.rs):)", "\\1\npanicked at \\2:"},
    {"panicked at ", R"((?:thread '[^'\n]*' )?panicked at ([^\s:']+\.rs):[\d:]*\n([^\n]*))", "\\2\npanicked at \\1:"},
    {"Traceback", R"re(Traceback \(most recent call last\):?\n((?:[ \t|+][^\n]*\n)+)([^\n]+))re", "Traceback\n\\2\n\\1"},
    {":in ", R"(^(\S+:\d+:in [`'][^'\n]*'): ([^\n]*?)(?: \(([\w:]+)\))?(\n|$))", "\\3: \\2\n\\1\\4"},  // Ruby
    {".php", R"( (?:in|at) (\S+\.php)(?::| on line |\()(\d+))", "\nin \\1:\\2"},
    {"[{file,", R"(\[?\{(\w+,'?[\w/-]+'?,\d+,\[\{file,))", "\n{\\1"},  // Erlang
};

// A kind of frame. The first that fits decides.
struct Form {
  const char* foreign;  // beginnings of frames of the language or of a framework; "" = by file
  const char* line;     // all of a line; its groups: function, file
  bool with_file = false, innermost_last = false;  // with_file: its groups are file, function, both its name
};
constexpr Form kForms[] = {
    // Java, Kotlin, Scala, Clojure
    {R"(at (?:java\.|(?:\w+/+)?(?:javax?|jakarta|sun|com\.sun|jdk|kotlinx?|scala|akka|groovy|clojure|reactor|rx|feign|okhttp3|okio|retrofit2|redis\.clients|oracle|liquibase|slick|play|cats|zio|graphql|org\.(?:springframework|apache|hibernate|postgresql|jboss|wildfly|junit|eclipse|slf4j|bson|jooq|elasticsearch|aspectj|mariadb|glassfish|h2|mongodb|quartz|yaml|codehaus|mybatis|gradle|thymeleaf|http4s|jetbrains|sqlite|redisson|flywaydb|axonframework)|com\.(?:rabbitmq|fasterxml|google|mysql|zaxxer|amazonaws|mongodb|microsoft|datastax|netflix|hazelcast|squareup|stripe|azure|twilio|oracle|ibm|typesafe|nimbusds|auth0|github\.benmanes)|io\.(?:netty|micrometer|grpc|lettuce|vertx|quarkus|micronaut|github\.resilience4j|reactivex|projectreactor|opentelemetry|smallrye|ktor|confluent|awspring|sentry|nats|r2dbc)|software\.amazon|ch\.qos|net\.bytebuddy|net\.sf|dev\.failsafe)[./]|\S*(?:\$\$Lambda|\$Proxy))[^\s]*\()",
     R"(at (?:[\w.@-]*/+)*([\w.$<>-]+)\((?:[\w$.-]+\.(?:java|kt|scala|groovy|clj)|Native Method|Unknown Source|<generated>|SourceFile|NO_SOURCE_FILE)(?::\d+)?\).*())"},
    // Node
    {R"(at (?:async )?(?:process\.|.*\((?:native|<anonymous>|index \d+)\)))", R"(at (?:async )?(?:new )?(.*?) \(([^()]+):\d+:\d+\).*)"},
    {R"(at (?:async )?(?:node:|native))", R"(at (?:async )?()([^()\s]+):\d+:\d+.*)"},
    // PHP (Symfony)
    {R"(at (?:Symfony|Doctrine|Illuminate)\\)", R"(at ([\w\\]+(?:->|::)\w+)\(.*\) \((.*):\d+\))"},
    // .NET
    {R"(at (?:(?:System|Microsoft|MassTransit|NServiceBus|RabbitMQ|Newtonsoft|Npgsql|MySql\w*|Dapper|Polly|EasyNetQ|StackExchange|Rebus|Azure|Amazon|MediatR|AutoMapper|Grpc|Castle|FluentValidation|MongoDB|Confluent|Oracle|Serilog|Refit|Wolverine|Hangfire|Quartz|GreenPipes|Autofac|Stripe|RestSharp|Flurl|Marten|Elastic\w*|Nest|NHibernate|Interop|Internal|Google|CsvHelper|MailKit|MimeKit|Akka|OpenTelemetry|Sentry)\.|lambda_method))",
     R"(at ([\w.<>`+\[\],|$]+)\(.*\)(?: in .*)?())"},
    // Python
    {"", R"re(File "([^"]+)", line \d+(?:, in (.+))?)re", true, true},
    // PHP
    {R"(#\d+ (?:\{main\}|(?:\S+\(\d+\)|\[internal function\]): (?:(?:Illuminate|Symfony|Doctrine|Laravel|GuzzleHttp|PhpAmqpLib|Monolog|Composer|Enqueue|Interop|Zend|Laminas|Predis|Carbon|Psr|Twig|League|React|Amp|Swoole|Hyperf|Cake|Nette|Ramsey|Aws|Stripe|MongoDB|Spatie)\\|PDO|mysqli|Soap|Reflection|Yii|AMQP|DateTime|[a-z_0-9]+\()))",
     R"(#\d+ \S+\(\d+\): ([\w\\]+(?:\{closure[^}]*\})?(?:(?:->|::)[\w{}\\:]+)?).*())"},
    // C++: gdb, Boost
    {R"(#\d+ +(?:0x[0-9a-f]+ in )?(?:std::|boost::|_|raise|abort|pthread_|kill|clone|malloc|free|operator|main |g_|gsignal|start_thread|\?\?))", R"(#\d+ +(?:0x[0-9a-f]+ in )?([\w:~<>]+).*?\)(?: (?:at|from) (\S+))?)"},
    {R"(\d{1,3}# (?:std::|boost::|0x|_|raise|abort|main))", R"(\d{1,3}# ([\w:~<>]+).*?(?: (?:at|in) (\S+))?)"},
    // Rust
    {R"(\d{1,3}: (?:0x[0-9a-f]+ - )?<?(?:(?:core|std|alloc|tokio\w*|futures\w*|hyper\w*|lapin|sqlx\w*|reqwest|tracing\w*|serde\w*|anyhow|actix\w*|axum|tower\w*|tonic|backtrace|eyre|diesel|rayon\w*|rdkafka|redis|h2|rustls)::|rust_|_|clone|start_thread|main$|F |&))",
     R"(\d{1,3}: (?:0x[0-9a-f]+ - )?(<?[\w:<>{}\[\]., &*-]+)())"},
    // Elixir
    {R"(\((?:elixir|stdlib|kernel|phoenix\w*|ecto\w*|db_connection|broadway\w*|amqp\w*|plug\w*|postgrex|myxql|jason|gen_stage|cowboy|finch|mint|tesla|hackney|oban|logger|telemetry|req|redix|crypto|ssl) )",
     R"(\(\w+ [\d.]+\S*\) \S+:\d+: ((?:anonymous fn/\d+ in )?[\w.?!:]+).*())"},
    // Ruby
    {"", R"((?:from )?(\S+?):\d+:in [`']([^']+)'.*)", true},
    // Go
    {R"((?:created by )?(?:panic\(|(?:runtime|net|database|encoding|reflect|sync|io|bufio|bytes|context|crypto|testing|os|syscall|strconv|errors|fmt|sort|strings|time|internal|math|text|html|log|regexp|hash|compress|mime|slices|maps)[./]|golang\.org/x/|google\.golang\.org/|go\.uber\.org/|go\.mongodb\.org/|gorm\.io/|k8s\.io/|cloud\.google\.com/|github\.com/(?:rabbitmq|streadway|gin-gonic|labstack|jackc|lib/pq|go-sql-driver|pkg/errors|redis|sirupsen|aws|gorilla|go-chi|stretchr|jmoiron|spf13|segmentio|nats-io|hashicorp|valyala|gofiber|uptrace|elastic|stripe|prometheus|getsentry|ThreeDotsLabs|IBM)/))",
     R"((?:created by )?([\w./%\[\]-]+(?:\(\*?\w+\)[\w./\[\]-]*)?)(?:\(.*\))?(?: in goroutine \d+)? \S+\.go:\d+.*())"},
    // Erlang
    {R"(\{(?:gen,|gen_|proc_lib|lists|maps|erlang|ets|supervisor|timer|amqp|rabbit|ssl|inet|io|erl_|httpc|hackney|cowboy|jsx|binary|base64))", R"(\{(\w+,'?[\w/-]+)'?,\d+,\[\{file,.*())"},
    // PHP, Rust: the place where it was thrown
    {"", R"((?:in|panicked at) ()(\S+\.(?:php|rs)):.*)"},
};
constexpr char kForeignFiles[] =
    R"(node_modules|node:|site-packages|dist-packages|/lib/python|<frozen|<string>|/gems/|/lib/ruby/|<internal:|vendor/|/pkg/mod/|/usr/lib|/usr/local/(?:go|lib)/|/rustc/|\.cargo/|/goroot/|/usr/include|/lib/x86_64|/lib64/|webpack/(?:bootstrap|runtime)|\((?:internal|deps)/|libc\.so|libstdc|\.nuget|/usr/share/php)";
// What compilers add to a name.
constexpr char kDecoration[] =
    R"(<(\w+)>[a-z]__\w*|\$?lambda\$(?:\d+\b)?|\$\$\w+|\$\d+|<>c\w*\.?|\.MoveNext|\.invokeSuspend|\.(?:func|gowrap|deferwrap)\d+(?:\.\d+)*|\{\{closure\}\}|::h[0-9a-f]{16}|(?:block |rescue |ensure )(?:\(\d+ levels\) )?in |anonymous fn/\d+ in | \[as .*\]|\([^*)]*\)|<[^<>]*>|`\d+|^Object\.)";
// clang-format on

struct Expressions {
  std::deque<RE2> rewritings, foreign, lines;  // the latter two by form
  RE2 foreign_file{kForeignFiles}, decoration{kDecoration};
  // All before what caused the others.
  RE2 effects{
      R"((?s).*(?:^|\n)[ \t|+]*(?:Caused by: |\[cause\]: |---> |\[previous exception\]|Traceback\n))"};
  // Every frame begins like this; most lines do not.
  RE2 any_frame{R"(at |File "|#\d|\d|\(|\{|in |panicked at |.*(?::in [`']|\.go:\d))"};
  RE2 escapes{R"(\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)?)"};

  Expressions() {
    for (const Rewriting& one : kRewritings) rewritings.emplace_back(one.from);
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

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
std::string_view view(const StringPiece& text) { return {text.data(), text.size()}; }

// Without blanks around it, and what draws the tree of an exception group.
StringPiece trimmed(std::string_view line) {
  constexpr std::string_view kAround = " \t\r|";
  line.remove_prefix(std::min(line.find_first_not_of(kAround), line.size()));
  line = line.substr(0, line.find_last_not_of(kAround) + 1);
  return {line.data(), line.size()};
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

// How a frame is named. A file by its stem: "/app/src/orders.ship.js" -> "orders".
std::string name_of(std::string_view function, std::string_view file, bool with_file) {
  std::string name(function);
  RE2::GlobalReplace(&name, expressions().decoration, "\\1");
  if (with_file) name.erase(0, name.find_last_of("#.") + 1);
  name = dotted(name);
  if (!with_file && !name.empty()) return name;
  file.remove_prefix(file.find_last_of("/\\") + 1);
  const std::string stem = dotted(file.substr(0, file.find('.', 1)));
  return name.empty() ? stem : stem + "." + name;
}

struct Frame {
  std::string name = {};  // empty: it is the language's or a framework's
  bool innermost_last = false;
};

// The frame that `line` is.
std::optional<Frame> frame_of(const StringPiece& line) {
  if (line.size() < kShortestFrame || line.size() > kLongestFrame) return std::nullopt;
  const Expressions& all = expressions();
  if (!all.any_frame.Match(line, 0, line.size(), RE2::ANCHOR_START, nullptr, 0)) return std::nullopt;
  for (std::size_t i = 0; i < std::size(kForms); ++i) {
    const Form& form = kForms[i];
    if (form.foreign[0] != '\0' && all.foreign[i].Match(line, 0, line.size(), RE2::ANCHOR_START, nullptr, 0))
      return Frame{};
    StringPiece function, file;
    if (!RE2::FullMatch(line, all.lines[i], &function, &file)) continue;
    if (RE2::PartialMatch(line, all.foreign_file)) return Frame{{}, form.innermost_last};
    if (form.with_file) std::swap(function, file);
    return Frame{name_of(view(function), view(file), form.with_file), form.innermost_last};
  }
  return std::nullopt;
}

// nullopt: `text` has no frames.
std::optional<Trace> read_trace(std::string_view text) {
  std::optional<Trace> out;
  std::size_t from = 0;
  for (std::size_t n = 0; from < text.size() && n < kMostLines; ++n) {
    const std::size_t to = std::min(text.find('\n', from), text.size());
    if (auto frame = frame_of(trimmed(text.substr(from, to - from)))) {
      if (!out) out = {std::string(text.substr(0, from)), ""};
      if (!frame->name.empty()) out->frame = std::move(frame->name);
      if (!out->frame.empty() && !frame->innermost_last) return out;
    }
    from = to + 1;
  }
  return out;
}

// nullopt: `error` has no stack trace. Of several exceptions, the one that caused the others: Java's last
// "Caused by", .NET's innermost, Node's [cause], and in Python the one that is printed last. If it has no own
// frame, it has one of those around it.
std::optional<Trace> find_trace(const std::string& error) {
  const Expressions& all = expressions();
  std::string text = error;
  // As in JSON.
  if (!contains(text, "\n") && contains(text, "\\n")) RE2::GlobalReplace(&text, R"(\\n(?:\\t)*)", "\n");
  for (std::size_t i = 0; i < std::size(kRewritings); ++i) {
    if (contains(text, kRewritings[i].has)) RE2::GlobalReplace(&text, all.rewritings[i], kRewritings[i].to);
  }
  if (text.find('\n') == std::string::npos) return std::nullopt;
  StringPiece root(text);
  if (!RE2::Consume(&root, all.effects)) return read_trace(text);
  auto trace = read_trace(view(root));
  const auto whole = read_trace(text);
  if (!whole) return std::nullopt;
  if (!trace) trace = {std::string(root), ""};
  if (trace->frame.empty()) trace->frame = whole->frame;
  return trace;
}

}  // namespace
}  // namespace causes

namespace {

constexpr std::size_t kMostBytes = 16 * 1024;  // kErrorBytes, src/core/task/task.h
constexpr std::size_t kIdBytes = 6;

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
  std::string whole(error.substr(0, kMostBytes));
  if (whole.find('\x1b') != std::string::npos) RE2::GlobalReplace(&whole, causes::expressions().escapes, "");
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

std::string cause_id(std::string_view queue, std::string_view error_type, std::string_view text) {
  return to_hex(sha256(facts_of({queue, error_type, text})), kIdBytes);
}

}  // namespace rung
