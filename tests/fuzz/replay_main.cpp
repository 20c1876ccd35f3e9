// SPDX-License-Identifier: BSD-2-Clause
// Runs a fuzz target once over each file, or over every file of a folder, with any compiler. It
// runs the corpus as an ordinary test, and repeats a finding under a debugger. Each input is in a
// block of exactly its size, so that AddressSanitizer sees a read behind it. No input, or one that
// cannot be read, is an error, because a lost corpus must not look green.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

bool run(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> read{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[read.size()]);
  std::copy(read.begin(), read.end(), exact.get());
  std::printf("%s (%zu bytes)\n", path.c_str(), read.size());
  std::fflush(stdout);  // the last line before a crash names its input
  LLVMFuzzerTestOneInput(exact.get(), read.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> inputs;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    if (!fs::is_directory(argv[i], error)) {
      inputs.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) inputs.push_back(entry.path());
    }
  }
  std::sort(inputs.begin(), inputs.end());
  const auto good = std::count_if(inputs.begin(), inputs.end(), run);
  std::printf("%td of %zu inputs ran\n", good, inputs.size());
  return inputs.empty() || static_cast<std::size_t>(good) != inputs.size() ? 1 : 0;
}
