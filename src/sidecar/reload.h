// Reading the config for a reload, and what is said of one that fails. Thread: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/config/config.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"

namespace rung::sidecar {

// Reads the config for a reload, on a thread of its own: the config, and the files that it names, may be on a
// file system that hangs, and the loop has leases to keep.
// Thread: the loop's. The destructor does not wait for a read that hangs: its thread ends with the process.
class ConfigReader {
 public:
  using Read =
      std::function<LoadedConfig()>;  // runs on the thread; REQUIRES: it refers to nothing of the caller
  // `done`: on the loop, after each read.
  ConfigReader(io::Loop& loop, Read read, std::function<void(LoadedConfig&)> done);
  ~ConfigReader();
  ConfigReader(const ConfigReader&) = delete;
  ConfigReader& operator=(const ConfigReader&) = delete;

  // Reads the config. While it is being read: once more afterwards, however often this is called.
  void request();
  // Since when it is being read; nullopt: it is not.
  const std::optional<BootMs>& reading_since() const { return since_; }

 private:
  struct Link;  // outlives this object, for the thread
  void start();
  void finished(LoadedConfig& loaded);

  io::Loop& loop_;
  const Read read_;
  const std::function<void(LoadedConfig&)> done_;
  const std::shared_ptr<Link> link_;
  std::optional<BootMs> since_;
  bool again_ = false;
};

// The sentence of the problem "config":
// "the last reload failed, and the previous config stays in effect: rung.yaml:3:5: ...".
std::string failed_reload(const LoadedConfig& loaded);
// "rung.yaml has been read for 30 s without end ...".
std::string slow_reload(const std::string& path, Ms since);

}  // namespace rung::sidecar
