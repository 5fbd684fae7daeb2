// The list of commands, in the order of --help.
#include "command.hpp"

namespace tessera {

void add_sweep(CLI::App&, Session&);
void add_estimate(CLI::App&, Session&);
void add_plan(CLI::App&, Session&);
void add_explain(CLI::App&, Session&);
void add_count(CLI::App&, Session&);
void add_loss(CLI::App&, Session&);
void add_table(CLI::App&, Session&);
void add_lookup(CLI::App&, Session&);
void add_fit(CLI::App&, Session&);
void add_validate(CLI::App&, Session&);
void add_calibrate(CLI::App&, Session&);
void add_report(CLI::App&, Session&);
void add_export(CLI::App&, Session&);
void add_replay(CLI::App&, Session&);
void add_merge(CLI::App&, Session&);
void add_query(CLI::App&, Session&);
void add_presets(CLI::App&, Session&);

const AddCommand kCommands[] = {
    add_sweep,
    add_estimate,
    add_plan,
    add_explain,
    add_count,
    add_loss,
    add_table,
    add_lookup,
    add_fit,
    add_validate,
    add_calibrate,
    add_report,
    add_export,
    add_replay,
    add_merge,
    add_query,
    add_presets,
};
const int kCommandCount = sizeof(kCommands) / sizeof(kCommands[0]);

void refuse_blank_values(CLI::App& app) {
  const auto refuse = [](std::string& value) {
    return value.find_first_not_of(" \t\r\n") == std::string::npos
               ? std::string("the value is empty, as of a variable that is not set: give one, or leave the option out")
               : std::string();
  };
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0 && option->get_name() != "--help") option->transform(CLI::Validator(refuse, ""));  // unlike check(), before the checks of the option itself
  for (CLI::App* command : app.get_subcommands({})) refuse_blank_values(*command);
}

}  // namespace tessera
