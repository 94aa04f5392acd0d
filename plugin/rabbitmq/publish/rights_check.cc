#include "plugin/rabbitmq/publish/rights_check.h"

#include <string>
#include <utility>

#include "plugin/rabbitmq/publish/message_writer.h"
#include "plugin/rabbitmq/wire/codec.h"

namespace rung::rabbit {

// Uses the default exchange. No queue is named "", so the broker drops the message once it has checked our
// right.
void RightsCheck::send(Connection& connection, Outstanding& outstanding) {
  Sent check;
  check.outgoing.token = kToken;
  std::string header;
  (void)encode_content_header(check.outgoing.message, header);
  put_publish(connection.out(), check.outgoing, false);
  connection.frame(AMQP_FRAME_HEADER, kChannel, header);
  check.end = connection.appended();
  outstanding.add(std::move(check));
  pending_ = true;
}

Error RightsCheck::refused(const Closing& why) {
  if (why.code != AMQP_ACCESS_REFUSED) return {Error::Kind::transient, why.text};
  lost_ = true;
  return {Error::Kind::refused, "the broker refuses every publish: " + why.text};
}

}  // namespace rung::rabbit
