// SPDX-License-Identifier: BSD-2-Clause
// client HOST SERVICE MESSAGES: sends messages to the server and compares what comes back.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "connection.hpp"

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: client HOST SERVICE MESSAGES\n"), 2;
  try {
    example::Connection server = example::Connection::to(argv[1], argv[2]);
    const int messages = std::atoi(argv[3]);
    for (int i = 0; i < messages; ++i) {
      const std::string text = "message " + std::to_string(i);
      server.send(text);
      if (server.receive() != text) return std::fprintf(stderr, "client: another message\n"), 1;
    }
    // The server answers, stays until its answer has arrived here, and ends. It may end before a
    // lost acknowledgement of this message was repeated: the answer tells as well that it has
    // arrived.
    server.send_last("");
    server.receive();
    std::printf("%d messages\n", messages);
  } catch (const std::exception& problem) {
    return std::fprintf(stderr, "client: %s\n", problem.what()), 1;
  }
}
