// tessera loss: the loss a law predicts for one point, its terms, how sure it is and where it leaves the law's runs.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/architecture_reader.hpp"
#include "io/law_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/uncertainty.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string law = "mosaic", architecture, ensemble;
  std::optional<double> total, active, sparsity, tokens, split, experts, active_experts, activation, granularity, flops;
  std::size_t members = 512;
  std::uint64_t seed = 1;
};

struct Spread {
  std::size_t members = 0;
  double sd = 0, low = 0, high = 0;  ///< [nats], 5 and 95 %
};

/// Name of the option that gives an axis.
std::string_view option_of(LawAxis axis) {
  switch (axis) {
    case LawAxis::total: return "--total-params";
    case LawAxis::active: return "--active-params";
    case LawAxis::sparsity: return "--sparsity";
    case LawAxis::tokens: return "--tokens";
    case LawAxis::split: return "--split";
    case LawAxis::experts: return "--experts";
    case LawAxis::active_experts: return "--active-experts";
    default: return "";
  }
}

std::optional<double> given(const Options& o, LawAxis axis) {
  switch (axis) {
    case LawAxis::total: return o.total;
    case LawAxis::active: return o.active;
    case LawAxis::sparsity: return o.sparsity;
    case LawAxis::tokens: return o.tokens;
    case LawAxis::split: return o.split;
    case LawAxis::experts: return o.experts;
    case LawAxis::active_experts: return o.active_experts;
    default: return std::nullopt;
  }
}

/// Axes the formula needs from the user, with N as total or active by the law's convention.
std::vector<LawAxis> needed_axes(const Law& law) {
  std::vector<LawAxis> out(form_info(law.form).axes.begin(), form_info(law.form).axes.end());
  if (law.convention.size == SizeKind::active && law.form != LawForm::zhao) std::replace(out.begin(), out.end(), LawAxis::total, LawAxis::active);
  return out;
}

void refuse_unused(const Options& o, const Law& law) {
  auto used = needed_axes(law);
  for (const auto& range : law.ranges) used.push_back(range.axis);
  const bool derived = law.convention.sparsity == SparsityKind::parameters && std::find(used.begin(), used.end(), LawAxis::sparsity) != used.end();
  for (int i = 0; i < static_cast<int>(LawAxis::count_); ++i) {
    const auto axis = static_cast<LawAxis>(i);
    if (!given(o, axis) || std::find(used.begin(), used.end(), axis) != used.end()) continue;
    if (derived && (axis == LawAxis::total || axis == LawAxis::active)) continue;
    throw InputError(fmt::format("{} has no effect on law '{}'", option_of(axis), law.name), fmt::format("its formula is {}", form_info(law.form).expression), "leave it out.");
  }
  const bool leverage = law.form == LawForm::efficiency_leverage;
  for (const auto& [name, value] : {std::pair{"--activation", o.activation}, {"--granularity", o.granularity}, {"--flops", o.flops}})
    if (value.has_value() != leverage)
      throw InputError(fmt::format("{} is {} with law '{}'", name, leverage ? "missing" : "of no use", law.name), fmt::format("its formula is {}", form_info(law.form).expression),
                       leverage ? "give it." : "leave it out.");
}

void check_positive(const Options& o) {
  for (int i = 0; i < static_cast<int>(LawAxis::count_); ++i) {
    const auto axis = static_cast<LawAxis>(i);
    const auto value = given(o, axis);
    const bool valid = !value || (axis == LawAxis::sparsity ? *value >= 0 && *value < 1 : *value > 0 && std::isfinite(*value));
    if (!valid)
      throw InputError(fmt::format("{} {:g}", option_of(axis), *value), axis == LawAxis::sparsity ? "0 <= sparsity < 1 is needed" : "a positive finite number is needed", "correct it.");
  }
  for (const auto& [name, value] : {std::pair{"--activation", o.activation}, {"--granularity", o.granularity}, {"--flops", o.flops}})
    if (value && !(*value > 0 && std::isfinite(*value))) throw InputError(fmt::format("{} {:g}", name, *value), "a positive finite number is needed", "correct it.");
}

/// Total, active and sparsity by parameters: any two give the third; three must agree.
void derive_sizes(LawPoint& p, const Options& o) {
  if (o.total && o.active && *o.active > *o.total) throw InputError("--active-params exceeds --total-params", "active parameters are part of the total", "correct one.");
  if (o.total && o.active && o.sparsity && std::abs(1 - *o.active / *o.total - *o.sparsity) > 5e-4)
    throw InputError(fmt::format("--sparsity {:g} contradicts --active-params", *o.sparsity), fmt::format("1 - active/total is {:.6g}", 1 - *o.active / *o.total), "give two of the three.");
  if (o.total && o.active && !o.sparsity) p.sparsity = 1 - p.active / p.total;
  if (o.total && !o.active && o.sparsity) p.active = (1 - p.sparsity) * p.total;
  if (!o.total && o.active && o.sparsity) p.total = p.active / (1 - p.sparsity);
}

