// Questions to a results file: which rows, which columns, how many, in what order. Any column of a row's cluster,
// architecture and plan can be asked for and compared, whichever table the row is of.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "io/results_reader.hpp"

namespace tessera {

enum class QueryTable : std::uint8_t {
  evaluations,  ///< every recorded plan
  best,         ///< the best plan of each cluster x batch x architecture
  top           ///< the ranked architectures of each envelope
};

/// What can be asked of a table.
struct QueryColumn {
  std::string name;
  std::string unit;      ///< "" of text
  bool is_text = false;
  std::string alias;     ///< a short name that means the same; "": none
};
std::vector<QueryColumn> query_columns(QueryTable);

struct Query {
  QueryTable table = QueryTable::best;
  std::string where;                 ///< condition (expression.hpp); "": every row
  std::vector<std::string> columns;  ///< "": a selection that fits the table
  std::string sort;                  ///< column to sort by; "": as the table does (best, evaluations: mfu, highest first; top: rank)
  bool descending = false;           ///< with `sort`: highest first
  std::uint64_t top = 20;            ///< rows kept
};

using QueryValue = std::variant<double, std::int64_t, std::uint64_t, std::string>;

struct QueryAnswer {
  std::vector<QueryColumn> columns;
  std::vector<std::vector<QueryValue>> rows;
  std::uint64_t scanned = 0, matched = 0;  ///< rows of the table, rows the condition holds for
};

/// Runs a query; memory grows with `top`, not with the file. Throws InputError: unknown column, bad condition, a
/// table that was not recorded, damaged file.
QueryAnswer run_query(const ResultsReader&, const Query&);

}  // namespace tessera
