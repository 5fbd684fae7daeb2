#include "io/architecture_fields.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <type_traits>

#include "tessera/error.hpp"

namespace tessera {
namespace {

template <class Enum>
std::optional<Enum> enum_from(std::string_view text, std::initializer_list<Enum> values) {
  for (const Enum value : values)
    if (to_string(value) == text) return value;
  return std::nullopt;
}

std::optional<AttentionKind> from_text(std::string_view text, AttentionKind) {
  return enum_from(text, {AttentionKind::gqa, AttentionKind::mla});
}
std::optional<NormKind> from_text(std::string_view text, NormKind) { return enum_from(text, {NormKind::rms, NormKind::layer}); }
std::optional<QkNorm> from_text(std::string_view text, QkNorm) {
  return enum_from(text, {QkNorm::none, QkNorm::per_head, QkNorm::full_width});
}

template <class Enum>
Enum need_enum(const std::string& text, const std::string& where) {
  const auto value = from_text(text, Enum{});
  if (value) return *value;
  std::string known;
  for (int i = 0; i < 3; ++i) {
    const auto word = to_string(static_cast<Enum>(i));
    if (from_text(word, Enum{}) == static_cast<Enum>(i)) known += (known.empty() ? "" : ", ") + std::string(word);
  }
  throw InputError(where + ": '" + text + "' is not known", "one of " + known + " is needed", "write one of them.");
}

}  // namespace

const std::vector<ArchitectureField>& architecture_fields() {
  using A = Architecture;
  static const std::vector<ArchitectureField> all = {
      {"layers", "layers", &A::layers},
      {"hidden", "elements", &A::hidden},
      {"heads", "heads", &A::heads},
      {"kv_heads", "heads", &A::kv_heads},
      {"head_dim", "elements", &A::head_dim},
      {"attention", "", &A::attention},
      {"q_lora", "elements", &A::q_lora},
      {"kv_lora", "elements", &A::kv_lora},
      {"qk_nope", "elements", &A::qk_nope},
      {"qk_rope", "elements", &A::qk_rope},
      {"v_head", "elements", &A::v_head},
      {"dense_ffn", "elements", &A::dense_ffn},
      {"gated", "", &A::gated},
      {"experts", "experts", &A::experts},
      {"top_k", "experts per token", &A::top_k},
      {"expert_ffn", "elements", &A::expert_ffn},
      {"shared_ffn", "elements", &A::shared_ffn},
      {"dense_layers", "layers", &A::dense_layers},
      {"moe_every", "layers", &A::moe_every},
      {"vocabulary", "tokens", &A::vocabulary},
      {"tied", "", &A::tied},
      {"learned_positions", "tokens", &A::learned_positions},
      {"mtp_layers", "layers", &A::mtp_layers},
      {"window", "tokens", &A::window},
      {"window_share", "fraction of layers", &A::window_share},
      {"linear_attention_layers", "layers", &A::linear_attention_layers},
      {"pattern", "", &A::pattern},
      {"mamba_layers", "layers", &A::mamba_layers},
      {"mamba_heads", "heads", &A::mamba_heads},
      {"mamba_head_dim", "elements", &A::mamba_head_dim},
      {"mamba_state", "elements", &A::mamba_state},
      {"mamba_groups", "groups", &A::mamba_groups},
      {"mamba_conv", "tokens", &A::mamba_conv},
      {"norm", "", &A::norm},
      {"norms_per_layer", "norms", &A::norms_per_layer},
      {"qk_norm", "", &A::qk_norm},
      {"qkv_bias", "", &A::qkv_bias},
      {"out_bias", "", &A::out_bias},
      {"ffn_bias", "", &A::ffn_bias},
      {"router_bias", "", &A::router_bias},
      {"head_bias", "", &A::head_bias},
      {"shared_gate", "", &A::shared_gate},
      {"attention_sinks", "", &A::attention_sinks},
      {"shared_kv_every", "layers", &A::shared_kv_every},
      {"extra_parameters", "parameters", &A::extra_parameters},
      {"unfused_activation", "fraction", &A::unfused_activation},
      {"rung", "", &A::rung},
      {"split", "ratio", &A::split},
      {"left_out", "", &A::left_out},
      {"source", "", &A::source},
  };
  return all;
}

const ArchitectureField* architecture_field(std::string_view key) {
  for (const auto& field : architecture_fields())
    if (field.key == key) return &field;
  return nullptr;
}

std::int64_t parse_whole(const std::string& text, const std::string& where) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc::result_out_of_range && (error != std::errc{} || end != text.data() + text.size()))
    throw InputError(where + ": '" + text + "' is not a whole number", "a count or width is needed", "write digits only, e.g. 4096.");
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // of what readers multiply before an architecture is checked
  if (error == std::errc::result_out_of_range || value > kMost || value < -kMost)
    throw InputError(where + ": " + text + " is too large", "no count or width of a model is above 2^40", "give a smaller number.");
  return value;
}

double parse_real(const std::string& text, const std::string& where) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    throw InputError(where + ": '" + text + "' is not a finite number", "a number is needed", "write a plain number, e.g. 2.5.");
  return value;
}

bool parse_flag(const std::string& text, const std::string& where) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw InputError(where + ": '" + text + "' is neither true nor false", "a switch is needed", "write true or false.");
}

void set_field(Architecture& a, const ArchitectureField& field, const std::string& text, const std::string& where) {
  std::visit(
      [&](auto member) {
        auto& value = a.*member;
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::int64_t>) value = parse_whole(text, where);
        else if constexpr (std::is_same_v<T, double>) value = parse_real(text, where);
        else if constexpr (std::is_same_v<T, bool>) value = parse_flag(text, where);
        else if constexpr (std::is_same_v<T, std::string>) value = text;
        else value = need_enum<T>(text, where);
      },
      field.member);
}

bool read_field(Architecture& a, const ArchitectureField& field, TomlReader& reader) {
  if (!reader.has(field.key)) return false;
  std::visit(
      [&](auto member) {
        auto& value = a.*member;
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::int64_t>) value = reader.integer(field.key);
        else if constexpr (std::is_same_v<T, double>) value = reader.number(field.key);
        else if constexpr (std::is_same_v<T, bool>) value = reader.flag(field.key, false);
        else if constexpr (std::is_same_v<T, std::string>) value = reader.text(field.key);
        else value = need_enum<T>(reader.text(field.key), std::string(field.key));
      },
      field.member);
  return true;
}

nlohmann::ordered_json architecture_json(const Architecture& a) {
  nlohmann::ordered_json out;
  out["name"] = a.name;
  for (const auto& field : architecture_fields())
    std::visit(
        [&](auto member) {
          const auto& value = a.*member;
          const std::string key = field.key == "rung" ? "q" : std::string(field.key);
          if constexpr (std::is_enum_v<std::decay_t<decltype(value)>>) out[key] = std::string(to_string(value));
          else out[key] = value;
        },
        field.member);
  return out;
}

nlohmann::ordered_json count_json(const ParameterCount& count) {
  nlohmann::ordered_json out;
  out["non_embedding"] = {{"total", count.non_embedding_total}, {"active", count.non_embedding_active}, {"sparsity", count.sparsity()}};
  out["all"] = {{"total", count.all_total},
                {"active", count.all_active},
                {"active_without_input_embedding", count.all_active_without_input_embedding},
                {"active_without_embedding_and_head", count.all_active_without_embedding_and_head}};
  return out;
}

}  // namespace tessera
