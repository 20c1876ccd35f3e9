#include "link_choice.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "explain.hpp"

namespace verbena::provider {
namespace {

std::string word_of(const char* variable) {
  const char* const text = ::secure_getenv(variable);
  return text == nullptr ? "" : text;
}

// Once in a process.
void tell_of_word(std::atomic<bool>& told, const char* variable, const std::string& word,
                  const char* words) {
  if (told.exchange(true)) return;
  std::fprintf(stderr, "verbena: %s=%s is none of %s and auto; using auto\n", variable,
               word.c_str(), words);
}

}  // namespace

LinkChoice link_choice() {
  const std::string word = word_of("VERBENA_LINK");
  if (word.empty()) return kDefaultLink;
  if (word == "udp") return LinkChoice::kUdp;
  if (word == "shm") return LinkChoice::kSharedMemory;
  static std::atomic<bool> told{false};
  if (word != "auto") tell_of_word(told, "VERBENA_LINK", word, "udp, shm");
  return LinkChoice::kAuto;
}

DirectUse direct_use() {
  const std::string word = word_of("VERBENA_DIRECT");
  if (word == "off") return DirectUse::kNever;
  if (word == "on") return DirectUse::kAlways;
  static std::atomic<bool> told{false};
  if (word != "auto" && !word.empty()) tell_of_word(told, "VERBENA_DIRECT", word, "on, off");
  return DirectUse::kWhereFaster;
}

void tell_of_udp(LinkChoice choice, const IpAddress& peer, const std::string& reason) {
  const std::string address = peer.to_string();
  if (choice == LinkChoice::kSharedMemory) {
    std::fprintf(stderr, "verbena: VERBENA_LINK=shm, but UDP carries the packets to %s: %s\n",
                 address.c_str(), reason.c_str());
  } else {
    explain("no shared ring to %s (%s): UDP carries the packets", address.c_str(), reason.c_str());
  }
}

}  // namespace verbena::provider
