#include "tests/simulator/broker_server.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tests/simulator/dead_letter.h"
#include "tests/simulator/messages.h"

namespace rung::sim {
namespace {

using How = PublishResult::How;
constexpr std::array<std::pair<Inlet, const char*>, 3> kInlets = {
    {{Inlet::failed, "rung.failed"}, {Inlet::results, "rung.results"}, {Inlet::delay, "rung.delay"}}};
constexpr int kCreditFlow = 400;  // publishes that a classic queue accepts before it blocks the connection

bool is_ours(const std::string& name) { return name.starts_with("rung."); }

}  // namespace

BrokerServer::BrokerServer(World& world, Watcher& watcher)
    : world_(world), watcher_(watcher), dice_(world.settings.seed, "broker") {
  for (const char* name : {"rung.failed", "rung.results", "rung.delay", "rung.parked"}) queues_[name];
  for (const std::string& name : kQueues) queues_[name].quorum = dice_.one_in(2);
}

// --- the network

LinkPtr BrokerServer::connect(const ProcessPtr& process) {
  if (away_ > 0) return nullptr;
  auto link = std::make_shared<Link>();
  link->id = ++last_link_;
  link->process = process;
  links_.push_back(link);
  return link;
}

void BrokerServer::send(const LinkPtr& link, std::function<void()> what) {
  if (!link->at_client) return;
  link->to_server = std::max(link->to_server, world_.events.now() + way() + link->slow);
  world_.events.at(link->to_server, nullptr, [this, link, what = std::move(what)] { read(link, what); });
}

void BrokerServer::reply(const LinkPtr& link, std::function<void()> what) {
  if (!link->at_server) return;
  link->to_client = std::max(link->to_client, world_.events.now() + way());
  world_.events.at(link->to_client, link->process, [link, what = std::move(what)] {
    if (link->at_client) what();
  });
}

void BrokerServer::read(const LinkPtr& link, std::function<void()> what) {
  if (!link->at_server) return;
  if (link->holds > 0 || !link->unread.empty()) {
    link->unread.push_back(std::move(what));
  } else {
    what();
  }
}

void BrokerServer::hold(const LinkPtr& link, int by) {
  link->holds += by;
  read_on(link);
}

void BrokerServer::read_on(const LinkPtr& link) {
  while (link->at_server && link->holds == 0 && !link->unread.empty()) {
    const auto what = std::move(link->unread.front());
    link->unread.pop_front();
    what();
  }
}

void BrokerServer::close(const LinkPtr& link) {
  if (!std::exchange(link->at_server, false)) return;
  world_.events.mix("close");
  link->unread.clear();
  link->consuming = false;
  for (auto it = link->unacked.rbegin(); it != link->unacked.rend(); ++it) {
    it->second.copy.redelivered = true;
    queues_[it->second.queue].ready.push_front(std::move(it->second.copy));
  }
  link->unacked.clear();
  for (Link::Limbo& waits : std::exchange(link->limbo, {})) {
    if (dice_.one_in(2) && queues_[waits.queue].exists)
      push(waits.queue, {waits.outgoing.message, waits.outgoing.exchange, waits.outgoing.routing_key},
           link->id);
  }
  std::erase(links_, link);
  deliver_all();
}

void BrokerServer::cut(const LinkPtr& link, Us notice) {
  close(link);
  world_.events.after(notice, link->process, [link] {
    if (std::exchange(link->at_client, false) && link->lost) link->lost();
  });
}

// --- consuming

void BrokerServer::consume(const LinkPtr& link, std::size_t prefetch,
                           std::function<void(std::vector<Delivery>)> deliver) {
  link->consuming = true;
  link->prefetch = prefetch;
  link->deliver = std::move(deliver);
  deliver_all();
}

void BrokerServer::cancel(const LinkPtr& link) { link->consuming = false; }

void BrokerServer::ack(const LinkPtr& link, std::uint64_t tag) {
  const auto unacked = link->unacked.extract(tag);
  if (unacked.empty()) return;
  watcher_.acked(unacked.mapped().queue, unacked.mapped().copy.message);
  deliver_all();
}

void BrokerServer::requeue(const LinkPtr& link, std::uint64_t tag) {
  auto unacked = link->unacked.extract(tag);
  if (unacked.empty()) return;
  unacked.mapped().copy.redelivered = true;
  queues_[unacked.mapped().queue].ready.push_front(std::move(unacked.mapped().copy));
  deliver_all();
}

// Round-robin over the consumers: each connection gets what its prefetch allows.
void BrokerServer::deliver_all() {
  if (std::exchange(delivering_, true)) return;
  for (bool more = true; more && !links_.empty();) {
    more = false;
    const std::size_t first = static_cast<std::size_t>(dice_.below(links_.size()));
    for (std::size_t i = 0; i < links_.size(); ++i)
      more = deliver_one(links_[(first + i) % links_.size()]) || more;
  }
  delivering_ = false;
}

bool BrokerServer::deliver_one(const LinkPtr& link) {
  if (!link->consuming || !link->at_server) return false;
  std::vector<Delivery> batch;
  for (const auto& [inlet, name] : kInlets) {
    auto& ready = queues_[name].ready;
    while (!ready.empty() && link->unacked.size() < link->prefetch && batch.size() < 8) {
      Copy copy = std::move(ready.front());
      ready.pop_front();
      const std::uint64_t tag = ++link->last_tag;
      batch.push_back({{{}, tag}, inlet, copy.redelivered, copy.exchange, copy.routing_key, copy.message});
      link->unacked.emplace(tag, Link::Unacked{name, std::move(copy)});
    }
  }
  if (batch.empty()) return false;
  reply(link, [link, batch = std::move(batch)] { link->deliver(batch); });
  return true;
}

// --- publishing

const std::string* BrokerServer::target_of(const Outgoing& outgoing, std::string& scratch) const {
  scratch = outgoing.exchange.empty() ? outgoing.routing_key : outgoing.exchange;
  if (outgoing.exchange == "rung.return") {
    const Value* bcc = find(outgoing.message.headers, "BCC");
    if (bcc == nullptr) return nullptr;
    scratch = *std::get<Array>(bcc->v).front().as_text();
    scratch.erase(0, std::string_view("queue:").size());
  }
  const auto queue = queues_.find(scratch);
  return queue != queues_.end() && queue->second.exists ? &queue->first : nullptr;
}

void BrokerServer::publish(const LinkPtr& link, const Outgoing& outgoing,
                           std::function<void(PublishResult)> answer) {
  std::string scratch;
  const std::string* name = target_of(outgoing, scratch);
  if (name == nullptr) {
    watcher_.returned(outgoing.message);
    watcher_.nacked(outgoing.message, link->id);
    return answer_later(link, std::move(answer), {outgoing.token, How::returned, "312 NO_ROUTE"});
  }
  Queue& queue = queues_[*name];
  if (queue.silent > 0) {
    link->limbo.push_back({*name, outgoing, std::move(answer)});
    const auto here = std::ranges::count(link->limbo, *name, &Link::Limbo::queue);
    if (here >= (queue.quorum ? 1 : kCreditFlow) && link->stuck[*name]++ == 0) hold(link, 1);
    return;
  }
  if (queue.full > 0) {
    watcher_.nacked(outgoing.message, link->id);
    if (!queue.quorum) dead_letter_refused(*name, outgoing);
    return answer_later(link, std::move(answer), {outgoing.token, How::nacked, "the queue is full"});
  }
  push(*name, {outgoing.message, outgoing.exchange, outgoing.routing_key}, link->id);
  answer_later(link, std::move(answer), {outgoing.token, How::confirmed, {}});
}

// A classic queue with x-overflow reject-publish-dlx: the dead letter may come before the nack, or after it.
void BrokerServer::dead_letter_refused(const std::string& queue, const Outgoing& outgoing) {
  Copy copy{outgoing.message, "rung.failed", outgoing.routing_key};
  add_death(copy.message, "maxlen", queue, outgoing.exchange, outgoing.routing_key,
            world_.wall->us() / kSecond);
  world_.events.after(dice_.between(0, 20'000), nullptr,
                      [this, copy = std::move(copy)] { push("rung.failed", copy, 0); });
}

// Each when its queue has written it, so not in the order of arrival.
void BrokerServer::answer_later(const LinkPtr& link, std::function<void(PublishResult)> answer,
                                PublishResult result) {
  const Us disk = dice_.one_in(50) ? dice_.between(10, 2000) * kMs : dice_.between(50, 3000);
  world_.events.after(disk, nullptr, [this, link, answer = std::move(answer), result = std::move(result)] {
    reply(link, [answer, result] { answer(result); });
  });
}

void BrokerServer::push(const std::string& name, Copy copy, std::uint64_t by) {
  std::erase_if(*copy.message.headers, [](const auto& header) { return header.first == "BCC"; });
  copy.serial = ++last_serial_;
  world_.events.mix(name);
  ++queues_[name].published;
  const Message& message = queues_[name].ready.emplace_back(std::move(copy)).message;
  if (!is_ours(name)) {
    watcher_.arrived(name, message, by);
    on_copy(name);
  } else if (name == "rung.parked") {
    watcher_.arrived(name, message, by);
  } else {
    deliver_all();
  }
}

// --- applications

bool BrokerServer::put(const std::string& exchange, const std::string& key, const Message& message) {
  if (away_ > 0) return false;
  const std::string name = exchange.empty() ? key : exchange;
  const auto queue = queues_.find(name);
  if (queue == queues_.end() || !queue->second.exists) return false;
  Copy copy{message, exchange, key};
  if (!copy.message.headers) copy.message.headers.emplace();
  push(name, std::move(copy), 0);
  return true;
}

bool BrokerServer::reject(const std::string& queue, Copy copy) {
  if (queues_[queue].detached > 0) return false;
  add_death(copy.message, "rejected", queue, copy.exchange, copy.routing_key, world_.wall->us() / kSecond);
  copy.redelivered = false;
  push("rung.failed", std::move(copy), 0);
  return true;
}

void BrokerServer::back(const std::string& queue, Copy copy) {
  copy.redelivered = true;
  queues_[queue].ready.push_front(std::move(copy));
  on_copy(queue);
}

// --- faults

void BrokerServer::detach(const std::string& name, bool yes) {
  Queue& queue = queues_[name];
  world_.note(0, [&] { return name + (yes ? " is detached" : " is attached again"); });
  if (yes && queue.detached++ == 0) queue.detached_at = world_.events.now();
  if (!yes) --queue.detached;
}

void BrokerServer::idle(const std::string& name, bool yes) {
  Queue& queue = queues_[name];
  world_.note(0, [&] { return name + (yes ? " has no consumer" : " has a consumer again"); });
  queue.idle += yes ? 1 : -1;
  if (queue.idle > 0) return;
  for (std::size_t i = 0; i < queue.ready.size(); ++i) on_copy(name);
}

void BrokerServer::silence(const std::string& name, bool yes) {
  Queue& queue = queues_[name];
  queue.silent += yes ? 1 : -1;
  if (queue.silent > 0) return;
  for (std::size_t i = 0; i < queue.ready.size(); ++i) on_copy(name);
  for (const LinkPtr& link : std::vector<LinkPtr>(links_)) {
    if (!link->at_server) continue;
    std::vector<Link::Limbo> waited;
    std::erase_if(link->limbo, [&](Link::Limbo& waits) {
      if (waits.queue != name) return false;
      waited.push_back(std::move(waits));
      return true;
    });
    for (Link::Limbo& waits : waited) publish(link, waits.outgoing, std::move(waits.answer));
    if (link->stuck.erase(name) > 0) hold(link, -1);
  }
}

void BrokerServer::block(bool yes) {
  blocked_ += yes ? 1 : -1;
  for (const LinkPtr& link : std::vector<LinkPtr>(links_)) {
    if (link->publishes) hold(link, yes ? 1 : -1);
  }
  on_alarm();
}

void BrokerServer::go_away(bool yes) {
  away_ += yes ? 1 : -1;
  if (!yes) return;
  for (const LinkPtr& link : std::vector<LinkPtr>(links_)) {
    cut(link, way());
  }
}

std::vector<LinkPtr> BrokerServer::links_of(const ProcessPtr& process) const {
  std::vector<LinkPtr> out;
  for (const LinkPtr& link : links_) {
    if (link->process == process) out.push_back(link);
  }
  return out;
}

const Link* BrokerServer::link(std::uint64_t id) const {
  const auto found = std::ranges::find(links_, id, [](const LinkPtr& link) { return link->id; });
  return found == links_.end() ? nullptr : found->get();
}

bool BrokerServer::empty_inlets() const {
  for (const auto& [inlet, name] : kInlets) {
    if (!queues_.at(name).ready.empty()) return false;
  }
  return std::ranges::all_of(links_, [](const LinkPtr& link) { return link->unacked.empty(); });
}

}  // namespace rung::sim
