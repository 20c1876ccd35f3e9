// SPDX-License-Identifier: BSD-2-Clause
// What `verbena doctor` says: one line for each thing that it checked, and below a fault or a hint
// one line with the remedy.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace verbena::cli {

struct Finding {
  const char* verdict;  // ok, hint or fault
  std::string text;
  std::string remedy;  // empty: there is nothing to mend
};

class Findings {
 public:
  // With `prints` each finding is printed when it is found. Otherwise the caller prints them all at
  // the end.
  explicit Findings(bool prints) : prints_(prints) {}

  void ok(const std::string& text) { add("ok     ", {"ok", text, ""}); }
  // Reports something that works, but not as well as it could.
  void hint(const std::string& text, const std::string& remedy) {
    add("hint   ", {"hint", text, remedy});
  }
  void fault(const std::string& text, const std::string& remedy) {
    add("FAULT  ", {"fault", text, remedy});
    ++faults_;
  }
  void feature(bool there, const std::string& name, const std::string& remedy) {
    there ? ok("the kernel has " + name) : fault("the kernel lacks " + name, remedy);
  }
  int faults() const { return faults_; }
  const std::vector<Finding>& all() const { return all_; }

 private:
  void add(const char* word, const Finding& finding) {
    all_.push_back(finding);
    if (!prints_) return;
    std::printf("%s%s\n", word, finding.text.c_str());
    if (!finding.remedy.empty()) std::printf("       %s\n", finding.remedy.c_str());
  }

  bool prints_;
  std::vector<Finding> all_;
  int faults_ = 0;
};

}  // namespace verbena::cli
