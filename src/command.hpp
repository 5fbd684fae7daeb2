// The pattern of a command: a function that adds its sub-command and options to the CLI11 app and, when the
// sub-command was given, sets `action`. main() runs the action and turns exceptions into exit codes.
#pragma once
#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace tessera {

/// Exit codes (design.md).
enum ExitCode : int { kDone = 0, kFailed = 1, kBadInput = 2, kNothingFeasible = 3, kInterrupted = 75 };

struct Session {
  bool json = false;     ///< exactly one JSON object on stdout
  int verbosity = 0;     ///< -v: 1, -vv: 2, -q: -1
  std::function<int()> action;  ///< returns an ExitCode
};

using AddCommand = void (*)(CLI::App&, Session&);

/// Every command, in the order of --help.
extern const AddCommand kCommands[];
extern const int kCommandCount;

/// Makes every option and argument of every command refuse a blank value: an empty text mostly comes from a
/// variable that is not set, and must not pass as "not given".
void refuse_blank_values(CLI::App&);

}  // namespace tessera
