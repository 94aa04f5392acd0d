// The stream of bytes from the broker: cut into frames, put together to messages. And messages of our own,
// cut into frames and put together again. Input: two bytes (where the stream is cut in two, the largest
// frame), then the stream.
#include <vector>

#include "plugin/rabbitmq/wire/codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/values.h"

namespace rung::rabbit {
namespace {

using fuzz::hold;

struct Seen {
  std::vector<Message> messages;
  std::size_t frames = 0, bytes = 0;
  bool error = false;
};

// As Connection and Consumer do it: the stream in pieces of any size.
Seen read(std::string_view first, std::string_view second, std::size_t most) {
  Seen seen;
  Content content;
  std::string stream;
  std::size_t taken = 0;
  for (const std::string_view piece : {first, second}) {
    stream.erase(0, taken);
    taken = 0;
    stream += piece;
    for (;;) {
      Frame frame;
      const auto size = cut_frame(std::string_view(stream).substr(taken), most, frame);
      if (!size) {
        seen.error = true;
        return seen;
      }
      if (*size == 0) break;
      hold(*size == frame.payload.size() + kFrameOverhead && taken + *size <= stream.size(),
           "a frame is in the stream");
      hold(frame.payload.size() <= most, "no frame is larger than agreed");
      taken += *size;
      seen.bytes += *size;
      ++seen.frames;
      // A large body's room is reserved at once, as it should be: here it would only cost time.
      if (frame.type == AMQP_FRAME_HEADER && frame.payload.size() >= 12 &&
          frame.payload.substr(4, 6) != std::string_view("\0\0\0\0\0\0", 6)) {
        continue;
      }
      if (frame.type == AMQP_FRAME_METHOD) {
        if (frame.method() != 0) content.begin();
      } else if (content.add(frame)) {
        seen.messages.push_back(content.take());
      }
    }
  }
  return seen;
}

void put_frame(std::string& out, std::uint8_t type, std::string_view payload) {
  put8(out, type);
  put16(out, 1);
  put32(out, static_cast<std::uint32_t>(payload.size()));
  out.append(payload);
  put8(out, AMQP_FRAME_END);
}

// Frames of `most` bytes, as the broker sends a message.
void hold_own(const Message& message, std::size_t most) {
  std::string header, stream;
  if (!encode_content_header(message, header)) hold(false, "what was read can be written");
  put_frame(stream, AMQP_FRAME_METHOD, std::string_view("\0\x3c\0\x3c", 4));
  put_frame(stream, AMQP_FRAME_HEADER, header);
  for (std::string_view body = message.body; !body.empty(); body.remove_prefix(std::min(most, body.size())))
    put_frame(stream, AMQP_FRAME_BODY, body.substr(0, most));
  const Seen seen = read(stream.substr(0, stream.size() / 2), stream.substr(stream.size() / 2), 1 << 20);
  hold(seen.messages.size() == 1 && !seen.error, "a message comes back");
  std::string again;
  hold(encode_content_header(seen.messages[0], again) && seen.messages[0].body == message.body, "as it was");
}

}  // namespace
}  // namespace rung::rabbit

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rung::rabbit;
  if (size < 2) return 0;
  const auto stream = rung::fuzz::text_of(data + 2, size - 2);
  const std::size_t most = 16 + data[1] * 64U, cut = std::min<std::size_t>(stream.size(), data[0]);
  const Seen whole = read(stream, {}, most);
  const Seen halves = read(stream.substr(0, cut), stream.substr(cut), most);
  rung::fuzz::hold(whole.frames == halves.frames && whole.error == halves.error &&
                       whole.bytes == halves.bytes && whole.messages.size() == halves.messages.size(),
                   "where a read ends changes nothing");
  for (std::size_t i = 0; i < whole.messages.size(); ++i) {
    rung::fuzz::hold(rung::fuzz::same(whole.messages[i], halves.messages[i]),
                     "where a read ends changes no message");
    hold_own(whole.messages[i], most);
  }
  return 0;
}
