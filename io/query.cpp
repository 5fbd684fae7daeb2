#include "io/query.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "io/expression.hpp"
#include "io/id_decoder.hpp"
#include "io/merge.hpp"
#include "io/query_columns.hpp"
#include "io/toml_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/step_cost.hpp"

namespace tessera {
namespace {

constexpr const char* kId = "id";  // 64 bits: a double would round it, so it is no number of a condition

/// Getters with the lookups a query needs.
class ColumnNames {
 public:
  explicit ColumnNames(QueryTable table) : getters_(column_getters(table)) {}

  const std::vector<ColumnGetter>& getters() const { return getters_; }

  std::vector<Symbol> symbols() const {
    std::vector<Symbol> out;
    for (std::size_t i = 0; i < getters_.size(); ++i) {
      const QueryColumn& c = getters_[i].column;
      out.push_back({c.name, c.is_text, static_cast<int>(i), getters_[i].words});
      if (!c.alias.empty()) out.push_back({c.alias, c.is_text, static_cast<int>(i), getters_[i].words});
    }
    return out;
  }

  /// Index of a column; -1 for the id. Throws InputError with the nearest name.
  int index(const std::string& name) const {
    if (name == kId) return -1;
    std::vector<std::string> known{kId};
    for (const auto& symbol : symbols()) {
      if (symbol.name == name) return symbol.index;
      known.push_back(symbol.name);
    }
    throw InputError("unknown column '" + name + "'", "this table has no such column", suggestion(name, known));
  }

 private:
  std::vector<ColumnGetter> getters_;
};

class RowAdapter : public RowValues {
 public:
  RowAdapter(const std::vector<ColumnGetter>& getters, const QueryRow& row) : getters_(getters), row_(row) {}
  double number(int index) const override { return getters_[static_cast<std::size_t>(index)].number(row_); }
  std::string_view text(int index) const override { return getters_[static_cast<std::size_t>(index)].text(row_); }

 private:
  const std::vector<ColumnGetter>& getters_;
  const QueryRow& row_;
};

/// Calls take(row) for every row of the table, in its order.
void scan_best(const Results& results, const std::function<void(const QueryRow&)>& take) {
  QueryRow row;
  row.results = &results;
  for (const auto& best : results.best) {
    TopRow& v = row.values;
    v.cluster = best.row.cluster;
    v.batch = best.row.batch;
    v.architecture = best.row.architecture;
    v.id = best.row.id;
    v.plan = best.plan;
    v.mfu = best.mfu;
    v.step_seconds = best.row.step_seconds;
    v.memory_bytes = best.row.memory_bytes;
    v.memory_with_reserve_bytes = best.row.memory_with_reserve_bytes;
    v.compute_seconds = best.row.compute_seconds;
    v.communication_seconds = best.row.communication_seconds;
    v.ramp_seconds = best.row.ramp_seconds;
    v.host_seconds = best.row.host_seconds;
    row.feasible = best.row.feasible != 0;
    take(row);
  }
}

void scan_top(const Results& results, const std::function<void(const QueryRow&)>& take) {
  QueryRow row;
  row.results = &results;
  row.feasible = true;
  for (const auto& top : results.top) {
    row.values = top;
    take(row);
  }
}

void scan_evaluations(const ResultsReader& reader, const std::function<void(const QueryRow&)>& take) {
  const Results& results = reader.results();
  const IdDecoder decoder(reader);
  QueryRow row;
  row.results = &results;
  TopRow& v = row.values;
  for (std::uint64_t first = 0; first < reader.evaluation_rows(); first += kChunkRows) {
    const Columns c = reader.evaluations(first, std::min(kChunkRows, reader.evaluation_rows() - first));
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (c.id[i] >= decoder.points()) throw InputError(reader.path() + " is damaged", "/evaluations/id holds an id beyond the space", "run the sweep again.");
      const Digits d = decoder.decode(c.id[i]);
      v.cluster = d.cluster;
      v.batch = d.batch;
      v.architecture = d.architecture;
      v.id = c.id[i];
      v.plan = decoder.plan(d);
      row.feasible = c.status[i] == static_cast<std::uint8_t>(Status::fits);
      v.step_seconds = c.step_seconds[i];
      v.memory_bytes = c.memory_bytes[i];
      v.compute_seconds = c.compute_seconds[i];
      v.communication_seconds = c.communication_seconds[i];
      v.ramp_seconds = c.ramp_seconds[i];
      v.host_seconds = c.host_seconds[i];
      const StoredCluster& cluster = results.clusters[d.cluster];
      v.mfu = row.feasible ? law_mfu(static_cast<double>(results.counts[d.architecture].non_embedding_active), v.plan.batch, results.sequence,
                                     v.step_seconds, cluster.devices, cluster.peak_bf16)
                           : 0.0;
      take(row);
    }
  }
}

/// What is kept of a row until the end.
struct Kept {
  double key = 0;
  std::string text_key;
  std::uint64_t number = 0;  ///< of the row in its table: ties keep the table's order
  std::vector<QueryValue> values;
};

QueryValue value_of(const std::vector<ColumnGetter>& getters, int index, const QueryRow& row) {
  if (index < 0) return row.values.id;
  const ColumnGetter& getter = getters[static_cast<std::size_t>(index)];
  if (getter.column.is_text) return std::string(getter.text(row));
  const double value = getter.number(row);
  if (getter.whole) return static_cast<std::int64_t>(value);
  return value;
}

std::vector<std::string> default_columns(QueryTable table) {
  std::vector<std::string> out{"architecture", "nodes",       "batch",    "tp",          "cp",  "pp",           "dp",
                               "ep",           "micro_batch", "recompute", "schedule",   "step_seconds", "mfu", "memory_bytes"};
  if (table == QueryTable::top) out.insert(out.begin(), {"rank", "window_days", "loss"});
  out.insert(out.begin(), kId);
  return out;
}

}  // namespace

