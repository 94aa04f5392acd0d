// Frames cut off a stream, messages put together from them.
#include <gtest/gtest.h>

#include "plugin/rabbitmq/wire/codec.h"

namespace rung::rabbit {
namespace {

std::string frame_of(std::uint8_t type, std::string_view payload, std::uint16_t channel = 1) {
  std::string out;
  put8(out, type);
  put16(out, channel);
  put32(out, static_cast<std::uint32_t>(payload.size()));
  out.append(payload);
  put8(out, AMQP_FRAME_END);
  return out;
}

TEST(CutFrame, AnyPieceOfAFrameIsNoneYet) {
  const std::string stream = frame_of(AMQP_FRAME_METHOD, std::string("\0\x3c\0\x3crest", 8), 513);
  Frame frame;
  for (std::size_t n = 0; n < stream.size(); ++n) {
    const auto cut = cut_frame(std::string_view(stream).substr(0, n), 100, frame);
    ASSERT_TRUE(cut) << n;
    EXPECT_EQ(*cut, 0U) << n;
  }
  const std::string longer = stream + "more";
  EXPECT_EQ(cut_frame(longer, 100, frame), stream.size());
  EXPECT_EQ(frame.type, AMQP_FRAME_METHOD);
  EXPECT_EQ(frame.channel, 513);
  EXPECT_EQ(frame.method(), 0x3c003cU);
  EXPECT_EQ(frame.payload.substr(4), "rest");
}

TEST(CutFrame, WhatIsNone) {
  Frame frame;
  const auto why = [&](std::string_view stream) {
    const auto cut = cut_frame(stream, 1000, frame);
    return cut ? "cut: " + std::to_string(*cut) : cut.error().message;
  };
  EXPECT_EQ(why(std::string_view("AMQP\0\0\x09\x01", 8)), "the broker does not speak AMQP 0-9-1");
  EXPECT_EQ(why("AMQ"), "cut: 0");
  EXPECT_EQ(why("HTTP/1.1 400 Bad Request"), "not AMQP, or a frame of 1345270062 bytes");
  EXPECT_EQ(why(frame_of(3, std::string(1000, 'x'))), "cut: 1008");
  EXPECT_EQ(why(frame_of(3, std::string(1001, 'x'))), "not AMQP, or a frame of 1001 bytes");
  std::string endless = frame_of(3, "x");
  endless.back() = 'x';
  EXPECT_EQ(why(endless), "a frame without its end mark");
  EXPECT_EQ(why(std::string("\3\0\1\xff\xff\xff\xff", 7)), "not AMQP, or a frame of 4294967295 bytes");
}

// The broker adds headers to a frame that was already full: larger than negotiated, but it must be accepted.
TEST(Content, HeadersLargerThanAFrame) {
  Message message;
  message.headers = Table{{"wide", std::string(131'000, 'w')}};
  for (int i = 0; i < 20; ++i) message.headers->emplace_back("x-" + std::to_string(i), std::string(250, 'd'));
  message.body = "body";
  std::string header;
  ASSERT_TRUE(encode_content_header(message, header));
  ASSERT_GT(header.size(), 131'072U);
  Content content;
  Frame frame;
  content.begin();
  const std::string one = frame_of(AMQP_FRAME_HEADER, header), two = frame_of(AMQP_FRAME_BODY, "body");
  EXPECT_EQ(cut_frame(one, 1 << 20, frame), one.size());
  EXPECT_FALSE(content.add(frame));
  EXPECT_EQ(cut_frame(two, 1 << 20, frame), two.size());
  EXPECT_TRUE(content.add(frame));
  EXPECT_TRUE(content.take() == message);
}

// A body of 2^63 bytes is only announced: nothing is made for it.
TEST(Content, AnnouncedIsNotThere) {
  std::string header;
  ASSERT_TRUE(encode_content_header({}, header));
  header[4] = '\x7f';
  Content content;
  content.begin();
  EXPECT_FALSE(content.add({AMQP_FRAME_HEADER, 1, header}));
  EXPECT_FALSE(content.add({AMQP_FRAME_BODY, 1, "x"}));
}

}  // namespace
}  // namespace rung::rabbit
