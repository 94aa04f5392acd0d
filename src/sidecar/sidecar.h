// The sidecar, in the foreground; and parts of it, which doctor, healthcheck and tests use, too.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "src/bridge/vitals.h"
#include "src/config/config.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"
#include "src/net/http_client.h"

namespace rung::sidecar {

// 0 after SIGTERM or SIGINT, 1 for a user error (config, newer schema, a node name used twice). Thread:
// main's, which runs the loop until the sidecar has ended.
int run(const std::string& config_path, const GroupChoice& choice);

// Where a sidecar with this config is reached from its own machine: "http://127.0.0.1:8025". REQUIRES:
// http.listen is set. Thread: any.
std::string own_url(const HttpOptions& http);
// What it answers there to GET `path`, within `most`. Its certificate, which names the host as others see it,
// is not verified: nothing secret is sent. Thread: any; blocks.
net::HttpReply ask_own(const HttpOptions& http, const std::string& path, Ms most);

// The line that `systemctl status` shows for a sidecar: what it waits for, what is wrong, or that it serves.
// One short sentence without line ends.
std::string status_line(const bridge::Vitals& vitals, const bridge::StartState& start);

// Reads the config for a reload, on a thread of its own: the config, and the files that it names, may be on a
// file system that hangs, and the loop has leases to keep. Thread: the loop's.
class ConfigReader {
 public:
  // `read` runs on the thread; `done`, after each read, on the loop. REQUIRES: while it is being read,
  // neither this object nor the loop ends: a process whose read hangs ends without destructors.
  ConfigReader(io::Loop& loop, std::function<LoadedConfig()> read, std::function<void(LoadedConfig&)> done)
      : loop_(loop), read_(std::move(read)), done_(std::move(done)) {}
  ConfigReader(const ConfigReader&) = delete;
  ConfigReader& operator=(const ConfigReader&) = delete;

  // Reads the config. While it is being read: once more afterwards, however often this is called.
  void request();
  bool is_reading() const { return reading_; }

 private:
  io::Loop& loop_;
  const std::function<LoadedConfig()> read_;
  const std::function<void(LoadedConfig&)> done_;
  bool reading_ = false, again_ = false;
};

}  // namespace rung::sidecar
