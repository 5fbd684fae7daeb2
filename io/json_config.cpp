#include "io/json_config.hpp"

#include <limits>

#include "tessera/error.hpp"

namespace tessera {

std::string JsonConfig::where(const std::string& key) const { return file_ + ": " + (path_.empty() ? key : path_ + "." + key); }

void JsonConfig::wrong_type(const char* name, const std::string& needed) const {
  throw InputError(where(name) + ": wrong type", needed + " is needed", "mend that key.");
}

const nlohmann::json* JsonConfig::find(Names names) const {
  for (const char* name : names)
    if (const auto it = root_->find(name); it != root_->end() && !it->is_null()) return &*it;
  return nullptr;
}

std::int64_t JsonConfig::whole(const nlohmann::json& value, const char* name) const {
  if (!value.is_number_integer()) wrong_type(name, "a whole number");
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw InputError(where(name) + ": too large", "it does not fit in 64 bits", "give a smaller number.");
  return value.get<std::int64_t>();
}

std::int64_t JsonConfig::integer(Names names) const {
  if (const auto* value = find(names)) return whole(*value, *names.begin());
  std::string others;
  for (const char* name : names)
    if (name != *names.begin()) others += (others.empty() ? "" : ", ") + std::string(name);
  throw InputError(where(*names.begin()) + ": missing key", "the geometry needs it and it has no default",
                   "add it" + (others.empty() ? "." : " (also known as " + others + ")."));
}

std::int64_t JsonConfig::integer(Names names, std::int64_t fallback) const {
  const auto* value = find(names);
  return value ? whole(*value, *names.begin()) : fallback;
}

bool JsonConfig::flag(Names names, bool fallback) const {
  const auto* value = find(names);
  if (!value) return fallback;
  if (!value->is_boolean()) wrong_type(*names.begin(), "true or false");
  return value->get<bool>();
}

std::string JsonConfig::text(Names names, const std::string& fallback) const {
  const auto* value = find(names);
  if (!value) return fallback;
  if (!value->is_string()) wrong_type(*names.begin(), "a string");
  return value->get<std::string>();
}

std::vector<std::int64_t> JsonConfig::integers(Names names) const {
  const auto* value = find(names);
  if (!value) return {};
  if (!value->is_array()) return {whole(*value, *names.begin())};
  std::vector<std::int64_t> out;
  for (const auto& item : *value) out.push_back(whole(item, *names.begin()));
  return out;
}

std::vector<std::string> JsonConfig::texts(Names names) const {
  const auto* value = find(names);
  if (!value) return {};
  if (!value->is_array()) wrong_type(*names.begin(), "a list of strings");
  std::vector<std::string> out;
  for (const auto& item : *value) {
    if (!item.is_string()) wrong_type(*names.begin(), "a list of strings");
    out.push_back(item.get<std::string>());
  }
  return out;
}

JsonConfig JsonConfig::object(const char* name) const {
  const auto* value = find({name});
  if (!value || !value->is_object()) wrong_type(name, "an object");
  return JsonConfig(*value, file_, path_.empty() ? name : path_ + "." + name);
}

}  // namespace tessera
