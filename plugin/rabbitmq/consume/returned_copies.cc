#include "plugin/rabbitmq/consume/returned_copies.h"

#include <string>

#include "src/core/machine/headers.h"
#include "src/core/message/identity.h"

namespace rung::rabbit {
namespace {

// A copy goes to its queue only, as it was sent first: without what makes the broker send it elsewhere, check
// or drop it, and without the count of a quorum queue.
void make_plain(Message& message) {
  message.properties.user_id.reset();
  message.properties.expiration.reset();
  if (!message.headers) return;
  std::erase_if(*message.headers, [](const auto& header) {
    return header.first == "CC" || header.first == "BCC" || header.first == "x-delivery-count";
  });
}

// All that is in it, among it retry-id and retry-token.
std::string identity_of(const Message& copy) {
  std::string facts = message_digest(copy);
  append_unpublished(facts, copy.properties);
  return facts;
}

std::string retry_id_of(const Message& copy) {
  const Value* id = find(copy.headers, header::kId);
  const std::string* text = id != nullptr ? id->as_text() : nullptr;
  return text != nullptr ? *text : std::string();
}

}  // namespace

std::size_t ReturnedCopies::put_back(std::vector<Delivery> copies) {
  std::vector<Outgoing> batch;
  {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::uint64_t> tokens;  // by identity
    for (Delivery& copy : copies) {
      make_plain(copy.message);
      // A connection that is lost between the publish and the ack leaves a copy twice: one goes on.
      const auto [same, first] = tokens.try_emplace(identity_of(copy.message), next_token_);
      Sent& sent = sent_[same->second];
      sent.tags.push_back(copy.tag);
      if (first) {
        batch.push_back({next_token_++, "", copy.source, std::move(copy.message)});
      } else {
        sent.twins.push_back(
            {copy.source, retry_id_of(copy.message), copy.message.properties.message_id.value_or("")});
      }
    }
  }
  const std::size_t count = batch.size();
  calls_.publish(std::move(batch));
  return count;
}

void ReturnedCopies::on_published(std::vector<PublishResult> results) {
  std::vector<DeliveryTag> to_ack, to_requeue;
  std::vector<DroppedCopy> dropped;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(results, [&](const PublishResult& result) {
      const auto sent = sent_.extract(result.token);
      if (sent.empty()) return false;
      const auto& [tags, twins] = sent.mapped();
      const bool confirmed = result.how == PublishResult::How::confirmed;
      auto& to = confirmed ? to_ack : to_requeue;
      to.insert(to.end(), tags.begin(), tags.end());
      if (confirmed) dropped.insert(dropped.end(), twins.begin(), twins.end());
      return true;
    });
  }
  for (const DroppedCopy& copy : dropped) caller_.on_copy_dropped(copy);
  if (!to_ack.empty()) calls_.ack(std::move(to_ack));
  if (!to_requeue.empty()) calls_.requeue(std::move(to_requeue));
  if (!results.empty()) caller_.on_published(std::move(results));
}

}  // namespace rung::rabbit
