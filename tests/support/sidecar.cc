#include "tests/support/sidecar.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace rung::test {
namespace fs = std::filesystem;

std::string yaml(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(c));
      out += hex;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void SidecarConfig::queue(std::string_view name, std::string_view rules) {
  queues += "  " + yaml(name) + ": " + std::string(rules) + "\n";
}

namespace {

// $RUNG_TEST_SIDECAR_USER, "user:password": the sidecars log in at both servers as this user instead
// (tests/permissions); the tests themselves go on as they are.
std::string as_sidecar_user(std::string url) {
  const char* user = std::getenv("RUNG_TEST_SIDECAR_USER");
  if (user == nullptr || *user == '\0') return url;
  const auto begin = url.find("://");
  if (begin == std::string::npos) return url;
  const auto end = url.find('/', begin + 3), at = url.rfind('@', end);
  const auto host = at == std::string::npos || at < begin ? begin + 3 : at + 1;
  return url.substr(0, begin + 3) + user + "@" + url.substr(host);
}

}  // namespace

std::string SidecarConfig::text() const {
  const auto address = [](const std::string& url, const std::vector<std::string>& urls) {
    if (urls.empty()) return "  url: " + yaml(as_sidecar_user(url)) + "\n";
    std::string lines = "  urls:\n";
    for (const std::string& one : urls) lines += "    - " + yaml(as_sidecar_user(one)) + "\n";
    return lines;
  };
  std::string out = "broker:\n" + address(broker_url, broker_urls) + "  prefix: " + yaml(prefix) + "\n" +
                    broker + "store:\n" + address(store_url, store_urls) + store + "node: " + yaml(node) +
                    "\nlog: " + log + "\nladders:\n  default: " + ladder + "\n" + ladders + more;
  if (!queues.empty()) out += "queues:\n" + queues;
  return out;
}

std::string rung_program() {
  const char* other = std::getenv("RUNG_TEST_PROGRAM_OVERRIDE");  // for trying another build by hand
  return other != nullptr && *other != '\0' ? other : RUNG_TEST_PROGRAM;
}

Ran run_shell(const std::string& command) {
  Ran ran;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen");
  char buffer[4096];
  for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ran.out.append(buffer, n);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

// --- the process

Sidecar::Sidecar(const SidecarConfig& config) : prefix_(config.prefix), broker_url_(config.broker_url) {
  std::string folder = (fs::temp_directory_path() / "rung-test.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp " + folder);
  folder_ = folder;
  rewrite(config.text());
}

Sidecar::~Sidecar() {
  if (pid_ > 0) kill9();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Sidecar::rewrite(const std::string& text) {
  std::ofstream(config_path(), std::ios::binary | std::ios::trunc) << text;
}

void Sidecar::start() {
  if (pid_ > 0) throw std::logic_error("the sidecar runs already");
  const std::string path = (folder_ / "log").string();
  const int log = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) throw std::runtime_error("open " + path);
  started_at_ = fs::file_size(path);
  const std::string program = rung_program(), yaml_path = config_path();
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is killed takes its sidecar along
    if (getppid() != parent) _exit(126);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execl(program.c_str(), "rung", "run", "-c", yaml_path.c_str(), nullptr);
    _exit(127);
  }
  close(log);
  if (pid_ < 0) throw std::runtime_error("fork");
}

bool Sidecar::wait_ready(Ms within, std::uint32_t consumers) {
  AmqpProbe probe;
  const std::string queue = prefix_ + ".failed";
  return eventually(
      [&] {
        if (!running()) throw std::runtime_error("rung run ended at once:\n" + log_tail());
        return log_since_start().find("broker connected") != std::string::npos &&
               probe.consumers(queue).value_or(0) >= consumers;
      },
      within);
}

void Sidecar::signal(int number) {
  if (pid_ > 0) ::kill(pid_, number);
}

void Sidecar::kill9() {
  signal(SIGKILL);
  wait_exit();
}

