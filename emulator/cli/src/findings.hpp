// SPDX-License-Identifier: BSD-2-Clause
// What `verbena doctor` says: one line for each thing that it looked at, and one with the remedy
// below a fault.
#pragma once

#include <cstdio>
#include <string>

namespace verbena::cli {

class Findings {
 public:
  void ok(const std::string& text) { std::printf("ok     %s\n", text.c_str()); }
  // Works, but not as well as it could.
  void hint(const std::string& text, const std::string& remedy) {
    std::printf("hint   %s\n       %s\n", text.c_str(), remedy.c_str());
  }
  void fault(const std::string& text, const std::string& remedy) {
    std::printf("FAULT  %s\n       %s\n", text.c_str(), remedy.c_str());
    ++faults_;
  }
  void feature(bool there, const std::string& name, const std::string& remedy) {
    there ? ok("the kernel has " + name) : fault("the kernel lacks " + name, remedy);
  }
  int faults() const { return faults_; }

 private:
  int faults_ = 0;
};

}  // namespace verbena::cli
