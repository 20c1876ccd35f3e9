// SPDX-License-Identifier: BSD-2-Clause
// Hands reads of completion channels to the plugin. Wraps the C library's jumps, because a handler
// of a signal may jump out of such a read.
#include "calls/channel_reads.hpp"

#include <fcntl.h>
#include <setjmp.h>

#include <atomic>
#include <cerrno>

#include "real/fd_table.hpp"
#include "real/real.hpp"
#include "verbena/control/channel_reader.hpp"

namespace verbena::preload {
namespace {

// The plugin's functions. One plugin is loaded into a process.
constinit std::atomic<control::ChannelReader*> channel_reader{nullptr};
constinit std::atomic<control::LeaveChannel*> leave_channel{nullptr};

// Whether this thread is in the plugin's function.
__attribute__((tls_model("initial-exec"))) constinit thread_local bool is_reading = false;

// Is a control::MayBlock, for a descriptor that was noted as a channel.
int may_block(int fd) {
  const int saved = errno;
  const int flags = real::fcntl(fd, F_GETFL);
  const bool blocks =
      flags >= 0 && (flags & O_NONBLOCK) == 0 &&
      (fd_table::is_sealed(flags) || fd_table::verified(fd) == fd_table::Kind::kChannel);
  errno = saved;
  return blocks ? 1 : 0;
}

// A jump within the handler itself ends the plugin's part of the read as well; the read goes on as
// a plain one.
void leave_read() {
  if (!is_reading) [[likely]]
    return;
  is_reading = false;
  leave_channel.load(std::memory_order_acquire)();
}

}  // namespace

VERBENA_NOTHING_TO_CLEAN_UP ssize_t channel_reads::read(int fd, void* bytes, size_t size) {
  const bool was_reading = is_reading;
  is_reading = true;
  const ssize_t got = channel_reader.load(std::memory_order_acquire)(fd, bytes, size, &may_block);
  is_reading = was_reading;
  return got == control::kReadPlainly ? real::read(fd, bytes, size) : got;
}

}  // namespace verbena::preload

using namespace verbena::preload;

VERBENA_EXPORT void verbena_offer_channel_reader(int fd, verbena::control::ChannelReader* reader,
                                                 verbena::control::LeaveChannel* leave) {
  leave_channel.store(leave, std::memory_order_release);
  channel_reader.store(reader, std::memory_order_release);
  fd_table::mark(fd, fd_table::Kind::kChannel);
}

// NOLINTBEGIN(bugprone-reserved-identifier): these are names of the C library.
VERBENA_EXPORT void longjmp(__jmp_buf_tag* to, int value) noexcept {
  leave_read();
  real::longjmp(to, value);
  __builtin_unreachable();
}
VERBENA_EXPORT void _longjmp(__jmp_buf_tag* to, int value) noexcept VERBENA_ALIAS_OF(longjmp);
VERBENA_EXPORT void siglongjmp(__jmp_buf_tag* to, int value) noexcept VERBENA_ALIAS_OF(longjmp);

// What fortified programs call.
VERBENA_EXPORT void __longjmp_chk(__jmp_buf_tag* to, int value) noexcept {
  leave_read();
  real::__longjmp_chk(to, value);
  __builtin_unreachable();
}
// NOLINTEND(bugprone-reserved-identifier)
