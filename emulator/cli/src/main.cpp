// verbena: the command line.
#include <cstdio>
#include <exception>
#include <string_view>

#include "command.hpp"

int main(int argc, char** argv) {
  using namespace verbena::cli;
  CLI::App app("", "verbena");
  app.description(
      "Verbena: an RDMA device in software, without kernel module and without root.\n\n"
      "  verbena run -- ibv_devinfo      run a program that sees the device\n"
      "  eval \"$(verbena env)\"           the same for a whole shell, after `verbena up`");
  app.set_version_flag("--version", "verbena " VERBENA_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  Context context;
  add_run(app, context);
  add_up(app, context);
  add_down(app, context);
  add_status(app, context);
  add_env(app, context);
  add_doctor(app, context);
  add_port(app, context);
  add_fault(app, context);
  add_capture(app, context);
  add_completion(app, context);
  app.add_subcommand("version", "Print the version.")->callback([] {
    std::puts("verbena " VERBENA_VERSION);
  });
  int own = argc;
  if (argc > 2 && std::string_view(argv[1]) == "run") {
    for (own = 2; own < argc && std::string_view(argv[own]) != "--"; ++own) {
    }
    if (own < argc) context.behind_dashes.emplace(argv + own + 1, argv + argc);
  }
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // help or version was asked for
    return complain(std::string(e.what()) + "; see verbena --help", kUsage);
  } catch (const std::exception& e) {
    return complain(e.what());
  }
  std::fflush(stdout);
  return context.exit_code;
}
