// Strict reading of TOML tables: every key that is not asked for is an error that names the nearest known key;
// every message names file, line and key. Numbers may be integers or floats; NaN and infinity are refused.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "tessera/error.hpp"

namespace tessera {

/// Parses a file or text. Throws InputError (missing, unreadable, empty, binary, syntax with line and column).
toml::table parse_toml_file(const std::string& path);
toml::table parse_toml_text(std::string_view text, const std::string& name);

/// The candidate nearest to `word` by edit distance; empty if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// "did you mean 'x'?" or the list of candidates.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

class TomlReader {
 public:
  /// `file` is named in messages, `path` is the dotted prefix of the table ("" at the root). The table must
  /// outlive the reader.
  TomlReader(const toml::table& table, std::string file, std::string path = "");

  bool has(std::string_view key);
  double number(std::string_view key);
  double number(std::string_view key, double fallback);
  std::int64_t integer(std::string_view key);
  std::int64_t integer(std::string_view key, std::int64_t fallback);
  std::string text(std::string_view key);
  std::string text(std::string_view key, const std::string& fallback);
  bool flag(std::string_view key, bool fallback);
  /// A list, or a single value taken as a list of one.
  std::vector<double> numbers(std::string_view key);
  std::vector<std::int64_t> integers(std::string_view key);
  std::vector<std::string> texts(std::string_view key);
  /// A sub-table; throws if missing or not a table.
  TomlReader table(std::string_view key);
  bool is_table(std::string_view key);
  bool is_list(std::string_view key);
  bool is_text(std::string_view key);
  std::vector<TomlReader> tables(std::string_view key);  ///< array of tables; empty if missing
  std::vector<std::string> keys() const;
  const toml::table& raw() const { return *table_; }
  void accept(std::string_view key) { known_.insert(std::string(key)); }  ///< marks a key as known

  /// Throws InputError if the table has a key that was never asked for.
  void finish();
  [[noreturn]] void fail(std::string_view key, const std::string& problem, const std::string& why,
                         const std::string& remedy) const;
  /// Throws `inner` again with file, line and key before it.
  [[noreturn]] void fail(std::string_view key, const InputError& inner) const;

 private:
  const toml::node* find(std::string_view key);
  const toml::node& need(std::string_view key);
  double to_number(const toml::node&, std::string_view key) const;
  std::int64_t to_integer(const toml::node&, std::string_view key) const;
  std::string where(std::string_view key) const;
  const toml::table* table_;
  std::string file_, path_;
  std::set<std::string> known_;
};

/// "179 GiB", "80 GB", "5e9", "1.5 TiB" -> bytes. Throws InputError naming `where`.
double parse_bytes(const std::string& text, const std::string& where);

}  // namespace tessera
