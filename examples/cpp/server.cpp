// SPDX-License-Identifier: BSD-2-Clause
// server SERVICE: sends back what one client sends, until an empty message.
#include <cstdio>
#include <exception>

#include "connection.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: server SERVICE\n"), 2;
  try {
    example::Listener listener("0.0.0.0", argv[1]);
    example::Connection client = listener.accept();
    for (std::string text; !(text = client.receive()).empty();) client.send(text);
    client.send_last("");
  } catch (const std::exception& problem) {
    return std::fprintf(stderr, "server: %s\n", problem.what()), 1;
  }
}