LawPoint point_of(const Options& o, const Law& law) {
  check_positive(o);
  refuse_unused(o, law);
  LawPoint p;
  p.total = o.total.value_or(0);
  p.active = o.active.value_or(0);
  p.sparsity = o.sparsity.value_or(0);
  p.tokens = o.tokens.value_or(law.fixed_tokens);
  p.split = o.split.value_or(0);
  p.experts = o.experts.value_or(0);
  p.active_experts = o.active_experts.value_or(0);
  p.activation = o.activation.value_or(1);
  p.width_ratio = o.granularity.value_or(1);
  const bool by_parameters = law.convention.sparsity == SparsityKind::parameters;
  if (by_parameters) derive_sizes(p, o);
  for (const LawAxis axis : needed_axes(law)) {
    const bool known = axis == LawAxis::sparsity ? o.sparsity || (by_parameters && o.total && o.active)
                       : axis == LawAxis::total  ? p.total > 0
                       : axis == LawAxis::active ? p.active > 0
                                                 : given(o, axis).has_value();
    if (!known)
      throw InputError(fmt::format("{} is missing", option_of(axis)), fmt::format("law '{}' is {}", law.name, form_info(law.form).expression), "give it, or an architecture with -a.");
  }
  return p;
}

LawPoint architecture_point(const Options& o, const Law& law) {
  for (int i = 0; i < static_cast<int>(LawAxis::count_); ++i)
    if (const auto axis = static_cast<LawAxis>(i); axis != LawAxis::tokens && given(o, axis))
      throw InputError(fmt::format("{} together with -a", option_of(axis)), "the architecture says it", "leave one out.");
  if (o.activation || o.granularity) throw InputError("--activation or --granularity together with -a", "the architecture says it", "leave one out.");
  check_positive(o);
  if (!o.tokens) throw InputError("--tokens is missing", "an architecture does not say how long it trains", "give it.");
  const Architecture a = read_architecture(o.architecture);
  return law_point(law, a, count_parameters(a), *o.tokens);
}

std::optional<Spread> spread(const Options& o, const Law& law, const LawPoint& point) {
  const Members members = o.ensemble.empty() ? ensemble_members(law, o.members, o.seed) : read_ensemble(o.ensemble, law);
  if (members.size() < 2) return std::nullopt;
  std::vector<double> losses;
  for (const auto& member : members) losses.push_back(loss(law.form, member, formula_point(law, point)));
  std::sort(losses.begin(), losses.end());
  double mean = 0, square = 0;
  for (const double value : losses) mean += value / static_cast<double>(losses.size());
  for (const double value : losses) square += (value - mean) * (value - mean);
  const auto at = [&](double q) { return losses[static_cast<std::size_t>(std::lround(q * static_cast<double>(losses.size() - 1)))]; };
  return Spread{members.size(), std::sqrt(square / static_cast<double>(losses.size() - 1)), at(.05), at(.95)};
}

Json point_json(const Law& law, const LawPoint& p) {
  Json out;
  if (p.total > 0) out["total_parameters"] = p.total;
  if (p.active > 0) out["active_parameters"] = p.active;
  if (p.tokens > 0) out["tokens"] = p.tokens;
  if (p.active > 0 && p.tokens > 0) out["tokens_per_active_parameter"] = p.tokens / p.active;
  out["sparsity"] = p.sparsity;
  if (p.split > 0) out["split"] = p.split;
  if (p.experts > 0) out["experts"] = p.experts;
  if (p.active_experts > 0) out["active_experts"] = p.active_experts;
  if (law.form == LawForm::efficiency_leverage) out["activation"] = p.activation, out["granularity"] = p.width_ratio;
  return out;
}

/// The efficiency-leverage form: a multiplier of compute, no loss.
int run_leverage(const Options& o, const Law& law, const LawPoint& p, double flops, bool json) {
  const double value = efficiency_leverage(law, p, flops);
  if (!std::isfinite(value)) throw InputError("the efficiency leverage has no value here", "activation, granularity and FLOPs must be positive", "correct them.");
  auto warnings = outside_range(law, p);
  if (!o.architecture.empty() && !o.flops) warnings.push_back("training compute taken as 6 N_act D");
  if (json) {
    Json out{{"law", law.name}, {"form", form_info(law.form).name}, {"loss", nullptr}, {"terms", Json::object()}, {"efficiency_leverage", value}, {"flops", flops}, {"point", point_json(law, p)}, {"warnings", warnings}, {"note", law.note}};
    fmt::print("{}\n", out.dump(2));
    return kDone;
  }
  fmt::print("{}\n{}\n\nefficiency leverage {:.6g}: a dense model needs {:.6g} times the compute for the same loss (at {:.4g} FLOP)\n", law.name, law.title, value, value, flops);
  for (const auto& warning : warnings) fmt::print("warning: {}\n", warning);
  return kDone;
}

