#include "plugin/rabbitmq/publish/outstanding.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace rung::rabbit {
namespace {

bool same_message(const Message& a, const Message& b) {
  constexpr std::string_view kNames[] = {"retry-id", "retry-attempt"};
  if (a.properties.message_id != b.properties.message_id || a.body != b.body) return false;
  return std::all_of(std::begin(kNames), std::end(kNames), [&](std::string_view name) {
    const Value* x = find(a.headers, name);
    const Value* y = find(b.headers, name);
    return (x == nullptr) == (y == nullptr) && (x == nullptr || *x == *y);
  });
}

}  // namespace

std::uint64_t Outstanding::add(Sent sent) {
  sent_.emplace_hint(sent_.end(), ++last_, std::move(sent));
  return last_;
}

Sent* Outstanding::at(std::uint64_t tag) {
  const auto sent = sent_.find(tag);
  return sent == sent_.end() ? nullptr : &sent->second;
}

void Outstanding::settle(Sent& sent, bool ack, std::vector<PublishResult>& results) {
  using How = PublishResult::How;
  const How how = sent.returned ? How::returned : ack ? How::confirmed : How::nacked;
  if (how == How::nacked) sent.reason = "the broker refused it (basic.nack)";
  if (how == How::returned && keep_returned_ && !sent.outgoing.queue.empty()) {
    kept_.push_back(std::move(sent.outgoing));
  } else {
    results.push_back({sent.outgoing.token, how, std::move(sent.reason)});
  }
}

void Outstanding::confirm(std::uint64_t tag, bool multiple, bool ack, std::vector<PublishResult>& results) {
  // AMQP: tag 0 with `multiple` means all messages.
  const auto end = multiple && tag == 0 ? sent_.end() : sent_.upper_bound(tag);
  for (auto one = multiple ? sent_.begin() : sent_.lower_bound(tag); one != end; one = sent_.erase(one))
    settle(one->second, ack, results);
}

bool Outstanding::returned(const std::string& exchange, const std::string& routing_key,
                           const Message& message, std::string reason) {
  const auto find_from = [&](std::uint64_t tag) {
    return std::find_if(sent_.lower_bound(tag), sent_.end(), [&](const auto& one) {
      const Outgoing& outgoing = one.second.outgoing;
      return !one.second.returned && outgoing.exchange == exchange && outgoing.routing_key == routing_key &&
             same_message(outgoing.message, message);
    });
  };
  auto found = find_from(search_from_);
  if (found == sent_.end()) found = find_from(0);
  if (found == sent_.end()) return false;
  search_from_ = found->first + 1;
  found->second.returned = true;
  found->second.reason = std::move(reason);
  return true;
}

std::vector<Sent> Outstanding::take_all() {
  std::vector<Sent> all;
  all.reserve(sent_.size());
  for (auto& [tag, sent] : sent_) all.push_back(std::move(sent));
  sent_.clear();
  last_ = 1;
  search_from_ = 0;
  return all;
}

}  // namespace rung::rabbit
