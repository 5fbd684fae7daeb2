// tessera lookup: any budget from a table, without its results file.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/budget_file.hpp"
#include "src/budget_options.hpp"
#include "src/budget_output.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string table, cluster;
  bool fast = false;
  BudgetOptions budgets;
};

/// How the certainty of the answers came about.
std::string certainty_text(const BudgetTable& table, bool fast, bool recomputed, bool stored) {
  if (fast) return "predicted losses alone; leave out --fast for the certainty";
  if (!recomputed && !stored) return "";  // nothing can be trained
  return fmt::format("certainty {}: {}",
                     recomputed ? "computed again for this budget" : "as stored with the table",
                     draws_text(table));
}

int run(const Options& o, bool json) {
  const Budgets budgets = parse_budgets(o.budgets);
  if (budgets.amounts.empty())
    throw InputError("no budget", "lookup answers a window", "give --days, --device-hours, --usd or --mwh.");
  if (budgets.nodes.empty() && budgets.devices.empty())
    throw InputError("no size", "lookup answers a number of nodes", "give --nodes or --devices.");
  const BudgetFile file(o.table);
  const BudgetTable& table = file.table();
  check_names(budgets, table);
  const BudgetTerms terms = budgets.terms(table);
  std::vector<BudgetAnswer> answers;
  for (const std::int64_t n : budgets.sizes(table, o.cluster))
    for (const double days : budgets.days(table, o.cluster, n))
      answers.push_back(file.answer(o.cluster, n, days, !o.fast, terms));
  if (answers.empty())
    answer_budget(table, o.cluster, 1, 1, false, BudgetTerms{});  // an unknown cluster: let the answer's check say so
  const auto any = [&](auto test) { return std::any_of(answers.begin(), answers.end(), test); };
  const bool stored = any([](const BudgetAnswer& a) { return a.stored; });
  const bool recomputed = any([](const BudgetAnswer& a) { return a.has_certainty && !a.stored; });
  if (json) {
    Json rows = Json::array();
    for (const auto& a : answers)
      rows.push_back(budget_row_json(table, a, device_hour(budgets.hours, a.cluster, a.device)));
    fmt::print("{}\n", Json{{"title", table.title},
                            {"law", table.law.name},
                            {"certainty_recomputed", recomputed},
                            {"certainty_stored", stored},
                            {"rows", rows},
                            {"notes", price_notes(answers, budgets.hours)}}
                           .dump(2));
  } else {
    for (const auto& a : answers) fmt::print("{}\n", budget_details(table, a, budgets.hours));
    fmt::print("{}\n", certainty_text(table, o.fast, recomputed, stored));
  }
  return any([](const BudgetAnswer& a) { return !a.candidates.empty(); }) ? kDone : kNothingFeasible;
}

}  // namespace

void add_lookup(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand(
      "lookup", "Any budget from a table: exact in days, interpolated between node counts");
  sub->add_option("TABLE", o->table, "Table written by tessera table -o, HDF5 or JSON")->required();
  add_budget_options(*sub, o->budgets, ", within those of the table", "");
  sub->add_option("--cluster", o->cluster, "Which cluster, where the table has several");
  sub->add_flag("--fast", o->fast,
                "Predicted losses alone, in milliseconds: the choice is then the lowest of them");
  sub->add_flag("--json", session.json,
                "One JSON object on stdout: title law certainty_recomputed certainty_stored rows[] notes[], "
                "rows as of tessera table");
  sub->footer("Example:\n  tessera lookup budgets.h5 --nodes 48 --days 25");
  sub->callback([o, &session] { session.action = [o, &session] { return run(*o, session.json); }; });
}

}  // namespace tessera
