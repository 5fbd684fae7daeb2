#include "io/csv_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "io/text_file.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

std::string trimmed(const std::string& s) {
  const auto a = s.find_first_not_of(" \t\r");
  if (a == std::string::npos) return "";
  return s.substr(a, s.find_last_not_of(" \t\r") - a + 1);
}

bool blank(const std::string& s) {
  std::string t = trimmed(s);
  std::transform(t.begin(), t.end(), t.begin(), [](unsigned char c) { return std::tolower(c); });
  return t.empty() || t == "nan" || t == "na" || t == "n/a" || t == "none" || t == "null" || t == "-";
}

std::optional<double> finite_number(const std::string& s) {
  const std::string t = trimmed(s);
  if (t.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(t.c_str(), &end);
  const bool hexadecimal = t.find_first_of("xX") != std::string::npos;  // strtod reads it, no table means it
  if (hexadecimal || end != t.c_str() + t.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

struct Record {
  std::vector<std::string> fields;
  std::size_t line = 1;
};

std::vector<Record> records_of(const std::string& text, const std::string& name) {
  std::vector<Record> out;
  Record record;
  std::string field;
  bool quoted = false, any = false;
  std::size_t line = 1, quote_line = 1;
  record.line = 1;
  auto end_record = [&] {
    if (any || !field.empty() || !record.fields.empty()) {
      record.fields.push_back(field);
      out.push_back(record);
    }
    record = {};
    record.line = line + 1;
    field.clear();
    any = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char end_of_line = text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n') ? '\n' : text[i];  // CR alone
    const char c = quoted ? text[i] : end_of_line;
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') field += text[++i];
      else if (c == '"') quoted = false;
      else field += c;
      if (c == '\n') ++line;
      continue;
    }
    if (c == '"' && field.empty()) {
      quoted = any = true;
      quote_line = line;
    } else if (c == ',') {
      record.fields.push_back(field);
      field.clear();
      any = true;
    } else if (c == '\n') {
      end_record();
      ++line;
    } else if (c != '\r') {
      field += c;
    }
  }
  if (quoted) throw InputError(fmt::format("{}:{}: open quote", name, quote_line), "the field that begins here has no end", "close the quote.");
  end_record();
  return out;
}

const std::string kNothing;

}  // namespace

CsvTable CsvTable::read(const std::string& path) { return parse(read_text_file(path, "a CSV table"), path); }

CsvTable CsvTable::parse(const std::string& text, const std::string& name) {
  CsvTable t;
  auto records = records_of(text, name);
  if (records.empty()) throw InputError(name + " is empty", "a header line with column names is needed", "add it.");
  for (const auto& field : records.front().fields) {
    std::string column = trimmed(field);
    if (t.columns_.empty() && column.starts_with("\xEF\xBB\xBF")) column.erase(0, 3);
    if (!t.index_.emplace(column, t.columns_.size()).second)
      throw InputError(fmt::format("{}:1: column '{}' is there twice", name, column), "a cell must have one meaning", "rename or drop one.");
    t.columns_.push_back(column);
  }
  for (std::size_t i = 1; i < records.size(); ++i) {
    t.rows_.push_back(std::move(records[i].fields));
    t.lines_.push_back(records[i].line);
  }
  return t;
}

const std::string& CsvTable::text(std::size_t row, const std::string& column) const {
  const auto at = index_.find(column);
  if (at == index_.end() || at->second >= rows_[row].size()) return kNothing;
  return rows_[row][at->second];
}

std::optional<double> CsvTable::number(std::size_t row, const std::string& column) const { return finite_number(text(row, column)); }

bool CsvTable::nonsense(std::size_t row, const std::string& column) const {
  const std::string& cell = text(row, column);
  return !blank(cell) && !finite_number(cell);
}

void CsvTable::require(std::initializer_list<const char*> columns, const std::string& name, const std::string& why) const {
  for (const char* column : columns)
    if (!has(column))
      throw InputError(fmt::format("{}: column '{}' is missing; the first of {} is '{:.40}'", name, column, columns_.size(), columns_.front()), why,
                       "name it in the first line, separated by commas (docs/accuracy.md has the columns).");
}

std::string csv_field(const std::string& s) {
  if (s.find_first_of(",\"\n\r") == std::string::npos) return s;
  std::string out = "\"";
  for (char c : s) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace tessera