QueryAnswer run_query(const ResultsReader& reader, const Query& query) {
  if (query.table == QueryTable::evaluations && reader.evaluation_rows() == 0)
    throw InputError(reader.path() + " has no evaluations", "it was written with --record " + reader.results().record, "ask the table best, or sweep again with --record all.");
  const ColumnNames names(query.table);
  const auto& getters = names.getters();
  const auto symbols = names.symbols();
  std::optional<Expression> where;
  if (!query.where.empty()) where.emplace(query.where, symbols);
  std::vector<int> columns;
  QueryAnswer answer;
  for (const auto& name : query.columns.empty() ? default_columns(query.table) : query.columns) {
    columns.push_back(names.index(name));
    answer.columns.push_back(columns.back() < 0 ? QueryColumn{kId, "id", false, ""} : getters[static_cast<std::size_t>(columns.back())].column);
  }
  const bool sorted = !query.sort.empty() || query.table != QueryTable::top;
  const int sort = query.sort.empty() ? names.index("mfu") : names.index(query.sort);
  const bool descending = query.sort.empty() ? query.table != QueryTable::top : query.descending;
  const auto before = [&](const Kept& a, const Kept& b) {
    if (sorted && a.key != b.key) return descending ? a.key > b.key : a.key < b.key;
    if (sorted && a.text_key != b.text_key) return descending ? a.text_key > b.text_key : a.text_key < b.text_key;
    return a.number < b.number;
  };
  std::vector<Kept> kept;  // a heap, the worst first
  const auto take = [&](const QueryRow& row) {
    const std::uint64_t number = answer.scanned++;
    if (where && !where->matches(RowAdapter(getters, row))) return;
    ++answer.matched;
    if (query.top == 0) return;
    Kept candidate;
    candidate.number = number;
    if (sorted && sort < 0) candidate.key = 0;  // by id: the order of /evaluations; other tables are small
    if (sorted && sort >= 0) {
      const ColumnGetter& getter = getters[static_cast<std::size_t>(sort)];
      if (getter.column.is_text) candidate.text_key = std::string(getter.text(row));
      else candidate.key = getter.number(row);
    }
    if (sorted && sort < 0) candidate.text_key = fmt::format("{:020}", row.values.id);
    if (kept.size() == query.top) {
      if (!before(candidate, kept.front())) return;
      std::pop_heap(kept.begin(), kept.end(), before);
      kept.pop_back();
    }
    for (const int column : columns) candidate.values.push_back(value_of(getters, column, row));
    kept.push_back(std::move(candidate));
    std::push_heap(kept.begin(), kept.end(), before);
  };
  if (query.table == QueryTable::best) scan_best(reader.results(), take);
  else if (query.table == QueryTable::top) scan_top(reader.results(), take);
  else scan_evaluations(reader, take);
  std::sort_heap(kept.begin(), kept.end(), before);
  for (auto& row : kept) answer.rows.push_back(std::move(row.values));
  return answer;
}

}  // namespace tessera
