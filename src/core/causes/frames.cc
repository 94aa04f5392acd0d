#include "src/core/causes/frames.h"

#include <algorithm>
#include <array>

#include "src/core/causes/token.h"
#include "src/core/causes/words.h"

namespace rung::causes {
namespace {

// Functions of languages and frameworks begin with these.
constexpr auto kForeign = std::to_array<std::string_view>({"java.",
                                                           "javax.",
                                                           "jakarta.",
                                                           "sun.",
                                                           "com.sun.",
                                                           "jdk.",
                                                           "kotlin.",
                                                           "kotlinx.",
                                                           "scala.",
                                                           "akka.",
                                                           "groovy.",
                                                           "org.springframework.",
                                                           "org.apache.",
                                                           "org.hibernate.",
                                                           "org.postgresql.",
                                                           "org.jboss.",
                                                           "org.wildfly.",
                                                           "org.junit.",
                                                           "org.eclipse.",
                                                           "org.slf4j.",
                                                           "org.bson.",
                                                           "org.jooq.",
                                                           "org.elasticsearch.",
                                                           "org.aspectj.",
                                                           "org.mariadb.",
                                                           "com.rabbitmq.",
                                                           "com.fasterxml.",
                                                           "com.google.",
                                                           "com.mysql.",
                                                           "com.zaxxer.",
                                                           "com.amazonaws.",
                                                           "com.mongodb.",
                                                           "com.microsoft.",
                                                           "com.github.",
                                                           "com.datastax.",
                                                           "com.netflix.",
                                                           "io.netty.",
                                                           "io.micrometer.",
                                                           "io.grpc.",
                                                           "io.lettuce.",
                                                           "io.vertx.",
                                                           "io.quarkus.",
                                                           "io.micronaut.",
                                                           "io.github.",
                                                           "io.reactivex.",
                                                           "reactor.",
                                                           "rx.",
                                                           "feign.",
                                                           "okhttp3.",
                                                           "okio.",
                                                           "retrofit2.",
                                                           "redis.clients.",
                                                           "software.amazon.",
                                                           "oracle.",
                                                           "ch.qos.",
                                                           "$proxy",
                                                           "net.bytebuddy.",
                                                           "System.",
                                                           "Microsoft.",
                                                           "MassTransit.",
                                                           "NServiceBus.",
                                                           "RabbitMQ.",
                                                           "Newtonsoft.",
                                                           "Npgsql.",
                                                           "MySql.",
                                                           "MySqlConnector.",
                                                           "Dapper.",
                                                           "Polly.",
                                                           "EasyNetQ.",
                                                           "StackExchange.",
                                                           "Rebus.",
                                                           "Azure.",
                                                           "Amazon.",
                                                           "MediatR.",
                                                           "AutoMapper.",
                                                           "Grpc.",
                                                           "Castle.",
                                                           "FluentValidation.",
                                                           "MongoDB.",
                                                           "Confluent.",
                                                           "Oracle.",
                                                           "Serilog.",
                                                           "Refit.",
                                                           "Wolverine.",
                                                           "Rungu.",
                                                           "runtime.",
                                                           "panic(",
                                                           "net.",
                                                           "net/",
                                                           "database/",
                                                           "encoding/",
                                                           "reflect.",
                                                           "sync.",
                                                           "io.Read",
                                                           "bufio.",
                                                           "bytes.",
                                                           "strings.",
                                                           "strconv.",
                                                           "errors.",
                                                           "context.",
                                                           "os.",
                                                           "time.",
                                                           "crypto/",
                                                           "syscall.",
                                                           "testing.",
                                                           "internal/",
                                                           "github.com/",
                                                           "google.golang.org/",
                                                           "golang.org/",
                                                           "go.uber.org/",
                                                           "gorm.io/",
                                                           "std::",
                                                           "core::",
                                                           "alloc::",
                                                           "rust_begin_unwind",
                                                           "rust_panic",
                                                           "__rust",
                                                           "tokio::",
                                                           "futures",
                                                           "hyper::",
                                                           "reqwest::",
                                                           "serde",
                                                           "lapin::",
                                                           "sqlx::",
                                                           "diesel::",
                                                           "anyhow::",
                                                           "backtrace::",
                                                           "tower::",
                                                           "<tokio",
                                                           "<core",
                                                           "<alloc",
                                                           "<std",
                                                           "<futures",
                                                           "<hyper",
                                                           "__libc",
                                                           "_start",
                                                           "__GI_",
                                                           "raise",
                                                           "abort",
                                                           "clone",
                                                           "start_thread",
                                                           "__cxa",
                                                           "__gnu",
                                                           "boost::",
                                                           "gsignal",
                                                           "main.main.func",
                                                           "GenServer",
                                                           ":gen_server",
                                                           ":proc_lib",
                                                           ":erlang",
                                                           ":gen",
                                                           "Enum.",
                                                           "Map.",
                                                           "Kernel.",
                                                           "String.",
                                                           "Task.",
                                                           "Process.",
                                                           "Ecto.",
                                                           "Phoenix.",
                                                           "Plug.",
                                                           "Postgrex.",
                                                           "DBConnection.",
                                                           "Jason.",
                                                           "Broadway.",
                                                           "AMQP.",
                                                           "Stream.",
                                                           "List.",
                                                           "Keyword.",
                                                           "Integer.",
                                                           "Access.",
                                                           "Logger.",
                                                           "Symfony\\",
                                                           "Illuminate\\",
                                                           "Doctrine\\",
                                                           "GuzzleHttp\\",
                                                           "PhpAmqpLib\\",
                                                           "Laravel\\",
                                                           "PDO",
                                                           "Monolog\\",
                                                           "Psr\\",
                                                           "call_user",
                                                           "processTicksAndRejections",
                                                           "runMicrotasks",
                                                           "Object.<anonymous> (node:",
                                                           "new Promise (<anonymous>)",
                                                           "Generator.next (<anonymous>)"});

// Files of languages and frameworks have one of these in their path.
constexpr auto kForeignPaths = std::to_array<std::string_view>({"site-packages",    "dist-packages",
                                                                "/usr/lib/",        "/usr/local/lib/",
                                                                "/lib/python",      "/lib64/",
                                                                "node_modules",     "node:",
                                                                "internal/process", "internal/modules",
                                                                "(internal/",       "/gems/",
                                                                "/rubygems/",       "/lib/ruby/",
                                                                "<internal:",       "/vendor/",
                                                                "vendor/",          "/rustc/",
                                                                ".cargo/registry",  "/usr/local/go/",
                                                                "/go/src/runtime",  "/pkg/mod/",
                                                                "/deps/",           "deps/",
                                                                "<frozen ",         "/_build/",
                                                                "/usr/include/",    "../sysdeps",
                                                                "../nptl",          "/build/glibc",
                                                                "./csu/",           "bin/bundle",
                                                                "lib/elixir",       "asyncio/",
                                                                "(elixir",          "(stdlib",
                                                                "(kernel",          "(ecto",
                                                                "(phoenix",         "(plug",
                                                                "(postgrex",        "(db_connection",
                                                                "(jason",           "(amqp",
                                                                "(broadway",        "(gen_stage",
                                                                "(telemetry",       "(mix",
                                                                "(ex_unit",         "<anonymous>",
                                                                "webpack/bootstrap"});

bool is_foreign(std::string_view function, std::string_view place) {
  const auto begins = [&](std::string_view prefix) { return function.starts_with(prefix); };
  const auto holds = [&](std::string_view part) { return place.find(part) != std::string_view::npos; };
  return std::ranges::any_of(kForeign, begins) || std::ranges::any_of(kForeignPaths, holds);
}

std::string_view trim(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

// Without digits, which compilers put into the names of lambdas, and without generic arguments.
std::string cleaned(std::string_view function) {
  std::string out;
  for (const char c : function.substr(0, 200)) {
    if (!is_digit_byte(c)) out += c;
  }
  return lowered(trim(out));
}
std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}
// "main.3f2a1b.js" and "main.js" are the same file in two releases.
std::string file_name(std::string_view path) {
  const std::string_view base = base_name(path.substr(0, path.find('?')));
  std::string out;
  for (std::size_t from = 0; from <= base.size();) {
    const std::size_t to = std::min(base.find('.', from), base.size());
    const std::string_view part = base.substr(from, to - from);
    if (!(has_digit(part) && is_hex(part))) out.append(out.empty() ? "" : ".").append(part);
    from = to + 1;
  }
  return lowered(out);
}
Frame made(std::string_view function, std::string_view place, bool innermost_last = false) {
  return {cleaned(function), !is_foreign(function, place), innermost_last};
}

// Java, Kotlin, Scala, .NET, Node: "at ...".
std::optional<Frame> at_frame(std::string_view line) {
  std::string_view rest = trim(line.substr(3));
  if (rest.starts_with("async ")) rest.remove_prefix(6);
  const std::size_t open = rest.find('(');
  const bool spaced = open != std::string_view::npos && open > 0 && rest[open - 1] == ' ';
  if (open == std::string_view::npos || spaced) {  // Node: "fn (file:1:2)" or "file:1:2"
    const std::string_view place = spaced ? rest.substr(open) : rest;
    if (place.find(':') == std::string_view::npos && place.find("<anonymous>") == std::string_view::npos)
      return std::nullopt;
    std::string_view function = spaced ? trim(rest.substr(0, open)) : std::string_view();
    if (const std::size_t alias = function.find(" [as "); alias != std::string_view::npos)
      function = function.substr(0, alias);
    const bool anonymous = function.empty() || function.find("<anonymous>") != std::string_view::npos ||
                           function == "eval" || function.starts_with("Module.") ||
                           function.starts_with("Object.__");
    if (!anonymous) return made(function, rest);
    std::string_view path = spaced ? place.substr(1) : place;
    for (int i = 0; i < 2; ++i) {  // line and column
      const std::size_t colon = path.find_last_of(':');
      if (colon != std::string_view::npos && colon > 5) path = path.substr(0, colon);
    }
    return Frame{file_name(path), !is_foreign(function, rest), false};
  }
  std::string_view function = rest.substr(0, open);
  if (function.find(' ') != std::string_view::npos) return std::nullopt;  // a sentence
  if (function.find('.') == std::string_view::npos) return std::nullopt;
  if (const std::size_t module = function.find_last_of('/'); module != std::string_view::npos)
    function = function.substr(module + 1);
  // .NET: "Handler.<Handle>d__5.MoveNext", "<>c__DisplayClass5_0.<Handle>b__0": the method is in angle
  // brackets.
  const std::size_t generated = function.find(".<");
  if (generated != std::string_view::npos) {
    const std::size_t close = function.find('>', generated + 2);
    if (close != std::string_view::npos) function = function.substr(0, close);
  }
  if (const std::size_t lambda = function.find("$$Lambda"); lambda != std::string_view::npos)
    return Frame{cleaned(function), false, false};
  if (function.find("CGLIB$$") != std::string_view::npos ||
      function.find("$$Fast") != std::string_view::npos ||
      function.find("$$Enhancer") != std::string_view::npos ||
      function.find("$$SpringCGLIB") != std::string_view::npos)
    return Frame{cleaned(function), false, false};
  return made(function, {});
}

// Python: File "/app/x.py", line 12, in handle
std::optional<Frame> python_frame(std::string_view line) {
  const std::size_t close = line.find("\", line ");
  if (close == std::string_view::npos) return std::nullopt;
  const std::string_view path = line.substr(6, close - 6);
  const std::size_t in = line.find(", in ", close);
  const std::string_view function = in == std::string_view::npos ? "<module>" : line.substr(in + 5);
  return Frame{file_name(path) + ":" + cleaned(function), !is_foreign({}, path), true};
}

// Ruby: /app/x.rb:12:in `handle'
std::optional<Frame> ruby_frame(std::string_view line) {
  if (line.starts_with("from ")) line.remove_prefix(5);
  const std::size_t in = line.find(":in ");
  if (in == std::string_view::npos) return std::nullopt;
  const std::string_view place = line.substr(0, in);
  const std::size_t colon = place.find_last_of(':');
  if (colon == std::string_view::npos || !is_number(place.substr(colon + 1))) return std::nullopt;
  std::string_view function = line.substr(in + 4);
  if (function.empty() || (function[0] != '`' && function[0] != '\'')) return std::nullopt;
  function = function.substr(1, function.find('\'', 1) - 1);
  for (const std::string_view in_block : {"block in ", "block (2 levels) in ", "rescue in ", "ensure in "}) {
    if (function.starts_with(in_block)) function.remove_prefix(in_block.size());
  }
  const std::size_t hash = function.find_last_of("#.");
  if (hash != std::string_view::npos) function = function.substr(hash + 1);
  return Frame{file_name(place.substr(0, colon)) + ":" + cleaned(function), !is_foreign({}, place), false};
}

// PHP: #0 /app/X.php(12): App\X->handle(Object(Y)); gdb: #0 0x00 in fn (args) at x.cc:12; boost: 0# fn at
// x.cc:12
std::optional<Frame> numbered_frame(std::string_view line) {
  std::string_view rest = line;
  const bool boost = !rest.starts_with('#');
  if (!boost) rest.remove_prefix(1);
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (digits == 0 || digits > 3) return std::nullopt;
  rest.remove_prefix(digits);
  if (boost) {
    if (!rest.starts_with("# ")) return std::nullopt;
    rest.remove_prefix(1);
  }
  rest = trim(rest);
  const std::size_t call = rest.find("): ");
  if (!boost && call != std::string_view::npos && rest.find(".php(") < call) {
    std::string_view function = rest.substr(call + 3);
    function = function.substr(0, function.find('('));
    return made(function, rest.substr(0, call));
  }
  if (rest.starts_with("{main}")) return Frame{"{main}", false, false};
  if (rest.starts_with("[internal function]")) return Frame{"internal", false, false};
  const std::size_t in = rest.find(" in ");
  std::string_view function =
      rest.starts_with("0x") && in != std::string_view::npos ? rest.substr(in + 4) : rest;
  if (!boost && in == std::string_view::npos && rest.find(" at ") == std::string_view::npos)
    return std::nullopt;
  function = function.substr(0, function.find_first_of("( "));
  return made(function, rest);
}

// Rust: "  2: app::handler::process", then "at ./src/handler.rs:12".
std::optional<Frame> rust_frame(std::string_view line) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos || colon > 3 || !is_number(line.substr(0, colon))) return std::nullopt;
  std::string_view function = trim(line.substr(colon + 2));
  if (const std::size_t dash = function.find(" - ");
      function.starts_with("0x") && dash != std::string_view::npos)
    function = function.substr(dash + 3);
  if (function.find(' ') != std::string_view::npos && !function.starts_with('<')) return std::nullopt;
  if (function.find("::") == std::string_view::npos && function.find('_') == std::string_view::npos)
    return std::nullopt;
  // The hash at the end differs in each build.
  if (const std::size_t hash = function.rfind("::h");
      hash != std::string_view::npos && function.size() - hash == 19)
    function = function.substr(0, hash);
  return made(function, {});
}

