// Rows of plain structs as the columns of an HDF5 group and back, from one list of members for both
// directions: what is written is what is read. Used by the file of the budget table only.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "io/hdf5_file.hpp"
#include "io/table_writer.hpp"
#include "tessera/plan.hpp"

namespace tessera::budgets {

template <class Row>
struct Column {
  template <class T>
  using Get = T& (*)(Row&);
  const char *name, *unit, *description;
  std::variant<Get<double>, Get<std::int64_t>, Get<std::uint64_t>, Get<std::uint32_t>, Get<int>, Get<bool>,
               Get<std::string>, Get<Recompute>, Get<Schedule>, Get<Precision>, Get<Optimizer>>
      get;
};

inline std::optional<Recompute> word_from(const std::string& text, Recompute) { return recompute_from(text); }
inline std::optional<Schedule> word_from(const std::string& text, Schedule) { return schedule_from(text); }
inline std::optional<Precision> word_from(const std::string& text, Precision) { return precision_from(text); }
inline std::optional<Optimizer> word_from(const std::string& text, Optimizer) { return optimizer_from(text); }

/// The type in which HDF5 holds a member.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t,
                                  std::conditional_t<std::is_same_v<T, int>, std::int64_t,
                                                     std::conditional_t<std::is_enum_v<T>, std::string, T>>>;

template <class Row>
void write_columns(TableWriter& table, std::vector<Row>& rows, std::span<const Column<Row>> columns) {
  for (const auto& column : columns)
    std::visit(
        [&]<class T>(T& (*get)(Row&)) {
          std::vector<Stored<T>> values;
          for (Row& row : rows) {
            if constexpr (std::is_enum_v<T>)
              values.emplace_back(to_string(get(row)));
            else
              values.push_back(static_cast<Stored<T>>(get(row)));
          }
          if constexpr (std::is_same_v<Stored<T>, std::string>)
            table.text(column.name, column.description, values);
          else
            table.column(column.name, column.unit, column.description, values);
        },
        column.get);
}

/// Throws std::invalid_argument naming the dataset: another length, not finite, out of range, an unknown
/// word.
template <class T>
std::vector<T> read_column(const Hdf5Reader& file, const std::string& path, std::uint64_t first,
                           std::uint64_t count) {
  const auto refuse = [&](const std::string& why) { throw std::invalid_argument(path + " holds " + why); };
  std::vector<T> out;
  out.reserve(count);
  if constexpr (std::is_same_v<T, double>) {
    out.resize(count);
    file.read(path, first, std::span<double>(out));
    for (const double value : out)
      if (!std::isfinite(value)) refuse("a number that is not finite");
  } else if constexpr (std::is_same_v<Stored<T>, std::string>) {
    for (auto& text : file.texts(path, first, count)) {
      if constexpr (std::is_enum_v<T>) {
        const auto word = word_from(text, T{});
        if (!word) refuse("the unknown word '" + text + "'");
        out.push_back(*word);
      } else {
        out.push_back(std::move(text));
      }
    }
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    out.resize(count);
    file.read(path, first, std::span<std::uint64_t>(out));
  } else {
    std::vector<std::int64_t> values(count);
    file.read(path, first, std::span<std::int64_t>(values));
    for (const std::int64_t value : values) {
      if (value < static_cast<std::int64_t>(std::numeric_limits<T>::lowest()) ||
          static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)) >
              static_cast<std::uint64_t>(std::numeric_limits<T>::max()))
        refuse(fmt::format("{}, which is out of range", value));
      out.push_back(static_cast<T>(value));
    }
  }
  return out;
}

/// Rows first .. first + count - 1 of `group`.
template <class Row>
void read_columns(const Hdf5Reader& file, const std::string& group, std::uint64_t first,
                  std::span<const Column<Row>> columns, std::vector<Row>& rows) {
  for (const auto& column : columns)
    std::visit(
        [&]<class T>(T& (*get)(Row&)) {
          const auto values = read_column<T>(file, group + "/" + column.name, first, rows.size());
          for (std::size_t i = 0; i < rows.size(); ++i) get(rows[i]) = values[i];
        },
        column.get);
}

}  // namespace tessera::budgets
