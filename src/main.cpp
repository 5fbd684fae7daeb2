// The command line: one file per command, main only parses, runs and maps errors to exit codes.
#include <cstdio>
#include <exception>
#include <new>

#include <fmt/format.h>

#include "command.hpp"
#include "tessera/error.hpp"
#include "usage_error.hpp"
#include "version.hpp"

int main(int argc, char** argv) {
  using namespace tessera;
  CLI::App app{"Tessera finds the cluster-optimal model: the sparse architecture, token budget and execution plan of "
               "lowest predicted loss for a cluster and a window of time."};
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text, "Version, build, compiler, MPI, HDF5 and kernel");
  app.footer("Example:\n  tessera plan -a mixtral_8x7b -c p6-b200 --nodes 4 --batch 512 --seq 4096\n"
             "Each command explains itself: tessera COMMAND --help");
  Session session;
  for (int i = 0; i < kCommandCount; ++i) kCommands[i](app, session);
  refuse_blank_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "tessera: {}\n", usage_text(app, error));
    return kBadInput;
  }
  try {
    return session.action ? session.action() : kBadInput;
  } catch (const InputError& error) {
    fmt::print(stderr, "tessera: {}\n", error.what());
    return kBadInput;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tessera: out of memory\n");
    return kFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera: {}\n", error.what());
    return kFailed;
  }
}
