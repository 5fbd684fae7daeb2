// tessera table: the best architecture of many budgets, and how sure each answer is.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/budget_file.hpp"
#include "io/budget_reader.hpp"
#include "io/output_file.hpp"
#include "io/study_reader.hpp"
#include "src/budget_options.hpp"
#include "src/budget_output.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string results, cluster, csv, goodput;
  std::vector<std::string> out;
  DrawSettings draws;
  BudgetOptions budgets;
};

/// Every budget asked for: clusters x nodes x windows.
std::vector<BudgetAnswer> answers_of(const BudgetTable& table, const Options& o, const Budgets& budgets) {
  const auto clusters = o.cluster.empty() ? cluster_names(table) : std::vector<std::string>{o.cluster};
  const BudgetTerms terms = budgets.terms(table);
  std::vector<BudgetAnswer> answers;
  for (const auto& cluster : clusters)
    for (const std::int64_t nodes : budgets.sizes(table, cluster))
      for (const double days : budgets.days(table, cluster, nodes))
        answers.push_back(answer_budget(table, cluster, nodes, days, true, terms));
  // A cluster that is not in the table has no node counts: let the answer's own check say what is there.
  if (answers.empty()) answer_budget(table, o.cluster, 1, 1, false, BudgetTerms{});
  return answers;
}

bool is_hdf5_name(const std::string& path) { return path.ends_with(".h5") || path.ends_with(".hdf5"); }

/// A link stays a link: what it points to is replaced.
void write_hdf5(const OutputFile& out, const BudgetTable& table, const std::vector<BudgetAnswer>& answers,
                const DeviceHours& hours) {
  std::error_code code;
  const auto target = std::filesystem::weakly_canonical(out.path(), code);
  const std::string path = code ? out.path() : target.string();
  if (std::filesystem::exists(path, code) && !std::filesystem::is_regular_file(path, code))
    throw InputError("cannot write --out '" + out.path() + "'",
                     "HDF5 is written at many places of a file, and this is none",
                     "name a file, or one that ends with .json.");
  write_budget_hdf5(path, table, answers, hours);
}

void write_table(const OutputFile& out, const BudgetTable& table, const std::vector<BudgetAnswer>& answers,
                 const DeviceHours& hours, const Json& rows) {
  if (is_hdf5_name(out.path())) return write_hdf5(out, table, answers, hours);
  Json file = table_to_json(table);
  file["rows"] = rows;
  out.write(file.dump() + "\n");
}

int run(const Options& o, bool json) {
  const Budgets budgets = parse_budgets(o.budgets);
  std::optional<OutputFile> csv;
  if (!o.csv.empty()) csv.emplace("--csv", o.csv);
  std::vector<OutputFile> files;
  for (const auto& path : o.out) {
    files.emplace_back("--out", path);
    if (path.ends_with(".csv"))
      throw InputError("--out " + path, "a CSV file cannot hold the whole table",
                       "write the rows with --csv " + path + ".");
  }
  const ResultsReader reader(o.results);
  Study study = restore_study(reader.results().source, o.results + " (/study/input)");
  check_answering_presets(reader.results(), study);
  if (!o.goodput.empty()) study.goodput = read_goodput(o.goodput);  // plans do not depend on it
  const BudgetTable table = make_budget_table(reader.results(), study, o.draws);
  check_names(budgets, table);
  const auto answers = answers_of(table, o, budgets);
  Json rows = Json::array();
  bool any = false;
  for (const auto& a : answers) {
    rows.push_back(budget_row_json(table, a, device_hour(budgets.hours, a.cluster, a.device)));
    any = any || !a.candidates.empty();
  }
  if (csv) csv->write(budget_csv(table, answers, budgets.hours));
  for (const auto& file : files) write_table(file, table, answers, budgets.hours, rows);
  if (json) {
    Json out{{"title", table.title}, {"law", table.law.name}, {"rows", rows}};
    out["comparison"] = comparison_json(table, answers, budgets.hours);
    out["notes"] = price_notes(answers, budgets.hours);
    fmt::print("{}\n", out.dump(2));
  } else if (answers.size() == 1) {
    fmt::print("{}", budget_details(table, answers.front(), budgets.hours));
    if (any) fmt::print("\ncertainty over {}\n", draws_text(table));
  } else {
    fmt::print("{}{}", budget_text(table, answers, budgets.hours),
               comparison_text(table, answers, budgets.hours));
  }
  return any ? kDone : kNothingFeasible;
}

}  // namespace

void add_table(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* sub =
      app.add_subcommand("table", "The best architecture of many budgets, and how sure each answer is");
  sub->add_option("RESULTS", o->results, "results.h5 of a sweep")->required();
  add_budget_options(*sub, o->budgets, " (default: those swept); between them MFU is interpolated",
                     " (default: those of the study)");
  sub->add_option("--cluster", o->cluster, "One of several clusters of the study, by name (default: all)");
  sub->add_option("--members", o->draws.members, "Members of the law's ensemble")->capture_default_str();
  sub->add_option("--draws", o->draws.replicates, "Draws of the step-time error per member")
      ->capture_default_str();
  sub->add_option("--seed", o->draws.seed, "Seed of the draws")->capture_default_str();
  sub->add_option(
      "--goodput", o->goodput,
      "Share of the window that trains, in place of the study's: a number in (0, 1], a preset, or one with "
      "changes: llama3,other_losses=0.03");
  sub->add_option("--csv", o->csv, "Write the rows to this CSV file");
  sub->add_option(
         "-o,--out", o->out,
         "Write the table, with every candidate, for tessera lookup: HDF5 to NAME.h5, JSON to any other "
         "name; may be given twice")
      ->allow_extra_args(false);
  sub->add_flag("--json", session.json, "One JSON object on stdout: title law rows[] comparison[] notes[]");
  sub->footer(
      "Exit code 3 where no budget can train anything.\n"
      "Example:\n  tessera table results/budgets/results.h5 --nodes 16,32 --days 10,20,30 --csv budgets.csv "
      "-o budgets.h5");
  sub->callback([o, &session] { session.action = [o, &session] { return run(*o, session.json); }; });
}

}  // namespace tessera
