// SPDX-License-Identifier: BSD-2-Clause
#include "file_text.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace verbena::settings {

control::Outcome<std::string> text_of_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad()) {
    const int code = errno == 0 ? EIO : errno;
    return control::fail(code, "cannot read " + path + ": " + std::strerror(code));
  }
  return text.str();
}

}  // namespace verbena::settings
