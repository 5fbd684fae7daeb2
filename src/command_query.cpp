// tessera query: rows of a results file by a condition, as a table, CSV or JSON.
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/query.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

constexpr std::uint64_t kMostRows = 1'000'000'000;

struct Options {
  std::string results, where, table, sort;
  std::vector<std::string> columns;
  std::uint64_t top = 20;
  bool descending = false, csv = false, list = false;
};

QueryTable table_of(const Options& options, const ResultsReader& reader) {
  if (options.table == "evaluations") return QueryTable::evaluations;
  if (options.table == "top") return QueryTable::top;
  if (options.table == "best") return QueryTable::best;
  return reader.evaluation_rows() > 0 ? QueryTable::evaluations : QueryTable::best;
}

const char* name_of(QueryTable table) {
  return table == QueryTable::evaluations ? "evaluations" : table == QueryTable::best ? "best" : "top";
}

std::string plain(const QueryValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

/// Short for a person: bytes as GiB, six significant digits.
std::string shown(const QueryColumn& column, const QueryValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.6g}", column.unit == "B" ? *number / kGiB : *number);
  return plain(value);
}

/// "step_seconds" as "step_" over "seconds"; the unit below. What counts devices or sequences says so under the table.
std::vector<std::string> heading_of(const QueryColumn& column) {
  constexpr std::size_t kNarrow = 8;
  const std::string& unit = column.unit;
  const bool counts = column.is_text || unit.empty() || unit == "1" || unit == "id" || unit == "devices" || unit == "nodes" || unit == "sequences" || unit == "chunks";
  const std::size_t cut = column.name.size() > kNarrow ? column.name.rfind('_') : std::string::npos;
  std::vector<std::string> out{cut == std::string::npos ? "" : column.name.substr(0, cut + 1), cut == std::string::npos ? column.name : column.name.substr(cut + 1), ""};
  if (!counts) out[2] = unit == "B" ? "[GiB]" : "[" + unit + "]";
  return out;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

void print_csv(const QueryAnswer& answer) {
  std::string line;
  for (const auto& column : answer.columns) line += (line.empty() ? "" : ",") + column.name;
  fmt::print("{}\n", line);
  for (const auto& row : answer.rows) {
    line.clear();
    for (std::size_t i = 0; i < row.size(); ++i) line += (i == 0 ? "" : ",") + csv_field(plain(row[i]));
    fmt::print("{}\n", line);
  }
}

void print_json(const QueryAnswer& answer, QueryTable table) {
  nlohmann::ordered_json out;
  out["table"] = name_of(table);
  out["scanned"] = answer.scanned;
  out["matched"] = answer.matched;
  auto& units = out["units"] = nlohmann::ordered_json::object();
  for (const auto& column : answer.columns)
    if (!column.is_text) units[column.name] = column.unit;
  auto& rows = out["rows"] = nlohmann::ordered_json::array();
  for (const auto& row : answer.rows) {
    nlohmann::ordered_json item = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < row.size(); ++i) std::visit([&](const auto& v) { item[answer.columns[i].name] = v; }, row[i]);
    rows.push_back(std::move(item));
  }
  fmt::print("{}\n", out.dump(2));
}

/// Of columns nobody chose, those in which all rows agree: said once instead of in every row.
std::vector<bool> agreeing(const QueryAnswer& answer, bool chosen) {
  std::vector<bool> out(answer.columns.size(), false);
  for (std::size_t i = 0; !chosen && answer.rows.size() > 1 && i < out.size(); ++i)
    out[i] = std::all_of(answer.rows.begin(), answer.rows.end(), [&](const auto& row) { return row[i] == answer.rows.front()[i]; });
  return out;
}

/// "in every row: nodes 8, batch 1024, ..." in lines of the page's width; empty if there is nothing to say.
std::string said_once(const QueryAnswer& answer, const std::vector<bool>& said) {
  constexpr std::size_t kPage = 100;
  std::string out, line = "in every row:";
  bool any = false;
  for (std::size_t i = 0; i < answer.columns.size(); ++i) {
    if (!said[i]) continue;
    const QueryColumn& column = answer.columns[i];
    const char* unit = column.unit == "B" ? " GiB" : column.unit == "s" ? " s" : column.unit == "d" ? " d" : "";
    const std::string item = fmt::format(" {} {}{}", column.name, shown(column, answer.rows.front()[i]), unit);
    if (any) line += ",";
    if (line.size() + item.size() + 1 > kPage) out += line + "\n", line = " ";
    line += item;
    any = true;
  }
  return any ? out + line : "";
}

