#include "io/fit_runs.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/csv_table.hpp"
#include "io/text_file.hpp"
#include "io/toml_reader.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

/// JSON lines as CSV text, columns in the order of the first line.
CsvTable read_json_lines(const std::string& path) {
  const std::string text = read_text_file(path, "a run table");
  std::vector<std::string> columns;
  std::string csv;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1, ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto row = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!row.is_object())
      throw InputError(fmt::format("{}, line {}: not a JSON object", path, number), "a .jsonl table has one object a line", "correct or remove the line.");
    if (columns.empty()) {
      for (const auto& [key, value] : row.items()) columns.push_back(key), csv += (columns.size() > 1 ? "," : "") + csv_field(key);
      csv += '\n';
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto cell = row.value(columns[i], nlohmann::ordered_json());
      csv += (i > 0 ? "," : "") + csv_field(cell.is_string() ? cell.get<std::string>() : cell.is_null() ? "" : cell.dump());
    }
    csv += '\n';
  }
  if (columns.empty()) throw InputError(fmt::format("{} has no rows", path), "a run table is needed", "check the file.");
  return CsvTable::parse(csv, path);
}

struct Filter {
  std::string column, operation, value;
};

Filter parse_filter(const std::string& text, const CsvTable& table) {
  const std::size_t at = text.find_first_of("=<>!");
  Filter out;
  if (at != std::string::npos) {
    const std::size_t length = at + 1 < text.size() && text[at + 1] == '=' ? 2 : 1;
    out = {text.substr(0, at), text.substr(at, length), text.substr(at + length)};
  }
  if (out.column.empty() || out.operation == "!")
    throw InputError(fmt::format("filter '{}'", text), "it is COLUMN=VALUE|VALUE, COLUMN!=VALUE, or COLUMN<NUMBER with <, <=, >, >=", "correct it.");
  if (!table.has(out.column)) throw InputError(fmt::format("filter '{}': no column '{}'", text, out.column), "the table does not have it", suggestion(out.column, table.columns()));
  return out;
}

