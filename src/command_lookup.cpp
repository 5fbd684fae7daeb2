// tessera lookup: any budget from a table, without its results file.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/budget_table.hpp"
#include "src/budget_output.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string table, nodes, days, cluster;
  bool fast = false;
  DeviceHour hour;
};

int run(const Options& o, bool json) {
  check(o.hour);
  const auto nodes = parse_nodes(o.nodes);
  const auto days = parse_days(o.days);
  const BudgetTable table = read_budget_table(o.table);
  Json rows = Json::array();
  bool any = false;
  std::string text;
  for (const std::int64_t n : nodes)
    for (const double d : days) {
      const BudgetAnswer answer = answer_budget(table, o.cluster, n, d, !o.fast);
      if (json)
        rows.push_back(budget_row_json(table, answer, o.hour));
      else
        text += (text.empty() ? "" : "\n") + budget_details(table, answer, o.hour);
      any = any || !answer.candidates.empty();
    }
  if (json)
    fmt::print("{}\n", Json{{"title", table.title},
                            {"law", table.law.name},
                            {"certainty_recomputed", !o.fast},
                            {"rows", rows}}
                           .dump(2));
  else
    fmt::print("{}\n{}\n", text,
               o.fast
                   ? "predicted losses alone; leave out --fast for the certainty"
                   : fmt::format("certainty computed again for this budget: {} members x {} draws, seed {}",
                                 table.draws.members, table.draws.replicates, table.draws.seed));
  return any ? kDone : kNothingFeasible;
}

}  // namespace

void add_lookup(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand(
      "lookup", "Any budget from a table: exact in days, interpolated between node counts");
  sub->add_option("TABLE", o->table, "Table written by tessera table -o")->required();
  sub->add_option("--nodes", o->nodes, "Numbers of nodes, comma-separated, within those of the table")
      ->required();
  sub->add_option("--days", o->days, "Windows in days, comma-separated")->required();
  sub->add_option("--cluster", o->cluster, "Which cluster, where the table has several");
  sub->add_flag("--fast", o->fast,
                "Predicted losses alone, in milliseconds: the choice is then the lowest of them");
  sub->add_option("--price", o->hour.usd, "USD per device-hour: adds the cost");
  sub->add_option("--joules", o->hour.joules, "Joules per device-hour: adds the energy");
  sub->add_flag("--json", session.json,
                "One JSON object on stdout: title law certainty_recomputed rows[], as of tessera table");
  sub->footer("Example:\n  tessera lookup budgets.json --nodes 48 --days 25");
  sub->callback([o, &session] { session.action = [o, &session] { return run(*o, session.json); }; });
}

}  // namespace tessera
