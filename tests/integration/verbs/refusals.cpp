// SPDX-License-Identifier: BSD-2-Clause
// Runs the rows. A row's explanation is what the provider writes to standard error during the call.
#include "refusals.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace refusals {

void fail(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
  std::_Exit(1);
}

namespace {

// Standard error, kept in memory and read after each row.
class Explanations {
 public:
  Explanations() : file_(::memfd_create("stderr", MFD_CLOEXEC)) {
    NEED(file_ >= 0 && ::dup2(file_, STDERR_FILENO) == STDERR_FILENO);
  }
  std::string take() {
    std::string text(static_cast<std::size_t>(::lseek(file_, 0, SEEK_END)), '\0');
    NEED(::pread(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    NEED(::ftruncate(file_, 0) == 0 && ::lseek(file_, 0, SEEK_SET) == 0);
    return text;
  }

 private:
  int file_;
};

struct Outcome {
  int error;       // what the verb returned, or left in errno if it returns an object
  int left_errno;  // errno; the same in both cases (ibv_poll_cq returns it negated)
  std::string explanation;
};

// Returns what is wrong with a row's outcome, or an empty string.
std::string judge(const Row& row, const Outcome& outcome, const std::string& before,
                  const std::string& after) {
  const auto& [error, left_errno, explanation] = outcome;
  if (error != row.error) {
    return "errno " + std::to_string(error) + " in place of " + std::to_string(row.error) + "; " +
           explanation;
  }
  // Refusals by libibverbs itself are only returned, not left in errno.
  if (row.reason != nullptr && left_errno != std::abs(error)) {
    return "returns " + std::to_string(error) + " and leaves errno at " +
           std::to_string(left_errno);
  }
  if (row.reason != nullptr) {
    const bool names_verb = explanation.find("ibv_") != std::string::npos;
    if (explanation.find("verbena: ") != 0 || !names_verb) {
      return "no explanation: '" + explanation + "'";
    }
    if (explanation.find(row.reason) == std::string::npos) return "explained as: " + explanation;
  }
  if (before != after) return "changed something:\n    " + before + "\n    " + after;
  return {};
}

int run(Case& c, Explanations& explanations) {
  int failures = 0;
  std::size_t count = 0;
  for (const auto& table :
       {domain_rows(), memory_rows(), completion_rows(), shared_receive_rows(), queue_pair_rows(),
        state_rows(), posting_rows(), builder_rows(), address_rows(), dead_rows(), raw_rows()}) {
    for (const Row& row : table) {
      explanations.take();
      const std::string before = c.w.state();
      errno = 0;
      const int error = row.call(c);
      const Outcome outcome{error, errno, explanations.take()};
      const std::string wrong = judge(row, outcome, before, c.w.state());
      ++count;
      if (wrong.empty()) continue;
      ++failures;
      std::printf("%s, %s: %s\n", row.verb, row.argument, wrong.c_str());
    }
  }
  std::printf("%zu rows, %d wrong\n", count, failures);
  return failures;
}

// The objects still work after so many refusals.
void check_traffic(World& w) {
  ibv_sge sge = w.sge();
  ibv_recv_wr receive{};
  receive.sg_list = &sge;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;
  NEED(ibv_post_recv(w.rc, &receive, &bad_receive) == 0);
  ibv_send_wr send{};
  send.sg_list = &sge;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad_send = nullptr;
  NEED(ibv_post_send(w.rc, &send, &bad_send) == 0);
  for (int left = 2; left != 0;) {
    ibv_wc wc;
    const int got = ibv_poll_cq(w.cq, 1, &wc);
    NEED(got >= 0 && (got == 0 || wc.status == IBV_WC_SUCCESS));
    left -= got;
  }
}

}  // namespace
}  // namespace refusals

int main() {
  using namespace refusals;
  Explanations explanations;
  ibv_device** devices = ibv_get_device_list(nullptr);
  NEED(devices != nullptr && devices[0] != nullptr);
  World world(devices[0]);
  World foreign(devices[0]);
  Dead dead(world);
  Case c{world, foreign, dead};
  const int failures = run(c, explanations);
  check_traffic(world);
  world.destroy();
  foreign.destroy();
  ibv_free_device_list(devices);
  return failures == 0 ? 0 : 1;
}
