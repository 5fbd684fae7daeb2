// A CSV table with a header line (RFC 4180: quoted fields may hold commas, quotes and line breaks).
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tessera {

class CsvTable {
 public:
  /// Reads a file. Throws InputError where it is missing, empty, binary, has no header, a repeated column or an open quote.
  static CsvTable read(const std::string& path);
  static CsvTable parse(const std::string& text, const std::string& name);

  std::size_t rows() const { return rows_.size(); }
  bool has(const std::string& column) const { return index_.count(column) > 0; }
  const std::vector<std::string>& columns() const { return columns_; }
  /// The cell, or "" where the column or cell is missing.
  const std::string& text(std::size_t row, const std::string& column) const;
  /// The finite number of a cell; nothing where it is blank, missing, "nan" or not a number.
  std::optional<double> number(std::size_t row, const std::string& column) const;
  /// True where the cell has text that is not a finite number (and not blank or "nan").
  bool nonsense(std::size_t row, const std::string& column) const;
  /// Throws InputError that names the first of `columns` that is missing.
  void require(std::initializer_list<const char*> columns, const std::string& name, const std::string& why) const;
  std::size_t line(std::size_t row) const { return lines_[row]; }  ///< 1-based line of the file

 private:
  std::vector<std::string> columns_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> lines_;
};

/// Quotes a field where it needs it.
std::string csv_field(const std::string&);

}  // namespace tessera