void print_table(const QueryAnswer& answer, QueryTable table, bool chosen) {
  const std::vector<bool> said = agreeing(answer, chosen);
  std::vector<std::vector<std::string>> cells(3);
  for (std::size_t i = 0; i < answer.columns.size(); ++i) {
    const QueryColumn& column = answer.columns[i];
    if (said[i]) continue;
    const auto heading = heading_of(column);
    for (std::size_t line = 0; line < heading.size(); ++line) cells[line].push_back(heading[line]);
  }
  for (const auto& row : answer.rows) {
    cells.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i)
      if (!said[i]) cells.back().push_back(shown(answer.columns[i], row[i]));
  }
  std::vector<std::size_t> width(cells[0].size(), 0);
  for (const auto& row : cells)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  for (const auto& row : cells) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += (i == 0 ? "" : " ") + fmt::format("{:>{}}", row[i], width[i]);
    if (line.find_first_not_of(' ') != std::string::npos) fmt::print("{}\n", line);
  }
  if (const std::string common = said_once(answer, said); !common.empty()) fmt::print("{}\n", common);
  fmt::print("{} of {} rows of {} match; {} shown. Degrees count devices, batches sequences.\n", answer.matched, answer.scanned, name_of(table), answer.rows.size());
}

void list_columns(QueryTable table, bool json) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const auto& column : query_columns(table)) {
    if (json) out.push_back({{"name", column.name}, {"alias", column.alias}, {"unit", column.is_text ? "text" : column.unit}});
    else fmt::print("{:<36} {:<14} {}\n", column.name, column.is_text ? "text" : column.unit, column.alias.empty() ? "" : "also: " + column.alias);
  }
  if (json) fmt::print("{}\n", nlohmann::ordered_json{{"table", name_of(table)}, {"columns", out}}.dump(2));
}

int run(const Options& options, bool json) {
  if (json && options.csv) throw InputError("--json and --csv", "they are two forms of the same answer", "give one of them.");
  const ResultsReader reader(options.results);
  Query query;
  query.table = table_of(options, reader);
  if (options.list) return list_columns(query.table, json), kDone;
  query.where = options.where;
  query.columns = options.columns;
  query.sort = options.sort;
  query.descending = options.descending;
  query.top = options.top;
  const QueryAnswer answer = run_query(reader, query);
  if (json) print_json(answer, query.table);
  else if (options.csv) print_csv(answer);
  else print_table(answer, query.table, !options.columns.empty());
  return kDone;
}

}  // namespace

void add_query(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("query", "Rows of a results file by a condition, as a table, CSV or JSON");
  sub->add_option("RESULTS", options->results, "results.h5 of a sweep")->required();
  sub->add_option("--where", options->where,
                  "Condition on columns: || && == != < <= > >= + - * / ! and parentheses; numbers may carry a unit (150GiB, 20ms, 12%), "
                  "text stands in quotes");
  sub->add_option("--table", options->table, "evaluations (every recorded plan), best (of each architecture), top (ranked); default: the first that was recorded")
      ->check(CLI::IsMember({"evaluations", "best", "top"}));
  sub->add_option("--columns", options->columns, "Columns to print, comma-separated (--list names them)")->delimiter(',');
  sub->add_option("--sort", options->sort, "Column to sort by, lowest first (default: mfu, highest first; of top: its ranking)");
  sub->add_flag("--descending", options->descending, "With --sort: highest first")->needs("--sort");
  sub->add_option("--top", options->top, "Rows to print")->capture_default_str()->check(CLI::Range(std::uint64_t{1}, kMostRows));
  sub->add_flag("--list", options->list, "List the columns of the table with their units");
  sub->add_flag("--csv", options->csv, "CSV on stdout");
  sub->add_flag("--json", session.json, "One JSON object on stdout: table scanned matched units{} rows[]");
  sub->footer("Examples:\n  tessera query results/paper/results.h5 --where 'split == 4 && memory < 150GiB' --columns architecture,mfu,step_seconds --top 5\n"
              "  tessera query results/paper/results.h5 --table top --where 'window_days == 20' --csv");
  sub->callback([options, &session] { session.action = [options, &session] { return run(*options, session.json); }; });
}

}  // namespace tessera
