// The words of a launch script or argument list, as a shell would split them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Splits at white space outside quotes; drops # comments and line continuations; replaces $NAME, ${NAME} and
/// ${NAME:-default} by NAME=value assignments met earlier (an unknown variable stays as written, so that the
/// reader of its value can name it); drops the parentheses of bash arrays. "--name=value" becomes two words,
/// and a trailing colon of a name ("--num-layers: 61" in YAML) is dropped. `name` is the file for messages.
/// Throws InputError where a quote is not closed.
std::vector<std::string> launch_words(std::string_view text, const std::string& name);

}  // namespace tessera