// Go: "main.handle(0xc000010000, 0x5)", then a tab and "/app/main.go:12 +0x1d".
std::optional<Frame> go_frame(std::string_view line, std::string_view next) {
  const std::string_view place = trim(next);
  const bool file =
      place.find(".go:") != std::string_view::npos && (next.starts_with('\t') || next.starts_with("    "));
  if (!file || line.starts_with("goroutine ")) return std::nullopt;
  if (line.starts_with("created by ")) line = line.substr(11);
  std::string_view function = line.substr(0, line.find_last_of('('));
  if (const std::size_t in = function.find(" in goroutine"); in != std::string_view::npos)
    function = function.substr(0, in);
  if (function.empty() || function.find(' ') != std::string_view::npos) return std::nullopt;
  const bool dependency = place.find("/pkg/mod/") != std::string_view::npos ||
                          place.find("/usr/local/go/") != std::string_view::npos ||
                          place.find("/go/src/runtime") != std::string_view::npos ||
                          place.find("/vendor/") != std::string_view::npos;
  // Its own module may be github.com/acme/shop: its path says whether it is.
  const bool runtime = function.starts_with("runtime.") || function.starts_with("panic");
  return Frame{cleaned(base_name(function)), !dependency && !runtime, false};
}

// Elixir: "(app 0.1.0) lib/app/x.ex:12: App.X.handle/2"
std::optional<Frame> elixir_frame(std::string_view line) {
  std::size_t place = line.find(".ex:");
  if (place == std::string_view::npos) place = line.find(".erl:");
  if (place == std::string_view::npos) return std::nullopt;
  const std::size_t colon = line.find(": ", place);
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view function = trim(line.substr(colon + 2));
  if (const std::size_t in = function.find(" in "); in != std::string_view::npos)
    function = function.substr(in + 4);
  if (const std::size_t call = function.find('('); call != std::string_view::npos && call > 0)
    function = function.substr(0, call);
  function = function.substr(0, function.find('/'));
  if (function.find(' ') != std::string_view::npos) return std::nullopt;
  return made(function, line.substr(0, colon));
}

}  // namespace

std::optional<Frame> frame_of(std::string_view whole, std::string_view next) {
  const std::string_view line = trim(whole);
  if (line.size() < 4 || line.size() > 2000) return std::nullopt;
  if (line.starts_with("at ")) {
    if (trim(next).starts_with("at ") || whole[0] == ' ' || whole[0] == '\t') return at_frame(line);
    return at_frame(line);
  }
  if (line.starts_with("File \"")) return python_frame(line);
  if (line[0] == '#' || (is_digit_byte(line[0]) && line.find("# ") < 4)) {
    if (auto frame = numbered_frame(line)) return frame;
  }
  if (is_digit_byte(line[0])) {
    if (auto frame = rust_frame(line)) return frame;
  }
  if (auto frame = go_frame(line, next)) return frame;
  if (line.find(":in ") != std::string_view::npos) {
    if (auto frame = ruby_frame(line)) return frame;
  }
  if (line[0] == '(' || line.starts_with("lib/") || line.starts_with("web/") || line.starts_with("src/"))
    return elixir_frame(line);
  return std::nullopt;
}

}  // namespace rung::causes
