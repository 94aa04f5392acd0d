// Names and texts that come from messages or servers, each of which is told once. Of those after the first
// `most` nothing is told: what counts them says that there are more. Thread: its owner's.
#pragma once

#include <cstddef>
#include <set>
#include <string>

namespace rung::bridge {

class OncePerName {
 public:
  static constexpr std::size_t kMost = 1000;
  explicit OncePerName(std::size_t most = kMost) : most_(most) {}

  // Whether this is to be told now.
  bool is_news(const std::string& name) { return told_.size() < most_ && told_.insert(name).second; }
  void clear() { told_.clear(); }

 private:
  const std::size_t most_;
  std::set<std::string> told_;
};

}  // namespace rung::bridge
