// The reasons of an outage that were reported: each is news once, and at most kMost are, because others write
// them. Thread: its owner's.
#pragma once

#include <cstddef>
#include <set>
#include <string>

namespace rung::bridge {

class OutageReasons {
 public:
  static constexpr std::size_t kMost = 20;  // of one outage

  bool is_news(const std::string& reason) { return told_.size() < kMost && told_.insert(reason).second; }
  void clear() { told_.clear(); }  // the outage is over

 private:
  std::set<std::string> told_;
};

}  // namespace rung::bridge
