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
    server.send("");
    // A lost acknowledgement is repeated only while its sender lives. So the server stays until its
    // last message has arrived here.
    server.receive();
    std::printf("%d messages\n", messages);
  } catch (const std::exception& problem) {
    return std::fprintf(stderr, "client: %s\n", problem.what()), 1;
  }
}
