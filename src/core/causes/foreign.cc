// Which frames are of languages and frameworks.
#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>

#include "src/core/causes/frames.h"

namespace rung::causes {
namespace {

// The beginnings of names, each followed by a blank.
constexpr std::string_view kJvm =
    "java. javax. jakarta. sun. com.sun. jdk. kotlin. kotlinx. scala. akka. groovy. cats. zio. "
    "org.springframework. "
    "org.apache. org.hibernate. org.postgresql. org.jboss. org.wildfly. org.junit. org.eclipse. org.slf4j. "
    "org.bson. "
    "org.jooq. org.elasticsearch. org.aspectj. org.mariadb. org.glassfish. org.h2. org.redisson. org.quartz. "
    "org.mongodb. "
    "org.yaml. org.codehaus. org.mybatis. org.flywaydb. org.axonframework. org.scala org.opensearch. "
    "com.rabbitmq. "
    "com.fasterxml. com.google. com.mysql. com.zaxxer. com.amazonaws. com.mongodb. com.microsoft. "
    "com.datastax. "
    "com.netflix. com.hazelcast. com.squareup. com.stripe. com.azure. com.sendgrid. com.twilio. com.oracle. "
    "com.github.benmanes. com.ibm. com.newrelic. io.netty. io.micrometer. io.grpc. io.lettuce. io.vertx. "
    "io.quarkus. "
    "io.micronaut. io.github.resilience4j. io.reactivex. io.projectreactor. io.opentelemetry. io.smallrye. "
    "io.ktor. "
    "io.confluent. io.awspring. reactor. rx. feign. okhttp3. okio. retrofit2. redis.clients. "
    "software.amazon. oracle. "
    "ch.qos. net.bytebuddy. net.sf. jersey. liquibase. $Proxy worker.org.gradle. org.gradle. dagger. brave. "
    "org.thymeleaf. freemarker. org.camunda. io.sentry. io.jsonwebtoken. io.javalin. ratpack. org.jdbi. "
    "com.querydsl. "
    "io.r2dbc. net.logstash. com.nimbusds. com.auth0. org.bouncycastle. com.itextpdf. io.temporal. "
    "org.jobrunr. graphql. "
    "com.couchbase. com.influxdb. com.clickhouse. org.neo4j. org.sqlite. com.paypal. com.braintree io.nats. "
    "play. slick. "
    "doobie. http4s. org.http4s. fs2. monix. com.typesafe. io.circe. arrow. org.koin. org.jetbrains. "
    "dev.failsafe. ";
constexpr std::string_view kDotnet =
    "System. Microsoft. MassTransit. NServiceBus. RabbitMQ. Newtonsoft. Npgsql. MySql. MySqlConnector. "
    "Dapper. Polly. "
    "EasyNetQ. StackExchange. Rebus. Azure. Amazon. MediatR. AutoMapper. Grpc. Castle. FluentValidation. "
    "MongoDB. "
    "Confluent. Oracle. Serilog. Refit. Wolverine. Hangfire. Quartz. GreenPipes. Autofac. SqlSugar. Stripe. "
    "RestSharp. "
    "Flurl. Marten. Elasticsearch. Nest. NHibernate. Interop. Internal. lambda_method "
    "Elastic. Google. IdentityModel. CsvHelper. NodaTime. MailKit. MimeKit. Twilio. SendGrid. Orleans. Akka. "
    "ServiceStack. "
    "Topshelf. LinqToDB. Minio. OpenTelemetry. Sentry. NLog. log4net. Scriban. Renci. FluentFTP. Medallion. "
    "NATS. ";
constexpr std::string_view kPhp =
    "Illuminate\\ Symfony\\ Doctrine\\ Laravel\\ GuzzleHttp\\ PhpAmqpLib\\ Monolog\\ PDO Composer\\ "
    "Enqueue\\ Interop\\ "
    "Zend\\ Laminas\\ Predis\\ Redis- mysqli SoapClient Reflection Carbon\\ Psr\\ Twig\\ League\\ React\\ "
    "Amp\\ "
    "Swoole\\ Hyperf\\ Yiisoft\\ yii\\ Cake\\ Nette\\ Ramsey\\ Aws\\ Stripe\\ MongoDB\\ AMQP DateTime "
    "Generator- "
    "SplFileObject call_user_func array_map array_walk array_filter usort require include json_ file_ fopen "
    "preg_ "
    "PhpParser\\ PHPUnit\\ Bschmitt\\ VladimirYuldashev\\ Spatie\\ Nuwave\\ "
    "Sentry\\ Nyholm\\ Http\\ Mollie\\ Twilio\\ Webmozart\\ Sabre\\ PhpOffice\\ Google\\ Microsoft\\ "
    "OpenTelemetry\\ Slim\\ "
    "Livewire\\ Filament\\ Maatwebsite\\ Intervention\\ Brick\\ Bunny\\ ";
constexpr std::string_view kGo =
    "runtime. runtime/ panic net. net/ database/ encoding/ reflect. sync. sync/ io. bufio. bytes. context. "
    "crypto/ "
    "testing. os. os/ syscall. strconv. errors. fmt. sort. strings. time. internal/ math/ text/ html/ "
    "golang.org/x/ google.golang.org/ github.com/rabbitmq/ github.com/streadway/ github.com/gin-gonic/ "
    "github.com/labstack/ github.com/jackc/ github.com/lib/pq gorm.io/ github.com/go-sql-driver/ "
    "github.com/pkg/errors "
    "github.com/redis/ github.com/sirupsen/ go.uber.org/ go.mongodb.org/ github.com/ThreeDotsLabs/ "
    "github.com/aws/ "
    "github.com/gorilla/ github.com/go-chi/ github.com/stretchr/ github.com/jmoiron/ github.com/spf13/ "
    "github.com/IBM/sarama github.com/segmentio/ github.com/nats-io/ github.com/hashicorp/ "
    "github.com/valyala/ "
    "github.com/gofiber/ go.opentelemetry.io/ entgo.io/ github.com/uptrace/ github.com/elastic/ "
    "github.com/minio/ "
    "github.com/stripe/ cloud.google.com/ k8s.io/ github.com/cenkalti/ github.com/sony/gobreaker "
    "github.com/rs/ "
    "github.com/prometheus/ github.com/getsentry/ github.com/urfave/ github.com/json-iterator/ "
    "github.com/jmespath/ "
    "maps. slices. iter. regexp. log. log/ hash/ archive/ compress/ mime/ image/ unicode/ ";
constexpr std::string_view kRust =
    "core:: std:: alloc:: tokio:: futures futures_ hyper:: hyper_ lapin:: sqlx:: sqlx_ reqwest:: tracing:: "
    "serde:: "
    "serde_ anyhow:: actix axum:: tower:: tonic:: backtrace:: eyre:: color_eyre:: diesel:: rayon:: async_ "
    "rust_begin_unwind rust_panic __rust _rust __libc __GI_ __cxa __gnu __pthread __clone clone3 _start "
    "start_thread "
    "<core:: <std:: <alloc:: <tokio:: <futures <hyper <sqlx <lapin <axum <tower <tracing <F <T <& <dyn <Box "
    "<async_ <anyhow:: <serde redis:: rdkafka:: mongodb:: sea_orm:: deadpool bb8:: aws_ rustls:: "
    "native_tls:: openssl:: "
    "chrono:: regex:: log:: tower_ h2:: quinn:: rumqttc:: tracing_ opentelemetry ";
constexpr std::string_view kCpp =
    "boost:: gsignal raise abort clone pthread_ kill fmt:: spdlog:: absl:: folly:: google:: grpc:: "
    "nlohmann:: "
    "Poco:: QObject QCore QEvent QApplication amqp_ AMQP:: soci:: pqxx:: sql:: mysqlx:: malloc free operator "
    "_Unwind __restore_rt __run_exit __assert testing:: ";
constexpr std::string_view kBeam =
    "gen_server: gen_statem: gen_event: proc_lib: gen: lists: maps: erlang: ets: supervisor: timer: binary: "
    "amqp_ "
    "rabbit_ amqp_gen ssl: inet: gen_tcp: io_lib: erl_eval: shell: httpc: hackney: cowboy jsx: jiffy: epgsql "
    "poolboy: "
    "erl_internal: base64: string: unicode: code: file: queue: dict: crypto: mnesia: rpc: global: logger: "
    "elixir: ";
constexpr std::string_view kFiles[] = {"node_modules",
                                       "node:",

                                       "site-packages",
                                       "dist-packages",
                                       "/lib/python",
                                       "<frozen",
                                       "<string>",
                                       "<unknown>",
                                       "/gems/",
                                       "/lib/ruby/",
                                       "<internal:",
                                       "/rubygems/",
                                       "vendor/",
                                       "/pkg/mod/",
                                       "/usr/lib",
                                       "/usr/local/go/",
                                       "/usr/local/lib/",
                                       "/rustc/",
                                       ".cargo/",
                                       "/go/src/runtime",
                                       "\\Lib\\",
                                       "(native)",
                                       "[internal function]",
                                       "/usr/include",
                                       "/lib/x86_64",
                                       "/lib64/",
                                       "/lib/aarch64",
                                       "/goroot/",
                                       "/toolchains/",
                                       "webpack/bootstrap",
                                       "webpack/runtime",
                                       "native ",
                                       "/build/glibc",
                                       "../sysdeps/",
                                       "../nptl/",
                                       "_build/default/lib/",

                                       "/hostedtoolcache/",
                                       "libc.so",
                                       "libstdc++",
                                       "libpthread",
                                       "<__array_function__",
                                       "/opt/python/lib",
                                       ".nuget",
                                       "/usr/share/php",
                                       "phar://",
                                       "./csu/",
                                       "libc-start"};

constexpr std::string_view kApplications[] = {
    "elixir",      "stdlib",          "kernel",        "phoenix",   "ecto",
    "ecto_sql",    "db_connection",   "broadway",      "amqp",      "plug",
    "postgrex",    "myxql",           "jason",         "gen_stage", "phoenix_pubsub",
    "plug_cowboy", "cowboy",          "finch",         "mint",      "tesla",
    "hackney",     "httpoison",       "telemetry",     "oban",      "broadway_rabbitmq",
    "amqp_client", "logger",          "ex_unit",       "mix",       "iex",
    "req",         "nimble_pool",     "rabbit_common", "erts",      "poison",
    "bandit",      "thousand_island", "absinthe",      "redix",     "crypto",
    "ssl",         "inets",           "decimal",       "timex",     "nimble_options",
    "swoosh",      "ex_aws",          "gun",           "commanded"};

consteval std::size_t count_of(std::string_view names) {
  return static_cast<std::size_t>(std::ranges::count(names, ' '));
}

template <std::size_t N>
consteval std::array<std::string_view, N> sorted(std::string_view list) {
  std::array<std::string_view, N> names{};
  std::size_t from = 0;
  for (std::string_view& name : names) {
    const std::size_t to = list.find(' ', from);
    name = list.substr(from, to - from);
    from = to + 1;
  }
  std::ranges::sort(names);
  // Of "com.sun." and "com.sun.proxy." only the shorter counts: so the last one that is not greater decides.
  std::size_t kept = 0;
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (!names[i].starts_with(names[kept])) names[++kept] = names[i];
  }
  std::fill(names.begin() + static_cast<std::ptrdiff_t>(kept) + 1, names.end(), std::string_view("\xff"));
  return names;
}

constexpr auto kSortedJvm = sorted<count_of(kJvm)>(kJvm);
constexpr auto kSortedDotnet = sorted<count_of(kDotnet)>(kDotnet);
constexpr auto kSortedPhp = sorted<count_of(kPhp)>(kPhp);
constexpr auto kSortedGo = sorted<count_of(kGo)>(kGo);
constexpr auto kSortedRust = sorted<count_of(kRust)>(kRust);
constexpr auto kSortedCpp = sorted<count_of(kCpp)>(kCpp);
constexpr auto kSortedBeam = sorted<count_of(kBeam)>(kBeam);

bool begins_with_one(std::span<const std::string_view> names, std::string_view name) {
  const auto after = std::ranges::upper_bound(names, name);
  return after != names.begin() && name.starts_with(*(after - 1));
}

}  // namespace

bool is_foreign_name(Language language, std::string_view name) {
  switch (language) {
    case Language::java:
      return begins_with_one(kSortedJvm, name);
    case Language::dotnet:
      return begins_with_one(kSortedDotnet, name);
    case Language::php:
      return begins_with_one(kSortedPhp, name);
    case Language::go:
      return begins_with_one(kSortedGo, name);
    case Language::rust:
      return begins_with_one(kSortedRust, name);
    case Language::cpp:
      return name.starts_with("std::") || begins_with_one(kSortedCpp, name) ||
             begins_with_one(kSortedRust, name);
    case Language::elixir:
    case Language::erlang:
      return begins_with_one(kSortedBeam, name);
    case Language::node:
      return name.starts_with("process.");
    case Language::python:
    case Language::ruby:
      return false;
  }
  return false;
}

bool is_foreign_file(std::string_view file) {
  // Node's before 16, and Mix's
  if (file.starts_with("internal/") || file.starts_with("deps/")) return true;
  return std::ranges::any_of(
      kFiles, [&](std::string_view part) { return file.find(part) != std::string_view::npos; });
}

bool is_foreign_application(std::string_view name) {
  return std::ranges::find(kApplications, name) != std::end(kApplications);
}

}  // namespace rung::causes
