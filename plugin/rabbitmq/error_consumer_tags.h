// The consumer tags of one channel, and the queue of each. A queue that rests is consumed anew each time,
// under a new tag. Deliveries of a consumer that has ended come soon after, if at all: of those the latest
// kMostEnded are enough. Thread: one.
#pragma once

#include <charconv>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace rung::rabbit {

class ErrorConsumerTags {
 public:
  static constexpr std::size_t kMostEnded = 2000;
  using Consumed = std::map<std::string, std::string, std::less<>>;  // queue -> tag

  // A new channel.
  void clear() {
    consumed_.clear();
    queues_.clear();
    next_ = 0;
  }
  // The tag of the queue's next consumer.
  std::string begin(const std::string& queue) {
    forget_ended();
    std::string tag = tag_of(next_);
    queues_.emplace(next_++, queue);
    return consumed_[queue] = std::move(tag);
  }
  // "" = not known, or forgotten.
  std::string queue_of(std::string_view tag) const {
    if (!tag.starts_with(kBegins)) return {};
    tag.remove_prefix(kBegins.size());
    std::size_t number = 0;
    const auto [end, problem] = std::from_chars(tag.data(), tag.data() + tag.size(), number);
    const auto known = problem == std::errc{} ? queues_.find(number) : queues_.end();
    return known == queues_.end() ? std::string() : known->second;
  }
  // Those that are consumed. Erasing one ends its consumer.
  Consumed& consumed() { return consumed_; }
  const Consumed& consumed() const { return consumed_; }
  std::size_t known() const { return queues_.size(); }

 private:
  static constexpr std::string_view kBegins = "error.";

  static std::string tag_of(std::size_t number) { return std::string(kBegins) + std::to_string(number); }
  void forget_ended() {
    if (queues_.size() < consumed_.size() + 2 * kMostEnded) return;
    std::erase_if(queues_, [this](const auto& one) {
      const auto consumed = consumed_.find(one.second);
      const bool current = consumed != consumed_.end() && consumed->second == tag_of(one.first);
      return !current && one.first + kMostEnded < next_;
    });
  }

  Consumed consumed_;
  std::map<std::size_t, std::string> queues_;  // by the number in the tag: consumed, and the latest that were
  std::size_t next_ = 0;
};

}  // namespace rung::rabbit
