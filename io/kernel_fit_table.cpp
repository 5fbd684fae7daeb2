#include "io/kernel_fit_table.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "tessera/error.hpp"

namespace tessera {
namespace {

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

/// The rank-th of sorted values, q in [0, 1], interpolated.
double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const std::size_t below = static_cast<std::size_t>(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/') + 1); }

ErrorClass error_class(const std::string& label, std::vector<double> errors) {
  ErrorClass out;
  out.label = label;
  out.cells = errors.size();
  if (errors.empty()) return out;
  for (double& e : errors) {
    out.bias_pct += 100 * e / static_cast<double>(errors.size());
    e = 100 * std::abs(e);
  }
  std::sort(errors.begin(), errors.end());
  out.median_abs_pct = quantile(errors, 0.5);
  out.p90_abs_pct = quantile(errors, 0.9);
  return out;
}

TimingRows::TimingRows(const CsvTable& table, std::string file, const std::string& device, const std::vector<std::string>& needed)
    : table_(&table), file_(std::move(file)) {
  for (const auto& column : needed)
    if (!table.has(column))
      throw InputError(fmt::format("{}: column '{}' is missing", file_, column), "it is part of a cell of this table", "see docs/calibration.md for the columns of each table.");
  const std::string column = table.has("device") ? "device" : "GPU_MODEL";
  std::set<std::string> devices;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    if (table.has("status") && lower(table.text(i, "status")) != "ok") continue;
    if (table.has(column)) {
      devices.insert(table.text(i, column));
      if (lower(table.text(i, column)) != lower(device)) continue;
    }
    rows_.push_back(i);
  }
  if (!rows_.empty()) return;
  if (devices.empty()) throw InputError(file_ + ": no rows", "a fit needs cells with status OK", "give another table.");
  std::string names;
  for (const auto& name : devices) names += (names.empty() ? "" : ", ") + name;
  throw InputError(fmt::format("{}: no row of device '{}'", file_, device), "it has " + names, "name the rows to take with --rows.");
}

double TimingRows::number(std::size_t i, const std::string& column) const {
  const auto value = table_->number(rows_[i], column);
  if (!value || !(*value > 0))
    throw InputError(fmt::format("{}:{}: {} is '{}'", file_, table_->line(rows_[i]), column, text(i, column)), "a positive number is needed", "correct the cell or drop the row.");
  return *value;
}

double TimingRows::number_or_zero(std::size_t i, const std::string& column) const {
  const std::string& cell = text(i, column);
  const auto value = table_->number(rows_[i], column);
  if (value && *value == 0) return 0;
  return cell.find_first_not_of(" \t") == std::string::npos ? 0 : number(i, column);
}

TableFit fit_cells(const std::string& what, const std::string& file, FitForm form, Cells& cells, const CellSeconds& seconds) {
  if (cells.measured.size() < form.terms.size())
    throw InputError(fmt::format("{}: {} cells for {}", file, cells.measured.size(), what), fmt::format("its form has {} terms", form.terms.size()), "give more rows.");
  TableFit fit;
  fit.what = what;
  fit.file = base_name(file);
  cells.predicted = solve_terms(form, seconds, cells.measured, cells.weight, cells.family);
  fit.form = std::move(form);
  add_class(fit, cells, "all cells", [](std::size_t) { return true; });
  for (const FitTerm& t : fit.form.terms)
    if (t.at_bound) fit.notes.push_back(fmt::format("{} stopped at its bound: the table does not resolve it", t.key));
  return fit;
}

std::string source_of(const TableFit& fit) {
  const ErrorClass& all = fit.errors.front();
  return fmt::format("{}, {}: {} cells, median {:.1f} %, p90 {:.1f} %", fit.file, fit.what, all.cells, all.median_abs_pct, all.p90_abs_pct);
}

FittedConstant constant_of(const TableFit& fit, const FitTerm& t, const std::string& kind, const std::string& preset, const std::string& key,
                           const std::string& unit, double factor, const std::string& why) {
  FittedConstant c;
  c.kind = kind;
  c.preset = preset;
  c.key = key;
  c.unit = unit;
  c.source = source_of(fit);
  c.value = factor * t.value;
  c.low = factor * t.interval_low;
  c.high = factor * t.interval_high;
  c.prior_centre = factor * t.prior_centre;
  c.prior_width = t.prior_width;
  c.why = why;
  return c;
}

}  // namespace tessera
