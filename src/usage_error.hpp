// What a person reads when the command line cannot be understood.
#pragma once
#include <string>

#include <CLI/CLI.hpp>

namespace tessera {

/// "PROBLEM (WHY) WHAT TO DO", with the nearest option where one is misspelt.
std::string usage_text(const CLI::App&, const CLI::ParseError&);

}  // namespace tessera
