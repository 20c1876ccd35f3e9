// SPDX-License-Identifier: BSD-2-Clause
// Every message comes back as it was sent, and a shortened, lengthened or damaged message is never
// read as more than was sent.
#include "verbena/control/codec.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "samples.hpp"
#include "verbena/base/random.hpp"
#include "verbena/control/status_messages.hpp"

namespace verbena::control {
namespace {

template <typename Message>
class CodecTest : public ::testing::Test {};

template <typename Tuple>
struct AsTypes;
template <typename... T>
struct AsTypes<std::tuple<T...>> {
  using Type = ::testing::Types<T...>;
};
TYPED_TEST_SUITE(CodecTest, AsTypes<AllMessages>::Type);

std::span<const std::uint8_t> payload_of(const std::vector<std::uint8_t>& packet) {
  return std::span(packet).subspan(kHeaderSize);
}

TYPED_TEST(CodecTest, ComesBackAsItWent) {
  const std::vector<std::uint8_t> packet = encode(sample<TypeParam>(), 0x01020304);
  const auto header = decode_header(packet);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->message_type(), TypeParam::kType);
  EXPECT_EQ(header->sequence, 0x01020304u);
  EXPECT_EQ(header->version, kProtocolVersion);
  const auto back = decode<TypeParam>(payload_of(packet));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(encode(*back, 0x01020304), packet);
}

TYPED_TEST(CodecTest, NoShorterOneIsTaken) {
  const std::vector<std::uint8_t> packet = encode(sample<TypeParam>(), 1);
  const auto payload = payload_of(packet);
  for (std::size_t n = 0; n < payload.size(); ++n) {
    const auto back = decode<TypeParam>(payload.first(n));
    ASSERT_FALSE(back.ok()) << n << " of " << payload.size() << " bytes";
    EXPECT_EQ(back.error().code, EPROTO);
  }
}

TYPED_TEST(CodecTest, NoLongerOneIsTaken) {
  std::vector<std::uint8_t> packet = encode(sample<TypeParam>(), 1);
  packet.push_back(0);
  EXPECT_FALSE(decode<TypeParam>(payload_of(packet)).ok());
}

// Damage is noticed or gives another value. It never costs more memory than was sent.
TYPED_TEST(CodecTest, DamageDoesNoHarm) {
  const std::vector<std::uint8_t> good = encode(sample<TypeParam>(), 1);
  Random random(42);
  for (int i = 0; i < 500 && good.size() > kHeaderSize; ++i) {
    std::vector<std::uint8_t> bad = good;
    const std::size_t at = kHeaderSize + random.below(bad.size() - kHeaderSize);
    bad[at] = static_cast<std::uint8_t>(random.next());
    const auto back = decode<TypeParam>(payload_of(bad));
    if (back.ok()) {
      EXPECT_EQ(encode(*back, 1), bad);
    }
  }
}

TEST(Codec, EveryTypeHasASample) {
  std::size_t types = 0;
#define VERBENA_COUNT(id, number) ++types;
  VERBENA_MESSAGE_TYPES(VERBENA_COUNT)
#undef VERBENA_COUNT
  EXPECT_EQ(types, std::tuple_size_v<AllMessages>);
}

TEST(Codec, TheWireFormatIsFixed) {
  const std::vector<std::uint8_t> expected{0x56, 0x52, 0x42, 0x31, 23,  0,   0x44, 0,
                                           9,    0,    0,    0,    7,   0,   0,    0,  // header
                                           2,    0,    0,    0,    'a', 'b',           // device
                                           1};                                         // up
  EXPECT_EQ(encode(SetPort{"ab", true}, 9), expected);
}

TEST(Codec, HeadersThatAreNone) {
  const std::vector<std::uint8_t> good = encode(Hold{}, 1);
  for (std::size_t n = 0; n < kHeaderSize; ++n) {
    EXPECT_FALSE(decode_header(std::span(good).first(n)).ok());
  }
  std::vector<std::uint8_t> bad = good;
  bad[0] ^= 1;
  EXPECT_FALSE(decode_header(bad).ok());
  bad = good;
  bad[12] = 1;  // promises a byte that is missing
  EXPECT_FALSE(decode_header(bad).ok());
  bad = good;
  bad[4] = 77;  // a foreign version is for the caller to answer
  ASSERT_TRUE(decode_header(bad).ok());
  EXPECT_EQ(decode_header(bad)->version, 77);
}

TEST(Codec, AFalseCountEndsWithTheMessage) {
  const std::vector<std::uint8_t> lie{1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
  EXPECT_FALSE(decode<Welcome>(lie).ok());
  EXPECT_FALSE(decode<Resources>(std::span(lie).subspan(7)).ok());
}

TEST(Codec, ABoolIsZeroOrOne) {
  EXPECT_FALSE(decode<SetPort>(std::vector<std::uint8_t>{0, 0, 0, 0, 2}).ok());
}

// A list with the most elements that a message may carry stays below the size of a packet.
TEST(Codec, FullMessagesFit) {
  StatusReport report;
  report.qps.objects.assign(StatusReport::kMostInOne, sample_qp());
  for (QpStatus& qp : report.qps.objects) qp.last_error.assign(200, 'x');
  EXPECT_LT(encode(report, 1).size(), kMaxMessage);
  Welcome welcome;
  welcome.devices.assign(64, sample_device());
  EXPECT_LT(encode(welcome, 1).size(), kMaxMessage);
}

TEST(Codec, NamesForPeople) {
  EXPECT_STREQ(message_name(MessageType::kOpenDevice), "OpenDevice");
  EXPECT_STREQ(message_name(static_cast<MessageType>(0x7777)), "unknown");
}

}  // namespace
}  // namespace verbena::control
