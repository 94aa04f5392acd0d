// Tells the service manager (systemd, Type=notify) how the process is: ready, reloading, stopping, a line for
// `systemctl status`, and the watchdog's sign of life. Does nothing if there is no service manager
// ($NOTIFY_SOCKET). Thread: the loop's; sending never blocks.
//
// The protocol is one datagram to a socket, and stable: sd_notify(3) invites programs to implement it.
// libsystemd would bring five libraries, and has no static one for the image.
#pragma once

#include <functional>
#include <string>

#include "src/io/loop.h"

namespace rung::io {

class ServiceManager {
 public:
  // `status`: the present line for people, one short sentence; asked for once a second. REQUIRES: `loop`
  // outlives it.
  ServiceManager(Loop& loop, std::function<std::string()> status);
  ~ServiceManager();  // no further signs of life
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // The process works, whether or not its servers do: READY=1. From now on the watchdog is fed, by a timer of
  // the loop: if the loop is blocked, the service manager restarts the process.
  void ready();
  // Before a reload of the config; ready() ends it.
  void reloading();
  // The process ends within `most`: the service manager waits as long, even if its own timeout is shorter. No
  // ready() or reloading() counts after it.
  void stopping(Ms most);

 private:
  void send(const std::string& state);
  void show_status();

  const std::function<std::string()> status_;
  const int socket_;   // -1 = no service manager
  const Ms watchdog_;  // interval of the signs of life; 0 = no watchdog
  std::string shown_;
  bool stopping_ = false;
  Timer alive_, status_timer_;
};

}  // namespace rung::io
