#include "src/usage_error.hpp"

#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "io/toml_reader.hpp"

namespace tessera {
namespace {

/// The option nearest to the misspelt one that CLI11's message names; empty if there is none.
std::string nearest_option(const CLI::App& command, const std::string& problem) {
  std::istringstream words(problem);
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (std::string word; words >> word;)
    if (word.starts_with("--")) return nearest(word.substr(0, word.find('=')), known);
  return {};
}

std::string nearest_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands(nullptr)) known.push_back(command->get_name());
  return nearest(word, known);
}

}  // namespace

std::string usage_text(const CLI::App& app, const CLI::ParseError& error) {
  const auto given = app.get_subcommands();
  std::string problem = error.what(), near, help = "tessera --help";
  while (!problem.empty() && (problem.back() == '.' || problem.back() == '\n')) problem.pop_back();
  if (!given.empty()) {
    help = "tessera " + given.front()->get_name() + " --help";
    if (dynamic_cast<const CLI::ExtrasError*>(&error)) near = nearest_option(*given.front(), problem);
  } else if (const auto rest = app.remaining(); !rest.empty() && !rest.front().starts_with("-")) {
    problem = fmt::format("there is no command '{}'", rest.front());
    near = nearest_command(app, rest.front());
  }
  return fmt::format("{} (the command line was not understood) {}see {}.", problem, near.empty() ? "" : "did you mean " + near + "? Else ", help);
}

}  // namespace tessera
