// Run tables for fitting: CSV, or JSON lines with one flat object a line (*.jsonl). Columns are found by the
// names that public tables use; every column that was taken is reported.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tessera/law.hpp"

namespace tessera {

struct RunSelection {
  std::vector<std::string> where;     ///< "router_type=S-Base|Dense", "D>=1e9": a row must meet all
  std::map<std::string, std::string> columns;  ///< quantity -> column, overrides the known names
  double fixed_tokens = 0;            ///< tokens of every run where the table has no such column; 0: none
  std::size_t drop_highest = 0;       ///< leave out this many rows of highest loss
  std::vector<std::string> group_by;  ///< columns whose values together name a run's group
};

struct Run {
  LawPoint point;      ///< raw counts; unknown fields 0
  double loss = 0;     ///< [nats/token]
  std::string group;   ///< values of the group_by columns
  std::size_t line = 0;
};

struct RunTable {
  std::string file;
  std::vector<Run> runs;                       ///< in file order
  std::map<std::string, std::string> columns;  ///< quantity -> column or derivation
  std::size_t rows = 0, filtered = 0, blank = 0, dropped = 0;
};

/// Quantities a column can give, with the names they are known by in public tables, first match first.
const std::vector<std::pair<std::string, std::vector<std::string>>>& run_columns();

/// Reads and selects the runs that `axes` (of the form) need. Tokens come from D, or from FLOP/(6 N); sparsity from
/// the counts. Rows with a blank loss are left out and counted. Throws InputError naming file, line and column
/// (missing column, non-positive number, unknown column in a filter, no row left).
RunTable read_runs(const std::string& path, const Law& law, const RunSelection&);

}  // namespace tessera