std::optional<double> number_of(const std::string& word) {
  std::size_t used = 0;
  try {
    const double value = std::stod(word, &used);
    if (used == word.size() && std::isfinite(value)) return value;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

/// Equal as text, or as numbers where both are.
bool same(const std::string& cell, const std::string& value) {
  if (cell == value) return true;
  const auto a = number_of(cell), b = number_of(value);
  return a && b && *a == *b;
}

bool passes(const CsvTable& table, std::size_t row, const Filter& filter) {
  const std::string& cell = table.text(row, filter.column);
  if (filter.operation == "=" || filter.operation == "==" || filter.operation == "!=") {
    bool found = false;
    for (std::size_t at = 0; at <= filter.value.size();) {
      const std::size_t end = std::min(filter.value.find('|', at), filter.value.size());
      found = found || same(cell, filter.value.substr(at, end - at));
      at = end + 1;
    }
    return found == (filter.operation != "!=");
  }
  const auto left = number_of(cell), right = number_of(filter.value);
  if (!right) throw InputError(fmt::format("filter on '{}': '{}' is not a number", filter.column, filter.value), "an order needs numbers", "correct it.");
  if (!left) return false;
  if (filter.operation == "<") return *left < *right;
  if (filter.operation == "<=") return *left <= *right;
  if (filter.operation == ">") return *left > *right;
  return *left >= *right;
}

/// Which column gives a quantity; empty if none.
std::string column_of(const CsvTable& table, const std::string& quantity, const RunSelection& selection) {
  if (const auto at = selection.columns.find(quantity); at != selection.columns.end()) {
    if (!table.has(at->second)) throw InputError(fmt::format("no column '{}' for {}", at->second, quantity), "the table does not have it", suggestion(at->second, table.columns()));
    return at->second;
  }
  for (const auto& [name, known] : run_columns())
    if (name == quantity)
      for (const auto& column : known)
        if (table.has(column)) return column;
  return "";
}

class RowReader {
 public:
  RowReader(const CsvTable& table, const std::string& file, const RunSelection& selection, RunTable& out) : table_(table), file_(file) {
    for (const auto& [quantity, known] : run_columns()) {
      const std::string column = column_of(table, quantity, selection);
      if (!column.empty()) columns_[quantity] = column;
    }
    for (const auto& [quantity, column] : selection.columns)
      if (std::none_of(run_columns().begin(), run_columns().end(), [&](const auto& known) { return known.first == quantity; })) {
        std::vector<std::string> names;
        for (const auto& known : run_columns()) names.push_back(known.first);
        throw InputError(fmt::format("'{}' is no quantity of a run", quantity), "a column is given as QUANTITY=COLUMN", suggestion(quantity, names));
      }
    out.columns = columns_;
  }
  bool has(const std::string& quantity) const { return columns_.count(quantity) > 0; }
  /// A positive number, or 0 where the column is absent.
  double positive(std::size_t row, const std::string& quantity, bool zero_allowed = false) const {
    const auto at = columns_.find(quantity);
    if (at == columns_.end()) return 0;
    const auto value = table_.number(row, at->second);
    if (!value || *value < 0 || (*value == 0 && !zero_allowed))
      throw InputError(fmt::format("{}, line {}: {} = '{}'", file_, table_.line(row), at->second, table_.text(row, at->second)),
                       fmt::format("{} must be a positive number", quantity), "correct the row or leave it out with --where.");
    return *value;
  }

 private:
  const CsvTable& table_;
  std::string file_;
  std::map<std::string, std::string> columns_;
};

/// Counts, tokens and sparsity of a row; what the table lacks is derived and the derivation reported.
LawPoint row_point(const RowReader& read, std::size_t row, const Law& law, const RunSelection& selection, RunTable& out) {
  LawPoint p;
  p.total = read.positive(row, "total");
  p.active = read.positive(row, "active");
  p.experts = read.positive(row, "experts");
  p.active_experts = read.positive(row, "active_experts");
  p.split = read.positive(row, "split");
  if (p.total == 0 && p.active > 0 && p.experts <= 1) p.total = p.active, out.columns["total"] = "= active";
  if (p.active == 0 && p.total > 0 && p.experts <= 1) p.active = p.total, out.columns["active"] = "= total";
  if (read.has("sparsity")) {
    p.sparsity = read.positive(row, "sparsity", true);
    if (p.active == 0 || out.columns["active"] == "= total") p.active = (1 - p.sparsity) * p.total, out.columns["active"] = "(1 - sparsity) total";
  } else if (law.convention.sparsity == SparsityKind::parameters && p.total > 0 && p.active > 0) {
    p.sparsity = 1 - p.active / p.total;
    out.columns["sparsity"] = "1 - active / total";
  }
  if (read.has("tokens")) {
    p.tokens = read.positive(row, "tokens");
  } else if (read.has("flops") && p.active > 0) {
    p.tokens = read.positive(row, "flops") / (6 * p.active);
    out.columns["tokens"] = "flops / (6 active)";
  } else if (selection.fixed_tokens > 0) {
    p.tokens = selection.fixed_tokens;
    out.columns["tokens"] = "fixed";
  }
  return p;
}

double axis_of(const LawPoint& p, LawAxis axis) {
  switch (axis) {
    case LawAxis::total: return p.total;
    case LawAxis::active: return p.active;
    case LawAxis::tokens: return p.tokens;
    case LawAxis::split: return p.split;
    case LawAxis::experts: return p.experts;
    case LawAxis::active_experts: return p.active_experts;
    default: return 1;  // sparsity may be 0
  }
}

void need_axes(const LawPoint& p, const Law& law, const RunTable& out, const CsvTable& table, std::size_t row) {
  for (LawAxis axis : form_info(law.form).axes) {
    if (axis == LawAxis::total && law.convention.size == SizeKind::active && law.form != LawForm::zhao) axis = LawAxis::active;
    const std::string name(to_string(axis));
    if (axis_of(p, axis) > 0 && (axis != LawAxis::sparsity || out.columns.count("sparsity"))) continue;
    throw InputError(fmt::format("{}, line {}: no {}", out.file, table.line(row), name),
                     fmt::format("form {} is {}; no column has a known name of it", form_info(law.form).name, form_info(law.form).expression),
                     fmt::format("name it: --column {}=COLUMN.", name));
  }
}

}  // namespace

const std::vector<std::pair<std::string, std::vector<std::string>>>& run_columns() {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> all = {
      {"total", {"N_total", "total_parameters", "total_params", "N_tot", "N", "params", "Model Size"}},
      {"active", {"N_active", "active_parameters", "active_params", "N_act", "Na", "dense_params", "params_active_precise"}},
      {"tokens", {"D", "tokens", "training_tokens"}},
      {"flops", {"Training FLOP", "flops", "FLOPs", "C"}},
      {"sparsity", {"S", "sparsity"}},
      {"split", {"G", "split", "split_factor", "granularity"}},
      {"experts", {"E", "experts", "num_experts", "n_experts", "nume"}},
      {"active_experts", {"K", "active_experts", "top_k", "topk", "k"}},
      {"loss", {"loss", "final_loss", "loss_validation", "min_smooth_loss", "loss_c4_val"}},
  };
  return all;
}

RunTable read_runs(const std::string& path, const Law& law, const RunSelection& selection) {
  const CsvTable table = path.ends_with(".jsonl") ? read_json_lines(path) : CsvTable::read(path);
  RunTable out;
  out.file = path;
  const RowReader read(table, path, selection, out);
  if (!read.has("loss")) throw InputError(fmt::format("{}: no column of losses", path), "no column has a known name of it", "name it: --column loss=COLUMN.");
  const std::string loss_column = out.columns.at("loss");
  std::vector<Filter> filters;
  for (const auto& text : selection.where) filters.push_back(parse_filter(text, table));
  for (const auto& column : selection.group_by)
    if (!table.has(column)) throw InputError(fmt::format("no column '{}' to group by", column), "the table does not have it", suggestion(column, table.columns()));
  out.rows = table.rows();
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (!std::all_of(filters.begin(), filters.end(), [&](const Filter& f) { return passes(table, row, f); })) {
      ++out.filtered;
      continue;
    }
    if (!table.number(row, loss_column) && !table.nonsense(row, loss_column)) {
      ++out.blank;
      continue;
    }
    Run run;
    run.loss = read.positive(row, "loss");
    run.line = table.line(row);
    run.point = row_point(read, row, law, selection, out);
    need_axes(run.point, law, out, table, row);
    for (const auto& column : selection.group_by) run.group += (run.group.empty() ? "" : ",") + table.text(row, column);
    out.runs.push_back(std::move(run));
  }
  if (selection.drop_highest > 0) {
    if (selection.drop_highest >= out.runs.size()) throw InputError(fmt::format("--drop-highest {} leaves no run", selection.drop_highest), fmt::format("{} runs were read", out.runs.size()), "give a smaller number.");
    std::vector<double> losses;
    for (const auto& run : out.runs) losses.push_back(run.loss);
    std::sort(losses.begin(), losses.end());
    const double limit = losses[losses.size() - selection.drop_highest];
    const auto before = out.runs.size();
    std::erase_if(out.runs, [&](const Run& run) { return run.loss >= limit; });
    out.dropped = before - out.runs.size();
  }
  if (out.runs.empty()) throw InputError(fmt::format("{}: no run is left", path), fmt::format("{} rows, {} filtered out, {} without a loss", out.rows, out.filtered, out.blank), "relax --where.");
  return out;
}

}  // namespace tessera
