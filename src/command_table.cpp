// tessera table: the best architecture of many budgets, and how sure each answer is.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/budget_table.hpp"
#include "io/file_system.hpp"
#include "io/study_reader.hpp"
#include "src/budget_output.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string results, nodes, days, cluster, csv, out;
  DrawSettings draws;
  DeviceHour hour;
};

/// Every budget asked for: clusters x nodes x days.
std::vector<BudgetAnswer> answers_of(const BudgetTable& table, const Options& o) {
  const auto days = o.days.empty() ? table.days : parse_days(o.days);
  const auto asked = o.nodes.empty() ? std::vector<std::int64_t>{} : parse_nodes(o.nodes);
  const auto clusters = o.cluster.empty() ? cluster_names(table) : std::vector<std::string>{o.cluster};
  std::vector<BudgetAnswer> answers;
  for (const auto& cluster : clusters)
    for (const std::int64_t nodes : asked.empty() ? node_counts(table, cluster) : asked)
      for (const double d : days) answers.push_back(answer_budget(table, cluster, nodes, d));
  // A cluster that is not in the table has no node counts: let the answer's own check say what is there.
  if (answers.empty()) answer_budget(table, o.cluster, 1, days.front());
  return answers;
}

/// Before anything is computed.
void check_folder(const std::string& option, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder))
    throw InputError(option + " " + path, folder.string() + " is no folder",
                     "make it first, or choose another file.");
}

int run(const Options& o, bool json) {
  check(o.hour);
  check_folder("--csv", o.csv);
  check_folder("-o", o.out);
  for (const char* other : {".h5", ".hdf5"})
    if (o.out.ends_with(other))
      throw InputError("-o " + o.out, "the table is a JSON file", "give a name that ends with .json.");
  const ResultsReader reader(o.results);
  const Study study = restore_study(reader.results().source, o.results + " (/study/input)");
  check_answering_presets(reader.results(), study);
  const BudgetTable table = make_budget_table(reader.results(), study, o.draws);
  const auto answers = answers_of(table, o);
  Json rows = Json::array();
  bool any = false;
  for (const auto& a : answers) {
    rows.push_back(budget_row_json(table, a, o.hour));
    any = any || !a.candidates.empty();
  }
  if (!o.csv.empty()) replace_file(o.csv, budget_csv(table, answers, o.hour));
  if (!o.out.empty()) {
    Json file = table_to_json(table);
    file["rows"] = rows;
    replace_file(o.out, file.dump() + "\n");
  }
  if (json)
    fmt::print("{}\n", Json{{"title", table.title}, {"law", table.law.name}, {"rows", rows}}.dump(2));
  else if (answers.size() == 1)
    fmt::print("{}", budget_details(table, answers.front(), o.hour));
  else
    fmt::print("{}", budget_text(table, answers, o.hour));
  return any ? kDone : kNothingFeasible;
}

}  // namespace

void add_table(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* sub =
      app.add_subcommand("table", "The best architecture of many budgets, and how sure each answer is");
  sub->add_option("RESULTS", o->results, "results.h5 of a sweep")->required();
  sub->add_option(
      "--nodes", o->nodes,
      "Numbers of nodes, comma-separated (default: those swept); between them MFU is interpolated");
  sub->add_option("--days", o->days, "Windows in days, comma-separated (default: those of the study)");
  sub->add_option("--cluster", o->cluster, "One of several clusters of the study, by name (default: all)");
  sub->add_option("--members", o->draws.members, "Members of the law's ensemble")->capture_default_str();
  sub->add_option("--draws", o->draws.replicates, "Draws of the step-time error per member")
      ->capture_default_str();
  sub->add_option("--seed", o->draws.seed, "Seed of the draws")->capture_default_str();
  sub->add_option("--price", o->hour.usd, "USD per device-hour: adds the cost of each budget");
  sub->add_option("--joules", o->hour.joules, "Joules per device-hour: adds the energy of each budget");
  sub->add_option("--csv", o->csv, "Write the rows to this CSV file");
  sub->add_option("-o,--out", o->out,
                  "Write the table, with every candidate, to this JSON file for tessera lookup");
  sub->add_flag("--json", session.json, "One JSON object on stdout: title law rows[]");
  sub->footer(
      "Exit code 3 where no budget can train anything.\n"
      "Example:\n  tessera table results/budgets/results.h5 --nodes 16,32 --days 10,20,30 --csv budgets.csv "
      "-o budgets.json");
  sub->callback([o, &session] { session.action = [o, &session] { return run(*o, session.json); }; });
}

}  // namespace tessera
