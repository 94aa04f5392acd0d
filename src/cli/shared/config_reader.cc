#include "src/cli/shared/config_reader.h"

#include <mutex>
#include <thread>
#include <utility>

namespace rung::cli {

struct ConfigReader::Link {
  std::mutex mutex;
  ConfigReader* reader = nullptr;  // guarded by mutex; nullptr: it is gone
};

ConfigReader::ConfigReader(io::Loop& loop, Read read, std::function<void(Outcome&)> done)
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
  std::thread([link = link_, read = read_, started = *since_] {
    auto outcome = std::make_shared<Outcome>(Outcome{read(), started});
    const std::lock_guard lock(link->mutex);
    if (link->reader == nullptr) return;
    link->reader->loop_.post([link, outcome = std::move(outcome)] {
      // Both run on the loop: the reader cannot go away meanwhile.
      ConfigReader* reader = nullptr;
      {
        const std::lock_guard again(link->mutex);
        reader = link->reader;
      }
      if (reader != nullptr) reader->finished(*outcome);
    });
  }).detach();
}

void ConfigReader::finished(Outcome& outcome) {
  since_.reset();
  // What changed since the read began is read before `done` says that all is read.
  if (std::exchange(again_, false)) start();
  done_(outcome);
}

}  // namespace rung::cli
