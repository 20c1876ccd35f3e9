// SPDX-License-Identifier: BSD-2-Clause
// Gives a GoogleTest program an emulated RDMA device, faults for a scope, and assertions on the
// device's counters. It needs ISO C++17, GoogleTest and the command `verbena`.
//
//   [[maybe_unused]] auto* const device =
//       ::testing::AddGlobalTestEnvironment(new verbena::testing::Environment);
//
//   TEST(Messages, ArriveOnABadLine) {
//     const verbena::testing::Fault fault{"--loss", "2%", "--seed", "7"};
//     exchange_messages();
//     EXPECT_VERBENA_COUNTER("retransmitted_packets", >, 0);
//   }
//
// The program's libraries must see the device from the start. So the environment starts the program
// again, below `verbena run --private`, unless it runs there already. Only the thread that runs the
// tests may use this header.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "verbena/gtest_command.hpp"
#include "verbena/gtest_json.hpp"

namespace verbena::testing {

using Numbers = std::map<std::string, std::uint64_t>;

// Returns what `verbena status --json` says. If that fails, the test fails, and the value is null.
inline Json status() {
  const detail::Said said = detail::ask({"status", "--json"});
  if (said.exit_code != 0) {
    ADD_FAILURE() << "verbena status: " << said.text;
    return {};
  }
  Json value = Json::parse(said.text);
  if (!value.is_object()) ADD_FAILURE() << "verbena status --json is no JSON:\n" << said.text;
  return value;
}

namespace detail {

// Returns "counters" or "drops", added up over all ports.
inline Numbers sums(const char* table) {
  Numbers sum;
  const Json all = status();
  for (const Json& device : all["devices"].items()) {
    for (const Json& port : device["ports"].items()) {
      for (const auto& [name, value] : port[table].members()) sum[name] += value.number();
    }
  }
  return sum;
}

inline std::string names_of(const Numbers& numbers) {
  std::string names;
  for (const auto& [name, number] : numbers) names += (names.empty() ? "" : ", ") + name;
  return names;
}

// A predicate for EXPECT_PRED_FORMAT2: a comparison of numbers, and its sign as the test wrote it.
struct Comparison {
  const char* sign;
  bool (*holds)(std::uint64_t found, std::uint64_t wanted);

  ::testing::AssertionResult operator()(const std::string& what, std::uint64_t found,
                                        std::uint64_t wanted) const {
    if (holds(found, wanted)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << what << " is " << found << ", and not " << sign << " " << wanted;
  }
};

struct Counter {
  Comparison compare;

  ::testing::AssertionResult operator()(const char*, const char*, const std::string& name,
                                        std::uint64_t wanted) const {
    const Numbers counters = sums("counters");
    const auto found = counters.find(name);
    if (found != counters.end()) return compare("counter " + name, found->second, wanted);
    return ::testing::AssertionFailure()
           << "there is no counter " << name << "; there are " << names_of(counters);
  }
};

struct Drops {
  Comparison compare;

  ::testing::AssertionResult operator()(const char*, const char*, const std::string& reason,
                                        std::uint64_t wanted) const {
    Numbers drops = sums("drops");
    ::testing::AssertionResult result =
        compare("the number of packets dropped for " + reason, drops[reason], wanted);
    drops.erase(reason);
    if (!result && !drops.empty()) result << "; there are drops for " << names_of(drops);
    return result;
  }
};

inline bool sees_devices() {
  std::ifstream maps("/proc/self/maps");
  return std::string(std::istreambuf_iterator<char>(maps), {}).find("libverbena-preload") !=
         std::string::npos;
}

inline std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

inline bool lists_tests(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.find("gtest_list_tests") != std::string::npos) return true;
  }
  return false;
}

// Returns the number in "seed N; ...", which `verbena fault` prints if it has chosen it.
inline std::string seed_in(const std::string& text) {
  const std::string word = "seed ";
  if (text.rfind(word, 0) != 0) return "";
  return text.substr(word.size(), text.find_first_not_of("0123456789", word.size()) - word.size());
}

// Sets the counters to zero before each test.
class CountersFromZero : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override {
    const Said said = ask({"status", "--reset"});
    if (said.exit_code != 0) ADD_FAILURE() << "verbena status --reset: " << said.text;
  }
};

}  // namespace detail