std::optional<int> Sidecar::wait_exit(Ms within) {
  if (pid_ <= 0) return std::nullopt;
  int status = 0;
  if (!eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, within)) return std::nullopt;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool Sidecar::running() { return pid_ > 0 && !wait_exit(Ms{0}).has_value(); }

std::string Sidecar::log() const {
  std::ostringstream text;
  text << std::ifstream(folder_ / "log", std::ios::binary).rdbuf();
  return text.str();
}

std::string Sidecar::log_since_start() const {
  const std::string all = log();
  return all.substr(std::min<std::size_t>(started_at_, all.size()));
}

bool Sidecar::logged(std::string_view text, Ms within) const {
  return eventually([&] { return log_since_start().find(text) != std::string::npos; }, within);
}

std::string Sidecar::log_tail(std::size_t bytes) const {
  const std::string all = log();
  return all.size() <= bytes ? all : "...\n" + all.substr(all.size() - bytes);
}

// --- the fixture

SidecarTest::SidecarTest() { config.store_url = db.url(); }

SidecarTest::~SidecarTest() {
  if (sidecar_ && HasFailure())
    std::fprintf(stderr, "--- the log of rung run:\n%s---\n", sidecar_->log_tail().c_str());
  sidecar_.reset();
  try {
    for (const std::string& queue : queues_) amqp.remove(queue);
    amqp.remove_place(config.prefix);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "clean-up: %s\n", e.what());
  }
}

void SidecarTest::start() {
  if (!sidecar_) sidecar_ = std::make_unique<Sidecar>(config);
  sidecar_->start();
  ASSERT_TRUE(sidecar_->wait_ready()) << "rung run is not ready after " << kBound.count() << " ms";
}

std::string SidecarTest::new_name(std::string_view what) {
  queues_.push_back(unique_name(what));
  return queues_.back();
}

std::string SidecarTest::attached(std::string_view what) {
  const std::string name = new_name(what);
  declare_attached(name);
  return name;
}

void SidecarTest::declare_attached(const std::string& name) {
  amqp.declare(name, {{"x-dead-letter-exchange", failed()}});
}

Received SidecarTest::fail(const std::string& queue, const Message& message) {
  EXPECT_TRUE(amqp.publish("", queue, message));
  Received seen = delivery(queue);
  amqp.reject(seen);
  return seen;
}

void SidecarTest::publish_failed(const std::string& queue, std::size_t count, const std::string& name) {
  std::vector<Message> messages;
  for (std::size_t i = 0; i < count; ++i)
    messages.push_back(failed_message(queue, name + "-" + std::to_string(i)));
  AmqpProbe().publish_all(failed(), "", messages);
}

Received SidecarTest::delivery(const std::string& queue, Ms within) {
  auto received = amqp.get_within(queue, within);
  if (!received) {
    ADD_FAILURE() << "no delivery from " << queue << " within " << within.count() << " ms";
    return {};
  }
  return std::move(*received);
}

void SidecarTest::expect_nothing(const std::string& queue, Ms from_now) {
  constexpr std::size_t kMarkers = 32;
  const std::string other = new_name("markers");
  amqp.declare(other);
  Message marker;
  marker.headers = Table{{"x-delay", from_now.count()}};
  std::vector<Message> markers(kMarkers, marker);
  for (Message& one : markers) one.properties.message_id = unique_name("marker");
  amqp.publish_all(config.prefix + ".delay", other, markers);
  EXPECT_EQ(amqp.take(other, kMarkers, kBound).size(), kMarkers) << rung().log_tail();
  const auto got = amqp.get(queue);
  EXPECT_FALSE(got) << queue << " got " << got->message.body.str();
}

void SidecarTest::report(const Received& delivered, std::string_view result, std::string_view error) {
  Message word;
  word.headers = Table{{"retry-id", text_header(delivered.message, "retry-id")},
                       {"retry-attempt", int_header(delivered.message, "retry-attempt")},
                       {"retry-token", text_header(delivered.message, "retry-token")},
                       {"retry-result", std::string(result)}};
  if (!error.empty()) word.headers->emplace_back("retry-error", std::string(error));
  EXPECT_TRUE(amqp.publish(results(), "", word));
}

