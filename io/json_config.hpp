// Strict reading of a foreign JSON object whose keys go by several names; messages name file and key.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tessera {

class JsonConfig {
 public:
  using Names = std::initializer_list<const char*>;  ///< names of the same thing, the usual one first

  /// `root` must be an object and outlive this; `file` and the dotted `path` are named in messages.
  JsonConfig(const nlohmann::json& root, std::string file, std::string path = "")
      : root_(&root), file_(std::move(file)), path_(std::move(path)) {}

  const nlohmann::json* find(Names) const;  ///< nullptr where missing or null
  bool has(Names names) const { return find(names) != nullptr; }
  std::int64_t integer(Names) const;        ///< throws InputError where missing, or no whole number of 64 bits
  std::int64_t integer(Names, std::int64_t fallback) const;
  bool flag(Names, bool fallback) const;
  std::string text(Names, const std::string& fallback) const;
  /// A list of whole numbers (a single one is a list of one); empty where missing.
  std::vector<std::int64_t> integers(Names) const;
  std::vector<std::string> texts(Names) const;  ///< empty where missing
  JsonConfig object(const char* name) const;     ///< a sub-object; throws InputError where missing or another type
  std::string where(const std::string& key) const;

 private:
  std::int64_t whole(const nlohmann::json&, const char* name) const;
  [[noreturn]] void wrong_type(const char* name, const std::string& needed) const;
  const nlohmann::json* root_;
  std::string file_, path_;
};

}  // namespace tessera
