// The columns a query can name, as functions of a row.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/query.hpp"

namespace tessera {

/// One row, whichever table it is of.
struct QueryRow {
  const Results* results = nullptr;
  TopRow values;      ///< of /evaluations and /best: what they do not have stays 0
  bool feasible = false;
};

struct ColumnGetter {
  QueryColumn column;
  bool whole = false;  ///< a whole number: printed without a fraction
  std::function<double(const QueryRow&)> number;
  std::function<std::string_view(const QueryRow&)> text;
  std::vector<std::string> words{};  ///< all that a text can be; empty: anything
};

/// In the order in which they are listed.
std::vector<ColumnGetter> column_getters(QueryTable);

}  // namespace tessera
