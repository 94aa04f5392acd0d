#include "src/io/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "src/core/base/words.h"

namespace rung::io {
namespace {

constexpr Ms kStatusInterval{1000};
// On top of what the process says that it needs to stop.
constexpr Ms kStopMargin{5000};

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return value == nullptr ? std::string_view{} : value;
}

// Connected to $NOTIFY_SOCKET, a path or ("@...") an abstract name; -1 if there is none, or none that we can
// reach.
int connect_to(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof address.sun_path || (name[0] != '/' && name[0] != '@')) return -1;
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name[0] == '@') address.sun_path[0] = '\0';
  const int made = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return -1;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (connect(made, reinterpret_cast<const sockaddr*>(&address), size) == 0) return made;
  close(made);
  return -1;
}

// Half of what the service manager waits for, as sd_watchdog_enabled(3) advises.
Ms watchdog_interval() {
  const std::string_view pid = environment("WATCHDOG_PID");
  if (!pid.empty() && number_from<pid_t>(pid) != getpid()) return Ms{0};  // meant for a parent of ours
  return Ms{number_from<std::int64_t>(environment("WATCHDOG_USEC")).value_or(0) / 2000};
}

std::string monotonic_us() {
  timespec now{};  // not the Clock's: systemd compares it with its own
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::to_string(std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000);
}

}  // namespace

ServiceManager::ServiceManager(Loop& loop, std::function<std::string()> status)
    : status_(std::move(status)),
      socket_(connect_to(environment("NOTIFY_SOCKET"))),
      watchdog_(watchdog_interval()),
      alive_(loop, [this] { send("WATCHDOG=1"); }),
      status_timer_(loop, [this] { show_status(); }) {}

ServiceManager::~ServiceManager() {
  if (socket_ >= 0) close(socket_);
}

void ServiceManager::ready() {
  if (socket_ < 0 || stopping_) return;
  shown_ = status_();
  send("READY=1\nSTATUS=" + shown_);
  status_timer_.start(kStatusInterval, kStatusInterval);
  if (watchdog_ > Ms{0} && !alive_.active()) alive_.start(Ms{0}, watchdog_);
}

void ServiceManager::reloading() {
  if (stopping_) return;
  send("RELOADING=1\nMONOTONIC_USEC=" + monotonic_us() + "\nSTATUS=reloading the config");
}

void ServiceManager::stopping(Ms most) {
  stopping_ = true;
  status_timer_.stop();
  send("STOPPING=1\nEXTEND_TIMEOUT_USEC=" + std::to_string((most + kStopMargin).count() * 1000) +
       "\nSTATUS=draining");
}

void ServiceManager::show_status() {
  std::string now = status_();
  if (now == shown_) return;
  shown_ = std::move(now);
  send("STATUS=" + shown_);
}

// Non-blocking: a service manager that does not read (it is busy, or being restarted) misses a sign of life,
// and gets the next one.
void ServiceManager::send(const std::string& state) {
  if (socket_ >= 0) (void)::send(socket_, state.data(), state.size(), MSG_NOSIGNAL);
}

}  // namespace rung::io
