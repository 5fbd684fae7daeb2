#include "io/trust.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/preset_reader.hpp"

namespace tessera {
Envelope read_envelope() {
  const std::string name = "preset validation/envelope";
  const toml::table table = parse_toml_text(Presets().text("validation", "envelope"), name);
  TomlReader r(table, name);
  r.accept("title");
  r.accept("source");
  auto value = [&](const char* key, const char* unit) { return read_constant(r, key, unit).value; };
  Envelope e{value("devices", "1"), value("expert_ranks", "1"), value("sequence", "tokens"), value("stages", "1"),
             value("moe_factor", "1"), value("outside_factor", "1"), value("largest_error", "1"), r.texts("schedules")};
  r.finish();
  return e;
}

Trust trust_in(const Architecture& a, const Cluster& c, const Plan& p, std::int64_t sequence) {
  return trust_in(read_envelope(), a, c, p, sequence);
}

Trust trust_in(const Envelope& e, const Architecture& a, const Cluster& c, const Plan& p, std::int64_t sequence) {
  Trust t;
  t.expected_error = std::max(c.device.time_error, c.stack.time_error) * (a.is_moe() ? e.moe_factor : 1);
  auto beyond = [&](double value, double limit, const char* what) {
    if (value > limit) t.outside.push_back(fmt::format("{} {:.0f}, validated up to {:.0f}", what, value, limit));
  };
  beyond(double(p.devices()), e.devices, "devices");
  beyond(double(p.ep), e.expert_ranks, "ep");
  beyond(double(sequence), e.sequence, "sequence");
  beyond(double(p.pp), e.stages, "pp");
  if (p.pp > 1 && std::find(e.schedules.begin(), e.schedules.end(), to_string(p.schedule)) == e.schedules.end())
    t.outside.push_back(fmt::format("no measured run has the schedule {}", to_string(p.schedule)));
  if (a.linear_attention_layers > 0) t.outside.push_back("no measured run has linear-attention layers");
  if (!t.outside.empty()) t.expected_error *= e.outside_factor;
  t.expected_error = std::min(t.expected_error, e.largest_error);
  return t;
}

}  // namespace tessera
