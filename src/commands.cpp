// The list of commands, in the order of --help.
#include "command.hpp"

namespace tessera {

void add_count(CLI::App&, Session&);
void add_loss(CLI::App&, Session&);
void add_presets(CLI::App&, Session&);

const AddCommand kCommands[] = {
    add_count,
    add_loss,
    add_presets,
};
const int kCommandCount = sizeof(kCommands) / sizeof(kCommands[0]);

}  // namespace tessera
