#include <re2/re2.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "src/core/causes/parts.h"

namespace rung::causes {
namespace {

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
bool is_digit(char c) { return c >= '0' && c <= '9'; }

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
    const bool word =
        is_digit(c) || (c >= 'a' && c <= 'z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
    if (word || (c >= 'A' && c <= 'Z')) {
      out += word ? c : static_cast<char>(c - 'A' + 'a');
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

}  // namespace

std::optional<Trace> find_trace(std::string_view error) { return Reader(error).read(); }

}  // namespace rung::causes
