// Reads the config for a reload, on a thread of its own: the config, and the files that it names, may be on a
// file system that hangs, and the loop has leases to keep.
// Thread: the loop's. The destructor does not wait for a read that hangs: its thread ends with the process.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "src/config/config.h"
#include "src/core/base/clock.h"
#include "src/io/loop.h"

namespace rung::cli {

class ConfigReader {
 public:
  using Read =
      std::function<LoadedConfig()>;  // runs on the thread; REQUIRES: it refers to nothing of the caller
  struct Outcome {
    LoadedConfig loaded;
    BootMs started{0};  // the files may have changed since
  };
  // `done`: on the loop, after each read.
  ConfigReader(io::Loop& loop, Read read, std::function<void(Outcome&)> done);
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
  void finished(Outcome& outcome);

  io::Loop& loop_;
  const Read read_;
  const std::function<void(Outcome&)> done_;
  const std::shared_ptr<Link> link_;
  std::optional<BootMs> since_;
  bool again_ = false;
};

}  // namespace rung::cli
