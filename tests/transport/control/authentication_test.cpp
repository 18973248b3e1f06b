// SPDX-License-Identifier: Apache-2.0
// The exchange of the key without sockets, and the outcome of each attack by a stranger.
#include "transport/control/authentication.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace tremula::transport {
namespace {

using core::Bytes, core::Errc, core::Key;

const Key& key() {
  static const Key one("0123456789abcdef0123456789abcdef", "test");
  return one;
}
const Key& other_key() {
  static const Key one("0123456789abcdef0123456789abcdeF", "test");
  return one;
}

/// All payloads of one successful exchange, in order: opening, challenge, two proofs.
struct Recorded {
  Bytes opening, challenge, client_proof, server_proof;
};
Recorded listen_in() {
  ClientExchange client(key());
  ServerExchange server(key());
  Recorded recorded;
  recorded.opening = client.opening();
  recorded.challenge = server.receive(recorded.opening).reply;
  recorded.client_proof = client.receive(recorded.challenge).reply;
  const auto last = server.receive(recorded.client_proof);
  EXPECT_TRUE(last.is_done);
  recorded.server_proof = last.reply;
  EXPECT_TRUE(client.receive(recorded.server_proof).is_done);
  return recorded;
}

void expect_failure(const ExchangeTurn& turn, Errc code, const std::string& text) {
  EXPECT_FALSE(turn.is_done);
  ASSERT_TRUE(turn.failure);
  EXPECT_EQ(turn.failure->code(), code) << turn.failure->what();
  EXPECT_NE(std::string(turn.failure->what()).find(text), std::string::npos)
      << turn.failure->what();
}

TEST(Authentication, BothEndsProveThatTheyKnowTheKey) {
  const Recorded recorded = listen_in();
  for (const Bytes* one :
       {&recorded.opening, &recorded.challenge, &recorded.client_proof, &recorded.server_proof}) {
    EXPECT_TRUE(is_of_exchange(*one));
    EXPECT_LE(one->size(), max_unproved_payload_bytes);
    const std::string text(reinterpret_cast<const char*>(one->data()), one->size());
    EXPECT_EQ(text.find("0123456789"), std::string::npos) << "the key itself must not be sent";
  }
  EXPECT_NE(recorded.client_proof, recorded.server_proof);
}

TEST(Authentication, EveryExchangeIsDifferent) {
  const Recorded one = listen_in(), other = listen_in();
  EXPECT_NE(one.opening, other.opening);
  EXPECT_NE(one.challenge, other.challenge);
  EXPECT_NE(one.client_proof, other.client_proof);
  EXPECT_NE(one.server_proof, other.server_proof);
}

TEST(Authentication, ClientWithAnotherKeyLearnsWhyItIsRefused) {
  ClientExchange client(other_key());
  ServerExchange server(key());
  const auto proof = client.receive(server.receive(client.opening()).reply).reply;
  const auto answer = server.receive(proof);
  expect_failure(answer, Errc::refused, "a different key");
  expect_failure(client.receive(answer.reply), Errc::refused, "a different key");
}

TEST(Authentication, ClientWithoutAKeyLearnsWhyItIsRefused) {
  ServerExchange server(key());
  const Bytes hello{std::byte{0x0a}, std::byte{0x00}};  // Protobuf
  const auto answer = server.receive(hello);
  expect_failure(answer, Errc::refused, "no key");
  ASSERT_TRUE(is_of_exchange(answer.reply));
  const core::Error error = error_of_refusal(answer.reply);
  EXPECT_EQ(error.code(), Errc::refused);
  EXPECT_NE(std::string(error.what()).find("TREMULA_KEY_FILE"), std::string::npos);
}

TEST(Authentication, AServerWithoutAKeyIsRefused) {
  ClientExchange client(key());
  expect_failure(client.receive(refusal_without_key()), Errc::refused, "with --key-file none");
}

TEST(Authentication, AServerThatDoesNotKnowTheKeyIsRefused) {
  // The server accepts any answer from the client, and proves what it can.
  ClientExchange client(key()), forger(other_key());
  ServerExchange ignorant(other_key());
  client.receive(ignorant.receive(client.opening()).reply);
  ServerExchange again(other_key());
  const auto forged =
      again.receive(forger.receive(again.receive(forger.opening()).reply).reply).reply;
  expect_failure(client.receive(forged), Errc::refused, "cannot prove it");
}

TEST(Authentication, AChallengeThatIsReplayedProvesNothing) {
  const Recorded recorded = listen_in();
  ClientExchange client(key());
  EXPECT_FALSE(client.receive(recorded.challenge).failure);  // it looks like any other
  expect_failure(client.receive(recorded.server_proof), Errc::refused, "cannot prove it");
}

TEST(Authentication, AProofOfAnotherSessionProvesNothing) {
  const Recorded recorded = listen_in();
  ServerExchange server(key());
  EXPECT_FALSE(server.receive(recorded.opening).failure);
  expect_failure(server.receive(recorded.client_proof), Errc::refused, "a different key");
}

TEST(Authentication, ProofOfAClientIsNotOneOfAServer) {
  // A stranger returns the client's own proof to the client.
  ClientExchange client(key());
  ServerExchange server(key());
  Bytes mine = client.receive(server.receive(client.opening()).reply).reply;
  mine[8] = std::byte{4};  // the kind of a server's proof
  expect_failure(client.receive(mine), Errc::refused, "cannot prove it");
}

TEST(Authentication, AMessageOutOfTurnEndsTheExchange) {
  const Recorded recorded = listen_in();
  for (const Bytes* first : {&recorded.challenge, &recorded.client_proof, &recorded.server_proof}) {
    ServerExchange server(key());
    expect_failure(server.receive(*first), Errc::protocol, "did not open");
  }
  for (const Bytes* second : {&recorded.opening, &recorded.challenge, &recorded.server_proof}) {
    ServerExchange server(key());
    server.receive(recorded.opening);
    expect_failure(server.receive(*second), Errc::protocol, "did not answer the challenge");
  }
  for (const Bytes* first : {&recorded.opening, &recorded.client_proof, &recorded.server_proof}) {
    ClientExchange client(key());
    expect_failure(client.receive(*first), Errc::protocol, "expected a Tremula server");
  }
}

TEST(Authentication, ChangedByteIsRejected) {
  for (const std::size_t length : {0u, 1u, 8u, 9u, 40u, 42u, 1000u}) {
    ServerExchange server(key());
    ClientExchange client(key());
    EXPECT_TRUE(server.receive(Bytes(length)).failure) << length;
    EXPECT_TRUE(client.receive(Bytes(length)).failure) << length;
  }
  for (std::size_t at = 0; at < 41; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      ClientExchange client(key());
      ServerExchange server(key());
      Bytes proof = client.receive(server.receive(client.opening()).reply).reply;
      ASSERT_EQ(proof.size(), 41u);
      proof[at] ^= std::byte(1 << bit);
      EXPECT_TRUE(server.receive(proof).failure) << at;
    }
}

TEST(Authentication, AnyKeyOfAServerIsAcceptedAndReported) {
  const auto keys = std::make_shared<const std::vector<Key>>(std::vector{key(), other_key()});
  for (std::size_t i = 0; i < keys->size(); ++i) {
    ClientExchange client((*keys)[i]);
    ServerExchange server(keys);
    const Bytes proof = client.receive(server.receive(client.opening()).reply).reply;
    const auto last = server.receive(proof);
    ASSERT_TRUE(last.is_done);
    EXPECT_EQ(server.proved(), i);
    EXPECT_TRUE(client.receive(last.reply).is_done);
  }
  ClientExchange stranger(Key("the key of a stranger", "test"));
  ServerExchange server(keys);
  expect_failure(server.receive(stranger.receive(server.receive(stranger.opening()).reply).reply),
                 Errc::refused, "a different key");
}

TEST(Authentication, RandomPayloadsNeverProveAnything) {
  const char* given = std::getenv("TREMULA_TEST_SEED");
  const auto seed = given ? std::strtoul(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE(testing::Message() << "TREMULA_TEST_SEED=" << seed);
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  const Recorded recorded = listen_in();
  const std::vector<Bytes> seeds{recorded.opening, recorded.challenge, recorded.client_proof,
                                 recorded.server_proof, refusal_without_key()};
  for (int round = 0; round < 20000; ++round) {
    ClientExchange client(key());
    ServerExchange server(key());
    for (int turn = 0; turn < 3; ++turn) {
      Bytes payload = seeds[random() % seeds.size()];
      if (random() % 2) payload.resize(random() % 60);
      if (random() % 2 && !payload.empty())
        payload[random() % payload.size()] = std::byte(random() % 256);
      const auto to_client = client.receive(payload), to_server = server.receive(payload);
      ASSERT_FALSE(to_client.is_done || to_server.is_done);
      if (to_client.failure && to_server.failure) break;
    }
  }
}

}  // namespace
}  // namespace tremula::transport