std::vector<Row> SidecarTest::rows(const std::string& sql) {
  if (!in_schema_) {  // the sidecar makes the schema, some time after its start
    if (db.value("SELECT COUNT(*) FROM information_schema.views WHERE table_name = 'retry_by_queue' AND "
                 "table_schema = '" +
                 db.name() + "'") == "0") {
      return {};
    }
    db.exec("USE `" + db.name() + "`");
    in_schema_ = true;
  }
  std::vector<std::string> names;
  std::vector<Row> out;
  for (const auto& cells : db.query(sql)) {
    if (names.empty()) names = db.columns(sql);
    Row row;
    for (std::size_t i = 0; i < cells.size(); ++i) row[names[i]] = cells[i];
    out.push_back(std::move(row));
  }
  return out;
}

std::vector<Row> SidecarTest::current(const std::string& queue) {
  std::string hex;
  for (const char c : queue) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    hex += two;
  }
  return rows("SELECT * FROM retry_current WHERE CAST(queue AS BINARY) = X'" + hex + "' ORDER BY retry_id");
}

std::vector<Row> SidecarTest::history(const std::string& id) {
  return rows("SELECT * FROM retry_history WHERE retry_id = " + id + " ORDER BY attempt");
}

Row SidecarTest::wait_state(const std::string& queue, std::string_view state, Ms within) {
  std::vector<Row> found;
  const bool done = eventually(
      [&] {
        found = current(queue);
        return found.size() == 1 && found[0]["state"] == state;
      },
      within);
  if (!done) {
    ADD_FAILURE() << found.size() << " rows of " << queue << ", the first is "
                  << (found.empty() ? "none" : found[0]["state"]) << " and not " << state;
  }
  return found.empty() ? Row{} : found[0];
}

Row SidecarTest::wait_row(const std::string& where, std::string_view state, Ms within) {
  Row row;
  const bool done = eventually(
      [&] {
        auto found = rows("SELECT * FROM retry_current WHERE " + where);
        if (!found.empty()) row = std::move(found[0]);
        return !row.empty() && (state.empty() || row["state"] == state);
      },
      within);
  if (!done)
    ADD_FAILURE() << where << " is " << row["state"] << " and not " << state << "\n"
                  << (sidecar_ ? sidecar_->log_tail() : "");
  return row;
}

// --- values

Message failed_message(const std::string& queue, const std::string& name) {
  Message message;
  message.body = name;
  message.properties.message_id = name;
  message.properties.delivery_mode = 2;
  message.headers = Table{{"retry-queue", queue}};
  return message;
}

bool has_header(const Message& message, std::string_view name) {
  return find(message.headers, name) != nullptr;
}

std::string text_header(const Message& message, std::string_view name) {
  const Value* value = find(message.headers, name);
  const std::string* text = value == nullptr ? nullptr : value->as_text();
  return text == nullptr ? "" : *text;
}

std::int64_t int_header(const Message& message, std::string_view name) {
  const Value* value = find(message.headers, name);
  return value == nullptr ? -1 : value->as_int().value_or(-1);
}

std::string retry_id(const Received& received) { return text_header(received.message, "retry-id"); }

std::int64_t wall_ms() {
  return std::chrono::duration_cast<Ms>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::int64_t ms_of(const std::string& datetime) {
  std::tm tm{};
  int ms = 0;
  if (std::sscanf(datetime.c_str(), "%d-%d-%d %d:%d:%d.%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
                  &tm.tm_min, &tm.tm_sec, &ms) < 6) {
    ADD_FAILURE() << "not a time: " << datetime;
    return 0;
  }
  tm.tm_year -= 1900;
  tm.tm_mon -= 1;
  return timegm(&tm) * 1000 + ms;
}

}  // namespace rung::test
