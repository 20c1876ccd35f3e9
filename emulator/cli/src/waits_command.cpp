// SPDX-License-Identifier: BSD-2-Clause
// verbena waits says what each program waits for.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "answer.hpp"
#include "command.hpp"
#include "emulator.hpp"
#include "private_emulator.hpp"
#include "status_parts.hpp"
#include "waits.hpp"

namespace verbena::cli {
namespace {

using nlohmann::ordered_json;

int waits(const PrivateOption& chosen, Context& context) {
  auto emulator = chosen.reach();
  if (!emulator) return complain(emulator.error().text);
  const auto found = read_waits(*emulator);
  if (!found) return complain(found.error().text);
  ordered_json list = ordered_json::array();
  for (const Wait& wait : *found) {
    if (!context.as_json) std::printf("%s\n", text_of(wait).c_str());
    list.push_back({{"pid", wait.pid != 0 ? ordered_json(wait.pid) : ordered_json(nullptr)},
                    {"program", wait.program},
                    {"text", wait.text}});
  }
  if (context.as_json) print_answer(context, {{"waits", list}});
  return kOk;
}

}  // namespace

void add_waits(CLI::App& app, Context& context) {
  auto chosen = std::make_shared<PrivateOption>();
  CLI::App* command = app.add_subcommand("waits",
                                         "Say what programs that hang wait for: queues that are "
                                         "not armed or not polled, peers without "
                                         "posted receives, requests that are not accepted.");
  add_json_option(*command, context);
  chosen->add_to(*command);
  command->callback([chosen, &context] { context.exit_code = waits(*chosen, context); });
}

}  // namespace verbena::cli
