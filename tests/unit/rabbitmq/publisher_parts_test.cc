// The components of a Publisher, without a broker: above all, the messages in flight when the broker closes
// the channel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "plugin/rabbitmq/publish/message_writer.h"
#include "plugin/rabbitmq/publish/publish_failures.h"
#include "plugin/rabbitmq/publish/routing.h"
#include "plugin/rabbitmq/wire/broker_headers.h"
#include "plugin/rabbitmq/wire/codec.h"
#include "tests/support/clock.h"

namespace rung::rabbit {
namespace {

using How = PublishResult::How;
using testing::ElementsAre;
using testing::IsEmpty;

class Sink final : public BrokerSink {
 public:
  void on_deliveries(std::vector<Delivery>) override {}
  void on_published(std::vector<PublishResult> batch) override {
    for (PublishResult& one : batch) results.emplace_back(one.token, one.how);
  }
  void on_status(const BrokerStatus&) override {}
  void on_topology(const TopologyReport&) override {}
  std::vector<std::pair<std::uint64_t, How>> results;
};

constexpr int kSyntax = 501, kRefused = AMQP_ACCESS_REFUSED, kPrecondition = AMQP_PRECONDITION_FAILED;

Sent sent(std::uint64_t token, std::string exchange = "", std::uint64_t end = 1) {
  Sent one;
  one.outgoing.token = token;
  one.outgoing.exchange = std::move(exchange);
  one.outgoing.routing_key = "orders";
  one.end = end;
  return one;
}

class PublishFailuresTest : public testing::Test {
 protected:
  void publish(Sent one) { outstanding_.add(std::move(one)); }
  std::vector<std::pair<std::uint64_t, How>> results() {
    outcomes_.hand_over();
    return std::exchange(sink_.results, {});
  }
  std::vector<std::uint64_t> queued() {
    std::vector<std::uint64_t> tokens;
    for (const Sent& one : queue_.take_all()) tokens.push_back(one.outgoing.token);
    return tokens;
  }
  // As Role::unproven, which keeps what an exchange refuses.
  void refuse_twice() {
    for (int i = 0; i < 2; ++i) {
      publish(i == 0 ? sent(1, "theirs") : queue_.take_first());
      unproven_.channel_closed({kRefused, "access to exchange 'theirs' in vhost '/' refused", 0});
    }
  }

