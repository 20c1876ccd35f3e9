// SPDX-License-Identifier: BSD-2-Clause
#include "shell_check.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "verbena/control/runtime_dir.hpp"

namespace verbena::cli {
namespace {

constexpr char kRemedy[] = "set this shell up again: eval \"$(verbena env)\"";

std::vector<std::string> words_of(const char* variable, const char* separators) {
  const char* value = std::getenv(variable);
  std::vector<std::string> words;
  std::string word;
  for (const char* c = value != nullptr ? value : "";; ++c) {
    const bool ends = *c == '\0' || std::string(separators).find(*c) != std::string::npos;
    if (!ends) {
      word += *c;
      continue;
    }
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
    if (*c == '\0') return words;
  }
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Returns Verbena's preload library that this shell loads; empty: none.
std::string preload_of_shell() {
  for (const std::string& word : words_of("LD_PRELOAD", ": ")) {
    if (ends_with(word, "libverbena-preload.so")) return word;
  }
  return {};
}

void check_preload(Findings& findings, const Parts& parts, const std::string& preload) {
  if (preload.empty() || preload == parts.preload()) return;
  if (::access(preload.c_str(), R_OK) != 0) {
    findings.fault("LD_PRELOAD names " + preload + ", which is not there", kRemedy);
  } else {
    findings.hint("LD_PRELOAD names " + preload + ", which is of another installation", kRemedy);
  }
}

// libibverbs passes over a driver that it cannot load, with a warning if at all.
void check_drivers(Findings& findings, const Parts& parts, int private_abi, bool has_preload) {
  const std::string suffix = "-rdmav" + std::to_string(private_abi) + ".so";
  const bool is_old = std::getenv("RDMAV_DRIVERS") == nullptr;
  const char* const variable = is_old ? "IBV_DRIVERS" : "RDMAV_DRIVERS";
  bool has_ours = false;
  for (const std::string& word : words_of(variable, ":;")) {
    if (word == parts.driver()) has_ours = true;
    if (word.find("verbena") == std::string::npos) continue;  // another driver
    std::string file = word;
    file += suffix;
    if (word[0] == '/' && ::access(file.c_str(), R_OK) == 0) continue;
    std::string fault = variable;
    fault.append(" names ").append(word).append(", but there is no ").append(file);
    findings.fault(fault, kRemedy);
  }
  if (has_preload && !has_ours) {
    findings.fault(
        "LD_PRELOAD shows the device to the programs of this shell, but RDMAV_DRIVERS "
        "does not name its driver " +
            parts.driver(),
        kRemedy + std::string(", or install a .driver file"));
  }
}

void check_link(Findings& findings) {
  const char* text = std::getenv("VERBENA_LINK");
  const std::string word = text != nullptr ? text : "";
  if (word.empty() || word == "auto" || word == "udp" || word == "shm") return;
  findings.fault("VERBENA_LINK=" + word + " is none of udp, shm and auto: auto is used",
                 "set it to one of these, or unset it");
}

void check_engines(Findings& findings) {
  const char* text = std::getenv("VERBENA_ENGINES");
  const std::string word = text != nullptr ? text : "";
  if (word.empty() || (word.size() == 1 && word[0] >= '1' && word[0] <= '8')) return;
  findings.fault(
      "VERBENA_ENGINES=" + word + " is no number from 1 to 8: one for each processor is used",
      "set it to such a number, or unset it");
}

void check_log(Findings& findings) {
  const auto reason = why_no_explanations();
  if (reason) findings.fault(*reason, "set it to one of these, or unset it");
}

void check_own_variables(Findings& findings) {
  check_link(findings);
  check_log(findings);
  check_engines(findings);
  const char* failures = std::getenv("VERBENA_FAIL");
  if (failures != nullptr && *failures != '\0') {
    findings.hint("VERBENA_FAIL=" + std::string(failures) +
                      ": these verbs fail on purpose in each program of this shell",
                  "if you do not want that: unset VERBENA_FAIL");
  }
}

}  // namespace

std::optional<std::string> why_no_explanations() {
  const char* text = std::getenv("VERBENA_LOG");
  if (text == nullptr || *text == '\0' || std::strstr(text, "explain") != nullptr) return {};
  return "VERBENA_LOG=" + std::string(text) +
         " is neither explain nor explain-all: nothing is explained";
}

void check_shell(Findings& findings, const Parts& parts, int private_abi) {
  const int before = findings.faults();
  const std::string preload = preload_of_shell();
  check_preload(findings, parts, preload);
  check_drivers(findings, parts, private_abi, !preload.empty());
  check_own_variables(findings);
  if (findings.faults() != before) return;
  findings.ok(preload.empty() ? "programs see the device under `verbena run`"
                              : "programs of this shell see the device");
}

}  // namespace verbena::cli
