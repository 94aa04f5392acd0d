#include "src/sidecar/reload.h"

#include <mutex>
#include <thread>
#include <utility>

#include "levels/duration.h"

namespace rung::sidecar {

std::string failed_reload(const LoadedConfig& loaded) {
  std::string text =
      "the last reload failed, and the previous config stays in effect: " + loaded.problems.front().str();
  if (const std::size_t more = loaded.problems.size() - 1; more > 0)
    text += " (and " + std::to_string(more) + " more: rung check)";
  return text;
}

std::string slow_reload(const std::string& path, Ms since) {
  return "the config is being read for " + levels::format_duration(since) +
         " without an end, and the previous one stays in effect: " + path +
         " or a file that it names is on a file system that does not answer";
}

struct ConfigReader::Link {
  std::mutex mutex;
  ConfigReader* reader = nullptr;  // guarded by mutex; nullptr: it is gone
};

ConfigReader::ConfigReader(io::Loop& loop, Read read, std::function<void(LoadedConfig&)> done)
    : loop_(loop), read_(std::move(read)), done_(std::move(done)), link_(std::make_shared<Link>()) {
  link_->reader = this;
}

ConfigReader::~ConfigReader() {
  const std::lock_guard lock(link_->mutex);
  link_->reader = nullptr;
}

void ConfigReader::request() {
  if (since_) {
    again_ = true;
  } else {
    start();
  }
}

void ConfigReader::start() {
  since_ = loop_.clock().boot();
  std::thread([link = link_, read = read_] {
    auto loaded = std::make_shared<LoadedConfig>(read());
    const std::lock_guard lock(link->mutex);
    if (link->reader == nullptr) return;
    link->reader->loop_.post([link, loaded = std::move(loaded)] {
      // Both run on the loop: the reader cannot go away meanwhile.
      ConfigReader* reader = nullptr;
      {
        const std::lock_guard again(link->mutex);
        reader = link->reader;
      }
      if (reader != nullptr) reader->finished(*loaded);
    });
  }).detach();
}

void ConfigReader::finished(LoadedConfig& loaded) {
  since_.reset();
  // What changed since the read began is read before `done` says that all is read.
  if (std::exchange(again_, false)) start();
  done_(loaded);
}

}  // namespace rung::sidecar