  HandClock clock_;
  Sink sink_;
  std::vector<std::uint64_t> passed_on_;
  ProvenExchanges proven_{clock_};
  Routing as_main_{Role::main, proven_}, as_unproven_{Role::unproven, proven_};
  Outstanding outstanding_;
  SendQueue queue_;
  PublishOutcomes outcomes_{sink_, [this](std::vector<Outgoing> batch) {
                              for (const Outgoing& one : batch) passed_on_.push_back(one.token);
                            }};
  PublishFailures main_{{as_main_, outstanding_, queue_, outcomes_}};
  PublishFailures unproven_{{as_unproven_, outstanding_, queue_, outcomes_}};
};

TEST_F(PublishFailuresTest, AHangUpCountsTheSecondTime) {
  publish(sent(1));
  main_.hung_up({kSyntax, "SYNTAX_ERROR", 0});
  EXPECT_THAT(results(), IsEmpty());
  publish(queue_.take_first());
  main_.hung_up({kSyntax, "SYNTAX_ERROR", 0});
  EXPECT_THAT(results(), ElementsAre(std::pair(1, How::rejected)));
}

TEST_F(PublishFailuresTest, AReasonThatNamesOneSparesThoseBehindIt) {
  for (std::uint64_t token : {1, 2, 3, 4}) publish(sent(token, token == 3 ? "gone" : ""));
  main_.channel_closed({AMQP_NOT_FOUND, "NOT_FOUND - no exchange 'gone' in vhost '/'", 0});
  EXPECT_THAT(results(),
              ElementsAre(std::pair(1, How::lost), std::pair(2, How::lost), std::pair(3, How::returned)));
  EXPECT_FALSE(queue_.one_at_a_time());
  EXPECT_THAT(queued(), ElementsAre(4));
}

TEST_F(PublishFailuresTest, AReasonThatNamesNoneSendsAllAgainOneAtATime) {
  queue_.add(sent(9).outgoing);
  for (std::uint64_t token : {1, 2, 3}) publish(sent(token));
  main_.channel_closed({kPrecondition, "no reason that names it", 0});
  EXPECT_THAT(results(), IsEmpty());
  for (std::uint64_t token : {1, 2, 3}) {
    ASSERT_TRUE(queue_.one_at_a_time());
    const Sent next = queue_.take_first();
    EXPECT_EQ(next.outgoing.token, token);
    EXPECT_TRUE(next.maybe_delivered);
    EXPECT_EQ(next.end, 0U);
  }
  EXPECT_TRUE(queue_.one_at_a_time()) << "the last suspect has no answer yet";
  queue_.nothing_on_its_way();
  EXPECT_FALSE(queue_.one_at_a_time());
  EXPECT_THAT(queued(), ElementsAre(9));
}

TEST_F(PublishFailuresTest, ARefusedExchangeIsNotAskedAgainForASecond) {
  publish(sent(1, "gone"));
  main_.channel_closed({AMQP_NOT_FOUND, "no exchange 'gone' in vhost '/'", 0});
  EXPECT_EQ(as_main_.refusal_of(sent(2, "gone").outgoing), "no exchange 'gone' in vhost '/'");
  EXPECT_EQ(as_main_.refusal_of(sent(2, "other").outgoing), std::nullopt);
  clock_.advance(Ms{1'000});
  EXPECT_EQ(as_main_.refusal_of(sent(2, "gone").outgoing), std::nullopt);
}

TEST_F(PublishFailuresTest, AProvenExchangeThatRefusesUsIsUnprovenAgain) {
  proven_.add("theirs");
  publish(sent(1, "theirs"));
  main_.channel_closed({kRefused, "access to exchange 'theirs' in vhost '/' refused", 0});
  EXPECT_THAT(results(), IsEmpty());
  EXPECT_THAT(passed_on_, ElementsAre(1));
  EXPECT_FALSE(proven_.contains("theirs"));
}

TEST_F(PublishFailuresTest, RefusedTwiceIsReturnedOnceOurRightsAreConfirmed) {
  refuse_twice();
  EXPECT_THAT(results(), IsEmpty());
  ASSERT_TRUE(unproven_.waits_for_rights());
  unproven_.rights_confirmed();
  EXPECT_THAT(results(), ElementsAre(std::pair(1, How::returned)));
  EXPECT_FALSE(unproven_.waits_for_rights());
}

TEST_F(PublishFailuresTest, RefusedTwiceGoesBackWhereTheConnectionEndsBeforeThat) {
  refuse_twice();
  unproven_.rights_unknown();
  EXPECT_THAT(results(), IsEmpty());
  const Sent again = queue_.take_first();
  EXPECT_EQ(again.strikes, 0);
  EXPECT_EQ(again.end, 0U) << "nothing of it has been written since";
}

TEST_F(PublishFailuresTest, ALostConnectionTellsWholeFromCutBehindTheFence) {
  publish(sent(1, "", 100));
  publish(sent(2, "", 200));
  publish(sent(3, "", 0));
  Sent again = sent(4, "", 0);
  again.maybe_delivered = true;
  publish(std::move(again));
  main_.connection_lost(100, true, "cut");
  EXPECT_THAT(results(), ElementsAre(std::pair(1, How::lost), std::pair(2, How::fenced),
                                     std::pair(3, How::fenced), std::pair(4, How::lost)));
  publish(sent(5, "", 0));
  main_.connection_lost(0, false, "cut");
  EXPECT_THAT(results(), ElementsAre(std::pair(5, How::lost)));
}

TEST(MessageWriter, TheFenceIsClosedUntilItIsOpened) {
  MessageWriter writer;
  EXPECT_TRUE(writer.fence_passed(BootMs{1}));
  writer.allow_until(BootMs{10});
  EXPECT_FALSE(writer.fence_passed(BootMs{9}));
  EXPECT_TRUE(writer.fence_passed(BootMs{10}));
}

class RoutingTest : public testing::Test {
 protected:
  static Outgoing to(std::string exchange) { return {1, std::move(exchange), "key", {}}; }
  static Outgoing by_return() {
    Outgoing outgoing = to("");
    outgoing.queue = "orders";
    route_to_queue(outgoing, "rung.return");
    return outgoing;
  }
  HandClock clock_;
  ProvenExchanges proven_{clock_};
  Routing main_{Role::main, proven_}, unproven_{Role::unproven, proven_}, probe_{Role::probe, proven_};
};

TEST_F(RoutingTest, AnUnprovenExchangeBelongsToItsPublisherUntilItAnswered) {
  EXPECT_FALSE(main_.belongs_to_other(to("")));
  EXPECT_TRUE(main_.belongs_to_other(to("theirs")));
  EXPECT_FALSE(unproven_.belongs_to_other(to("theirs")));
  EXPECT_FALSE(probe_.belongs_to_other(to("theirs")));
  unproven_.sending(to("theirs"));
  unproven_.answered();
  EXPECT_FALSE(main_.belongs_to_other(to("theirs")));
  EXPECT_TRUE(unproven_.belongs_to_other(to("theirs")));
}

TEST_F(RoutingTest, ABindingIsTheProofOfTheReturnExchange) {
  EXPECT_TRUE(unproven_.needs_binding(by_return()));
  EXPECT_FALSE(main_.needs_binding(by_return()));
  EXPECT_TRUE(main_.belongs_to_other(by_return()));
  unproven_.sending(by_return());
  unproven_.answered();
  EXPECT_FALSE(unproven_.needs_binding(by_return()));
  EXPECT_FALSE(main_.belongs_to_other(by_return()));
}

// The broker's limit (max_message_size) is unknown, and a message beyond it closes its channel.
TEST_F(RoutingTest, ABodyLargerThanAnyBeforeGoesAlone) {
  Outgoing large = to("");
  large.message.body = std::string(2'000'000, 'x');
  EXPECT_TRUE(main_.belongs_to_other(large));
  EXPECT_FALSE(unproven_.belongs_to_other(large));
  unproven_.sending(large);
  unproven_.answered();
  EXPECT_FALSE(main_.belongs_to_other(large));
  large.message.body = std::string(2'000'001, 'x');
  EXPECT_TRUE(main_.belongs_to_other(large));
  proven_.clear();  // another connection: the limit may have changed
  large.message.body = std::string(2'000'000, 'x');
  EXPECT_TRUE(main_.belongs_to_other(large));
  proven_.set_no_helper(true);
  EXPECT_FALSE(main_.belongs_to_other(large)) << "it would go back and forth";
}

TEST_F(RoutingTest, AnUnreadableXDelayGoesAloneWhereAnExchangeMayReadIt) {
  Outgoing outgoing = to("theirs");
  proven_.add("theirs");
  outgoing.message.headers = Table{{"x-delay", std::int64_t{5}}};
  EXPECT_FALSE(main_.belongs_to_other(outgoing));
  outgoing.message.headers = Table{{"x-delay", "soon"}};
  EXPECT_TRUE(main_.belongs_to_other(outgoing));
  outgoing.exchange.clear();  // to a queue: nobody reads it
  EXPECT_FALSE(main_.belongs_to_other(outgoing));
}

TEST(Unpublishable, OnlyTheDirectReplyToItself) {
  Message message;
  EXPECT_EQ(unpublishable(message), "");
  message.properties.reply_to = "amq.rabbitmq.reply-to.g1h2AA5yZXBseUA.x==";
  EXPECT_EQ(unpublishable(message), "");
  message.properties.reply_to = "amq.rabbitmq.reply-to";
  EXPECT_NE(unpublishable(message), "");
}

TEST_F(RoutingTest, ARefusedBindingMeansTheDefaultExchange) {
  Outgoing outgoing = by_return();
  EXPECT_EQ(main_.choose_exchange(outgoing), "");
  EXPECT_EQ(outgoing.exchange, "rung.return");
  unproven_.refuse_binding(outgoing, "no right");
  EXPECT_FALSE(main_.belongs_to_other(outgoing));
  EXPECT_EQ(main_.choose_exchange(outgoing), "no right");
  EXPECT_EQ(outgoing.exchange, "");
  EXPECT_EQ(outgoing.routing_key, "orders");
  EXPECT_TRUE(outgoing.message.headers->empty());
}

TEST(Outstanding, OneWithoutAnAnswerHoldsUpNoOther) {
  Outstanding outstanding;
  std::vector<PublishResult> results;
  for (std::uint64_t tag = 2; tag <= 11; ++tag) ASSERT_EQ(outstanding.add(sent(tag)), tag);
  for (std::uint64_t tag = 3; tag <= 9; ++tag) outstanding.confirm(tag, false, true, results);
  EXPECT_EQ(outstanding.size(), 3U);
  ASSERT_NE(outstanding.at(2), nullptr);
  EXPECT_EQ(outstanding.at(3), nullptr) << "settled";

  // A return of the old one is found, and then its confirm.
  results.clear();
  EXPECT_TRUE(outstanding.returned("", "orders", {}, "no queue"));
  outstanding.confirm(10, true, true, results);
  EXPECT_THAT(results, ElementsAre(testing::AllOf(testing::Field(&PublishResult::token, 2U),
                                                  testing::Field(&PublishResult::how, How::returned)),
                                   testing::Field(&PublishResult::token, 10U)));
  const std::vector<Sent> rest = outstanding.take_all();
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].outgoing.token, 11U);
  EXPECT_EQ(outstanding.add(sent(1)), 2U) << "tags begin anew";
}

TEST(Outstanding, AReturnIsThatOfTheMessageWithItsBody) {
  Outstanding outstanding;
  Sent first = sent(1), second = sent(2);
  first.outgoing.message.body = "stays";
  second.outgoing.message.body = "comes";
  const Message back = second.outgoing.message;
  outstanding.add(std::move(first));
  outstanding.add(std::move(second));
  EXPECT_TRUE(outstanding.returned("", "orders", back, "no queue"));
  std::vector<PublishResult> results;
  outstanding.confirm(0, true, true, results);
  EXPECT_THAT(results, ElementsAre(testing::Field(&PublishResult::how, How::confirmed),
                                   testing::Field(&PublishResult::how, How::returned)));
}

TEST(NamesOfExchanges, AreBounded) {
  HandClock clock;
  ProvenExchanges proven(clock);
  for (std::size_t i = 0; i < 2 * ProvenExchanges::kMost + 10; ++i) {
    const std::string name = "stranger-" + std::to_string(i);
    proven.add(name);
    proven.refuse(name, "no such exchange", ProvenExchanges::kExchangePause);
    ASSERT_LE(proven.size(), 2 * ProvenExchanges::kMost);
  }
  EXPECT_TRUE(proven.contains("")) << "the default exchange";
  EXPECT_TRUE(proven.refusal("stranger-" + std::to_string(2 * ProvenExchanges::kMost + 9)));
}

// ---- Frames cut off a stream, messages put together from them.

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
