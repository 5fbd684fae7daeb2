#include "io/serving_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/architecture_fields.hpp"
#include "io/preset_reader.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMostContext = 1'000'000'000;  // tokens; with kMostBatch far within 2^63
constexpr std::int64_t kMostBatch = 1'000'000'000;
constexpr double kMostElementBytes = 16;  // a complex number of double precision
const std::vector<std::string> kFormats{"bf16", "fp8", "mxfp8", "nvfp4"};
const std::string kFile = "preset serving/formats";

/// Keys of the preset: bytes of each format, and the formats that are taken where none is stated.
struct Formats {
  std::vector<double> bytes;
  std::string weights, cache, states;

  Formats() {
    const toml::table table = parse_toml_text(serving_formats_text(), kFile);
    TomlReader reader(table, kFile);
    reader.accept("source");
    for (const auto& format : kFormats) bytes.push_back(reader.number(format));
    weights = reader.text("weights");
    cache = reader.text("cache");
    states = reader.text("states");
    reader.finish();
  }
  double operator[](const std::string& format) const {
    return bytes.at(
        static_cast<std::size_t>(std::find(kFormats.begin(), kFormats.end(), format) - kFormats.begin()));
  }
};

ServingLoad default_load() {
  const Formats formats;
  ServingLoad load;
  load.weight_bytes = formats[formats.weights];
  load.cache_bytes = formats[formats.cache];
  load.state_bytes = formats[formats.states];
  return load;
}

double checked_bytes(double bytes, const std::string& where) {
  if (!(bytes > 0) || bytes > kMostElementBytes)
    throw InputError(fmt::format("{} {:g}", where, bytes),
                     fmt::format("an element has more than 0 and at most {:g} bytes", kMostElementBytes),
                     "give bytes, or a format, for example fp8.");
  return bytes;
}

double element_bytes(TomlReader& reader, const char* key) {
  try {
    return reader.is_text(key) ? read_element_bytes(reader.text(key), key)
                               : checked_bytes(reader.number(key), key);
  } catch (const InputError& error) {
    reader.fail(key, error);
  }
}

std::optional<double> positive_limit(TomlReader& reader, const char* key) {
  if (!reader.has(key)) return std::nullopt;
  const double value = reader.number(key);
  if (value <= 0)
    reader.fail(key, fmt::format("{:g} is out of range", value), "a limit is positive",
                "give for example 1e12.");
  return value;
}

std::optional<double> memory_limit(TomlReader& reader, const char* key) {
  if (!reader.has(key) || !reader.is_text(key)) return positive_limit(reader, key);
  try {
    return parse_bytes(reader.text(key), key);
  } catch (const InputError& error) {
    reader.fail(key, error);
  }
}

std::int64_t counted(TomlReader& reader, const char* key, std::int64_t most, std::int64_t fallback) {
  const std::int64_t value = reader.integer(key, fallback);
  if (reader.has(key) && (value < 1 || value > most))
    reader.fail(key, fmt::format("{} is out of range", value),
                fmt::format("a whole number from 1 to {} is needed", most), "correct it.");
  return value;
}

std::int64_t counted(const std::string& text, const char* option, std::int64_t most) {
  const std::int64_t value = parse_whole(text, option);
  if (value < 1 || value > most)
    throw InputError(fmt::format("{} {}", option, value),
                     fmt::format("a whole number from 1 to {} is needed", most), "correct it.");
  return value;
}

std::optional<double> limit_of(const std::string& text, const char* option,
                               double (*read)(const std::string&, const std::string&)) {
  if (text == "none") return std::nullopt;
  const double value = read(text, option);
  if (!(value > 0) || !std::isfinite(value))
    throw InputError(fmt::format("{} {}", option, text), "a limit is a positive, finite number",
                     "correct it, or write none.");
  return value;
}

}  // namespace

std::string_view serving_formats_text() {
  static const std::string text = Presets().text("serving", "formats");
  return text;
}

double read_element_bytes(const std::string& text, const std::string& where) {
  if (std::find(kFormats.begin(), kFormats.end(), text) != kFormats.end()) return Formats()[text];
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != std::string::npos)
    throw InputError(fmt::format("{} '{}'", where, text), "it is no format and no number of bytes",
                     suggestion(text, kFormats));
  return checked_bytes(parse_real(text, where), where);
}

ServingLimits read_serving(TomlReader reader) {
  for (const char* key : {"max_total_parameters", "max_active_parameters", "max_memory", "weights", "cache",
                          "context", "batch"})
    reader.accept(key);
  reader.finish();
  ServingLimits out;
  out.most_total = positive_limit(reader, "max_total_parameters");
  out.most_active = positive_limit(reader, "max_active_parameters");
  out.most_memory = memory_limit(reader, "max_memory");
  for (const char* key : {"cache", "batch"})
    if (reader.has(key) && !reader.has("context"))
      reader.fail(key, "no context", "caches are those of sequences of a length",
                  "add for example context = 32768, or leave it out.");
  if (!out.most_memory && !reader.has("weights") && !reader.has("context")) return out;
  out.load = default_load();
  if (reader.has("weights")) out.load.weight_bytes = element_bytes(reader, "weights");
  if (reader.has("cache")) out.load.cache_bytes = element_bytes(reader, "cache");
  out.load.context = counted(reader, "context", kMostContext, 0);
  out.load.batch = counted(reader, "batch", kMostBatch, 1);
  return out;
}

ServingLimits change_serving(ServingLimits out, const ServingOptions& o) {
  if (!o.most_total.empty()) out.most_total = limit_of(o.most_total, "--max-total", parse_real);
  if (!o.most_active.empty()) out.most_active = limit_of(o.most_active, "--max-active", parse_real);
  if (!o.most_memory.empty()) out.most_memory = limit_of(o.most_memory, "--max-serving-memory", parse_bytes);
  const bool load = !o.weights.empty() || !o.cache.empty() || !o.context.empty() || !o.batch.empty();
  if ((out.most_memory || load) && !out.load.stated()) out.load = default_load();
  if (!o.weights.empty()) out.load.weight_bytes = read_element_bytes(o.weights, "--serving-weights");
  if (!o.cache.empty()) out.load.cache_bytes = read_element_bytes(o.cache, "--serving-cache");
  if (!o.context.empty()) out.load.context = counted(o.context, "--serving-context", kMostContext);
  if (!o.batch.empty()) out.load.batch = counted(o.batch, "--serving-batch", kMostBatch);
  for (const auto& [option, text] : {std::pair{"--serving-cache", &o.cache}, {"--serving-batch", &o.batch}})
    if (!text->empty() && out.load.context == 0)
      throw InputError(fmt::format("{} {}", option, *text), "caches are those of sequences of a length",
                       "add for example --serving-context 32768.");
  return out;
}

}  // namespace tessera
