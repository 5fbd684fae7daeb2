// What the fits of timing tables share: reading cells with good errors, and summing up a fit.
#pragma once
#include <string>
#include <vector>

#include "io/kernel_fit.hpp"

namespace tessera {

/// Base name of a path.
std::string base_name(const std::string& path);

/// Rows of a table that are of the wanted device and ran (`status` OK where there is such a column), with checked numbers.
class TimingRows {
 public:
  /// Throws InputError where a column is missing or no row is left. `device_columns` are tried in turn; a table without any is
  /// taken as a whole.
  TimingRows(const CsvTable&, std::string file, const std::string& device, const std::vector<std::string>& needed);

  std::size_t size() const { return rows_.size(); }
  /// Positive number of a cell. Throws InputError with the line.
  double number(std::size_t i, const std::string& column) const;
  /// The same, 0 where blank.
  double number_or_zero(std::size_t i, const std::string& column) const;
  const std::string& text(std::size_t i, const std::string& column) const { return table_->text(rows_[i], column); }
  bool has(const std::string& column) const { return table_->has(column); }
  const std::string& file() const { return file_; }

 private:
  const CsvTable* table_;
  std::string file_;
  std::vector<std::size_t> rows_;
};

/// Cells of a fit: measured seconds and family (see solve_terms), and the prediction once fitted.
struct Cells {
  std::vector<double> measured, predicted, weight;
  std::vector<std::uint64_t> family;
  void add(double seconds, std::uint64_t family_of_cell, double weight_of_cell = 1) {
    measured.push_back(seconds);
    weight.push_back(weight_of_cell);
    family.push_back(family_of_cell);
  }
  double error(std::size_t i) const { return predicted[i] / measured[i] - 1; }
};

/// Fits a form and sums up all cells as the first error class. Throws InputError where there are fewer cells than terms.
TableFit fit_cells(const std::string& what, const std::string& file, FitForm, Cells&, const CellSeconds&);

/// Errors of the cells that `wanted` accepts, added to a fit where there are any.
template <class Wanted>
void add_class(TableFit& fit, const Cells& cells, const std::string& label, Wanted&& wanted) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < cells.measured.size(); ++i)
    if (wanted(i)) errors.push_back(cells.error(i));
  if (!errors.empty()) fit.errors.push_back(error_class(label, std::move(errors)));
}

/// "file.csv, N cells, median 4.0 %, p90 15 %": the source of a constant.
std::string source_of(const TableFit&);

/// A constant that is `factor` times a term.
FittedConstant constant_of(const TableFit&, const FitTerm&, const std::string& kind, const std::string& preset, const std::string& key,
                           const std::string& unit, double factor, const std::string& why);

}  // namespace tessera