// Returns the counters of all ports together, since the test began.
inline Numbers counters() { return detail::sums("counters"); }
// Returns the dropped packets by reason. It leaves out reasons for which nothing was dropped.
inline Numbers drops() { return detail::sums("drops"); }

// Sets faults with the options of `verbena fault`. The end of the scope removes all faults.
class Fault {
 public:
  Fault(std::initializer_list<std::string> options) {
    std::vector<std::string> words{"fault"};
    words.insert(words.end(), options);
    const detail::Said said = detail::ask(words);
    if (said.exit_code != 0) ADD_FAILURE() << "verbena fault: " << said.text;
    // The test records a seed that `verbena` chose, so that the run can be repeated.
    const std::string seed = detail::seed_in(said.text);
    if (said.exit_code == 0 && !seed.empty()) ::testing::Test::RecordProperty("seed", seed);
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
  ~Fault() {
    const detail::Said said = detail::ask({"fault", "--clear"});
    if (said.exit_code != 0) ADD_FAILURE() << "verbena fault --clear: " << said.text;
  }
};

class Environment : public ::testing::Environment {
 public:
  // `options` are options of `verbena run`, such as {"--roce", "10.0.0.1"}.
  explicit Environment(const std::vector<std::string>& options = {}) {
    const std::vector<std::string> own = detail::own_words();
    if (detail::sees_devices() || detail::lists_tests(own)) return;
    if (detail::variable("LD_PRELOAD").find("libverbena-preload") != std::string::npos) {
      problem_ = "this program does not load what LD_PRELOAD names; `verbena doctor` says why";
      return;
    }
    std::vector<std::string> words{detail::program(), "run", "--private"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", detail::own_program()});
    words.insert(words.end(), own.begin() + (own.empty() ? 0 : 1), own.end());
    detail::become(words);
    problem_ = "cannot run '" + words.front() + "': " + std::strerror(errno) +
               "; install Verbena and put it into PATH";
  }

  void SetUp() override {
    if (!problem_.empty()) GTEST_FAIL() << "verbena: " << problem_;
    // With --gtest_repeat GoogleTest may set up the environment for each repetition.
    static bool listens = false;
    if (std::exchange(listens, true)) return;
    ::testing::UnitTest::GetInstance()->listeners().Append(new detail::CountersFromZero);
  }

 private:
  std::string problem_;
};

}  // namespace verbena::testing

#define VERBENA_PREDICATE_(kind, sign) \
  (::verbena::testing::detail::kind{   \
      {#sign, [](std::uint64_t found, std::uint64_t wanted) { return found sign wanted; }}})

// For example: EXPECT_VERBENA_COUNTER("retransmitted_packets", >, 0). `verbena status --json` has
// the names.
#define EXPECT_VERBENA_COUNTER(name, sign, value) \
  EXPECT_PRED_FORMAT2(VERBENA_PREDICATE_(Counter, sign), name, value)
#define ASSERT_VERBENA_COUNTER(name, sign, value) \
  ASSERT_PRED_FORMAT2(VERBENA_PREDICATE_(Counter, sign), name, value)

// For example: EXPECT_VERBENA_DROPS("injected_fault", ==, 0). `verbena status` has the reasons.
#define EXPECT_VERBENA_DROPS(reason, sign, value) \
  EXPECT_PRED_FORMAT2(VERBENA_PREDICATE_(Drops, sign), reason, value)
#define ASSERT_VERBENA_DROPS(reason, sign, value) \
  ASSERT_PRED_FORMAT2(VERBENA_PREDICATE_(Drops, sign), reason, value)
