// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/daemon_client.hpp"

#include <cerrno>
#include <exception>

#include "verbena/report/explain.hpp"

namespace verbena::provider {

bool DaemonClient::read_one() noexcept {
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock()) return false;
  if (is_cut_off_.read()) return true;
  try {
    auto message = control::receive_packet(channel_.fd(), MSG_DONTWAIT);
    if (message) {
      listener_.on_message(std::move(*message));
    } else if (message.error().code != EAGAIN) {
      listener_.on_lost(message.error().code == ECONNRESET ? "the emulator is gone"
                                                           : message.error().text.c_str());
    }
  } catch (const std::exception& e) {
    explain("a message of the emulator could not be handled: %s", e.what());
  } catch (const VerbRefused&) {
  }
  return true;
}

}  // namespace verbena::provider