void print_loss(const Law& law, const LawPoint& p, double value, const std::optional<Spread>& s, const std::vector<std::string>& warnings) {
  fmt::print("law {}: {}\n  {}\n  source: {}{}\n\n", law.name, law.title, form_info(law.form).expression, law.source,
             law.evidence.empty() ? "" : " (" + law.evidence + ")");
  const Json point = point_json(law, p);  // items() does not keep a temporary alive
  for (const auto& [key, number] : point.items()) fmt::print("  {:<28} {:.6g}\n", key, number.get<double>());
  fmt::print("\n  {:<28} {:.6f} nats/token\n", "predicted loss", value);
  for (const auto& t : loss_terms(law, p)) fmt::print("    {:<26} {:.6f} nats/token\n", t.name, t.value);
  if (s) fmt::print("\n  the law's own uncertainty: sd {:.4f} nats, 90 % {:.4f} to {:.4f} ({} members{})\n", s->sd, s->low, s->high, s->members, law.synthetic_uncertainty ? ", a reconstruction: the runs are not public" : "");
  if (law.noise_sd > 0) fmt::print("  scatter of a single run: sd {:.4f} nats\n", law.noise_sd);
  for (const auto& warning : warnings) fmt::print("warning: {}\n", warning);
}

int run(const Options& o, bool json) {
  const Law law = read_law(o.law);
  if (o.members == 0) throw InputError("--members 0", "an ensemble has members", "give a positive number.");
  const LawPoint p = o.architecture.empty() ? point_of(o, law) : architecture_point(o, law);
  if (!predicts_loss(law)) {
    if (!o.ensemble.empty()) throw InputError("--ensemble with a law that predicts no loss", "nothing is spread", "leave it out.");
    return run_leverage(o, law, p, o.flops.value_or(6 * p.active * p.tokens), json);
  }
  if (!o.architecture.empty() && o.flops) throw InputError(fmt::format("--flops is of no use with law '{}'", law.name), "its loss depends on tokens", "leave it out.");
  const double value = loss(law, p);
  if (!std::isfinite(value)) throw InputError("the loss has no value here", "the point lies outside the formula's domain", "correct it.");
  const auto s = spread(o, law, p);
  const auto warnings = outside_range(law, p);
  if (!json) {
    print_loss(law, p, value, s, warnings);
    return kDone;
  }
  Json out{{"law", law.name}, {"form", form_info(law.form).name}, {"unit", "nats/token"}, {"loss", value}};
  for (const auto& t : loss_terms(law, p)) out["terms"][t.name] = t.value;
  out["point"] = point_json(law, p);
  if (s) out["uncertainty"] = Json{{"members", s->members}, {"sd", s->sd}, {"low_90", s->low}, {"high_90", s->high}, {"synthetic", law.synthetic_uncertainty}};
  out["outside"] = Json::array();
  for (const auto& edge : outside(law, p)) out["outside"].push_back({{"axis", to_string(edge.axis)}, {"value", edge.value}, {"low", edge.low}, {"high", edge.high}});
  out["warnings"] = warnings;
  fmt::print("{}\n", out.dump(2));
  return kDone;
}

}  // namespace

void add_loss(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("loss", "The loss a law predicts for one model and number of tokens");
  sub->add_option("--law", o->law, "Preset, .toml file, or either with changes: mosaic,beta=0.2")->capture_default_str();
  sub->add_option("-a,--architecture", o->architecture, "Architecture, counted by the law's convention (instead of the counts below)");
  sub->add_option("--total-params", o->total, "N_tot, parameters by the law's convention");
  sub->add_option("--active-params", o->active, "N_act, parameters a token meets");
  sub->add_option("--sparsity", o->sparsity, "S, 0 <= S < 1, by the law's definition");
  sub->add_option("--tokens", o->tokens, "D, training tokens");
  sub->add_option("--split", o->split, "G, dense FFN width over expert width");
  sub->add_option("--experts", o->experts, "E, routed experts of a layer (1: dense)");
  sub->add_option("--active-experts", o->active_experts, "Experts a token meets");
  sub->add_option("--activation", o->activation, "Active over all experts, shared ones included (efficiency leverage)");
  sub->add_option("--granularity", o->granularity, "2 hidden / expert width (efficiency leverage)");
  sub->add_option("--flops", o->flops, "Training compute in FLOP (efficiency leverage)");
  sub->add_option("--ensemble", o->ensemble, "CSV of coefficient sets instead of the law's own ensemble");
  sub->add_option("--members", o->members, "Members drawn from the law's own ensemble")->capture_default_str();
  sub->add_option("--seed", o->seed, "Seed of the draws")->capture_default_str();
  sub->add_flag("--json", session.json, "One JSON object on stdout: law form unit loss terms{} point{} uncertainty{} outside[] warnings[]; nats per token");
  sub->footer("Examples:\n  tessera loss --law mosaic --total-params 327.19e9 --sparsity 0.95571 --tokens 1.4172e12 --split 4\n"
              "  tessera loss -a ladder:q=12,experts=96,top_k=2,split=4 --tokens 1.4172e12\n"
              "  tessera loss --law besiroglu2024_mle --total-params 70e9 --tokens 1.4e12 --json\n"
              "tessera presets lists the laws; losses of two laws are not comparable.");
  sub->callback([o, &session] { session.action = [o, &session] { return run(*o, session.json); }; });
}

}  // namespace tessera
