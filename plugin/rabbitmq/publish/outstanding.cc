#include "plugin/rabbitmq/publish/outstanding.h"

#include <algorithm>

#include "plugin/rabbitmq/wire/codec.h"

namespace rung::rabbit {
namespace {

// The encoded bytes: headers equal on the wire are equal, whatever types we decoded them to.
std::string header_bytes(const Message& message) {
  std::string out;
  (void)encode_content_header(message, out);
  return out;
}

bool same_place(const Outgoing& a, const std::string& exchange, const std::string& routing_key) {
  return a.routing_key == routing_key && a.exchange == exchange;
}

bool same_name(const Message& a, const Message& b) {
  constexpr std::string_view kNames[] = {"retry-id", "retry-attempt"};
  if (a.body.size() != b.body.size() || a.properties.message_id != b.properties.message_id) return false;
  return std::all_of(std::begin(kNames), std::end(kNames), [&](std::string_view name) {
    const Value* x = find(a.headers, name);
    const Value* y = find(b.headers, name);
    return (x == nullptr) == (y == nullptr) && (x == nullptr || *x == *y);
  });
}

}  // namespace

std::uint64_t Outstanding::add(Sent sent) {
  sent_.push_back(std::move(sent));
  ++open_;
  return base_ + sent_.size() - 1;
}

Sent* Outstanding::at(std::uint64_t tag) {
  if (tag < base_) {
    const auto old = old_.find(tag);
    return old == old_.end() ? nullptr : &old->second;
  }
  if (tag - base_ >= sent_.size()) return nullptr;
  Sent& sent = sent_[static_cast<std::size_t>(tag - base_)];
  return sent.settled ? nullptr : &sent;
}

void Outstanding::settle(Sent& sent, bool ack, std::vector<PublishResult>& results) {
  using How = PublishResult::How;
  const How how = sent.returned ? How::returned : ack ? How::confirmed : How::nacked;
  if (how == How::nacked) sent.reason = "the broker refused it (basic.nack)";
  if (how == How::returned && !keep_returned_.empty() && sent.outgoing.exchange == keep_returned_) {
    kept_.push_back(std::move(sent.outgoing));
  } else {
    results.push_back({sent.outgoing.token, how, std::move(sent.reason)});
  }
  sent.settled = true;
  sent.outgoing = {};
  --open_;
}

void Outstanding::pop_front() {
  if (sent_.front().settled) {
    --settled_;
  } else {
    old_.emplace_hint(old_.end(), base_, std::move(sent_.front()));
  }
  sent_.pop_front();
  ++base_;
}

void Outstanding::drop_settled() {
  while (!sent_.empty() && sent_.front().settled) pop_front();
  if (settled_ <= open_ + kMostSettled) return;
  while (settled_ > (open_ + kMostSettled) / 2) pop_front();
}

void Outstanding::confirm(std::uint64_t tag, bool multiple, bool ack, std::vector<PublishResult>& results) {
  // AMQP: tag 0 with `multiple` means all messages.
  const std::uint64_t last = multiple && tag == 0 ? base_ + sent_.size() - 1 : tag;
  const auto old_end = old_.upper_bound(last);
  for (auto old = multiple ? old_.begin() : old_.lower_bound(last); old != old_end; old = old_.erase(old))
    settle(old->second, ack, results);
  for (std::uint64_t t = multiple ? base_ : last; t <= last && t - base_ < sent_.size(); ++t) {
    Sent* sent = at(t);
    if (sent == nullptr) continue;
    settle(*sent, ack, results);
    ++settled_;
  }
  drop_settled();
}

bool Outstanding::returned(const std::string& exchange, const std::string& routing_key,
                           const Message& message, std::string reason) {
  const std::string bytes = header_bytes(message);
  const auto fits = [&](const Sent& s, bool exact) {
    if (s.settled || s.returned || !same_place(s.outgoing, exchange, routing_key)) return false;
    if (!exact) return same_name(s.outgoing.message, message);
    return s.outgoing.message.body == message.body && header_bytes(s.outgoing.message) == bytes;
  };
  const auto search = [&](std::uint64_t from, bool exact) -> Sent* {
    for (auto old = old_.lower_bound(from); old != old_.end(); ++old) {
      if (!fits(old->second, exact)) continue;
      search_from_ = old->first + 1;
      return &old->second;
    }
    for (std::uint64_t tag = std::max(from, base_); tag - base_ < sent_.size(); ++tag) {
      Sent& sent = sent_[static_cast<std::size_t>(tag - base_)];
      if (!fits(sent, exact)) continue;
      search_from_ = tag + 1;
      return &sent;
    }
    return nullptr;
  };
  Sent* found = search(search_from_, true);
  if (found == nullptr) found = search(search_from_, false);
  if (found == nullptr) found = search(0, false);
  if (found == nullptr) return false;
  found->returned = true;
  found->reason = std::move(reason);
  return true;
}

std::vector<Sent> Outstanding::take_all() {
  std::vector<Sent> all;
  all.reserve(open_);
  for (auto& [tag, sent] : old_) all.push_back(std::move(sent));
  for (Sent& sent : sent_) {
    if (!sent.settled) all.push_back(std::move(sent));
  }
  old_.clear();
  sent_.clear();
  base_ = search_from_ = 1;
  open_ = settled_ = 0;
  return all;
}

}  // namespace rung::rabbit
