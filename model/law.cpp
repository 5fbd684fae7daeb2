// The formulas of the laws. Every form is a short list of terms whose sum is the loss, so that loss(),
// loss_terms() and data_term() cannot disagree.
#include "tessera/law.hpp"

#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kMaxTerms = 6;

struct Terms {
  std::array<const char*, kMaxTerms> name;
  std::array<double, kMaxTerms> value;
  std::size_t count = 0;
  void add(const char* term, double nats) {
    name[count] = term;
    value[count++] = nats;
  }
};

/// Saturated expert count of Clark et al. 2022: E_start at one expert, E_max at infinitely many.
double saturated(double count_minus_one, double start, double max) {
  return 1.0 / (1.0 / (count_minus_one + 1.0 / (1.0 / start - 1.0 / max)) + 1.0 / max);
}

/// An absent term (amplitude 0) is 0 even where its power is infinite.
double term(double amplitude, double power) { return amplitude == 0 ? 0.0 : amplitude * power; }

/// Does the formula have a value here, tokens aside? `size` is the N of the law.
bool in_domain(LawForm form, const LawPoint& p) {
  const bool sized = form == LawForm::joint_moe || form == LawForm::clark ? p.active > 0 : p.total > 0;
  switch (form) {
    case LawForm::mosaic:
      return sized && p.sparsity >= 0 && p.sparsity < 1 && p.split > 0;
    case LawForm::abnar:
    case LawForm::frantar:
      return sized && p.sparsity >= 0 && p.sparsity < 1;
    case LawForm::granularity:
      return sized && p.split > 0;
    case LawForm::clark:
    case LawForm::joint_moe:
      return sized && p.experts >= 1;
    case LawForm::zhao:
      return sized && p.active > 0 && p.active_experts > 0 && p.sparsity >= 0;
    case LawForm::chinchilla:
    case LawForm::kaplan:
      return sized;
    case LawForm::efficiency_leverage:
      return false;
  }
  return false;
}

/// All terms but the data term, and the data term's amplitude and exponent. Additive forms only.
DataTerm split_terms(LawForm form, const double* c, const LawPoint& p, Terms& t) {
  const double N = p.total, open = 1.0 - p.sparsity;
  double amplitude = 0, exponent = 0;
  switch (form) {
    case LawForm::mosaic:
      t.add("size", term(c[0], std::pow(N, -c[5])));
      t.add("sparsity", term(c[2], std::pow(open, -c[7])));
      t.add("split", term(c[3], std::pow(open, -c[8]) * std::pow(N, -c[9]) * std::pow(p.split, -c[10])));
      t.add("constant", c[4]);
      amplitude = c[1], exponent = c[6];
      break;
    case LawForm::chinchilla:
      t.add("size", term(c[1], std::pow(N, -c[3])));
      t.add("constant", c[0]);
      amplitude = c[2], exponent = c[4];
      break;
    case LawForm::granularity:
      t.add("size", term(c[0], std::pow(N, -c[1])));
      t.add("split", term(c[4], std::pow(p.split, -c[5]) * std::pow(N, -c[1])));
      t.add("constant", c[6]);
      amplitude = c[2], exponent = c[3];
      break;
    case LawForm::joint_moe: {
      const double experts = saturated(p.experts - 1, c[8], c[9]), log_experts = std::log(experts);
      t.add("size", term(c[0], std::pow(experts, c[2]) * std::pow(p.active, c[1] + c[3] * log_experts)));
      t.add("constant", c[10]);
      amplitude = term(c[4], std::pow(experts, c[6]));
      exponent = -(c[5] + c[7] * log_experts);
      break;
    }
    case LawForm::abnar:
      t.add("size", term(c[0], std::pow(N, -c[5])));
      t.add("sparsity", term(c[2], std::pow(open, -c[7])));
      t.add("interaction", term(c[3], std::pow(open, -c[8]) * std::pow(N, -c[9])));
      t.add("constant", c[4]);
      amplitude = c[1], exponent = c[6];
      break;
    case LawForm::zhao: {
      const double G = p.active_experts, S = p.sparsity, size = std::pow(N, -c[7]), active = std::pow(p.active, -c[7]);
      t.add("experts", (c[0] * G + c[1] / G + c[2] * S * S + c[3] * S) * (size + c[4] * active + c[5] * p.active / N));
      t.add("size", term(c[6], size));
      t.add("active", term(c[10], active));
      t.add("constant", c[11]);
      amplitude = c[8], exponent = c[9];
      break;
    }
    case LawForm::frantar: {
      const double size = std::pow(N, -c[3]);
      t.add("sparsity", term(c[0], std::pow(open, c[1]) * size));
      t.add("size", term(c[2], size));
      t.add("constant", c[6]);
      amplitude = c[4] > 0 ? std::pow(c[4], c[5]) : 0, exponent = c[5];
      break;
    }
    default:
      break;
  }
  double floor = 0;
  for (std::size_t i = 0; i < t.count; ++i) floor += t.value[i];
  return {floor, amplitude, exponent};
}

Terms kaplan_terms(const double* c, const LawPoint& p) {
  const double size = std::pow(c[2] / p.total, c[0] / c[1]), data = c[3] / p.tokens;
  const double total = std::pow(size + data, c[1]);
  Terms t;
  t.add("size", total * (size / (size + data)));
  t.add("data", total * (data / (size + data)));
  return t;
}

double clark_loss(const double* c, const LawPoint& p) {
  const double size = std::log10(p.active), experts = std::log10(saturated(p.experts - 1, c[4], c[5]));
  return std::pow(10.0, c[0] * size + c[1] * experts + c[2] * size * experts + c[3]);
}

/// The terms of any form that predicts a loss; count 0 outside the domain.
Terms all_terms(LawForm form, const double* c, const LawPoint& p) {
  Terms t;
  if (!in_domain(form, p)) return t;
  if (form == LawForm::clark) {
    t.add("routed", clark_loss(c, p));
    return t;
  }
  if (!(p.tokens > 0)) return t;
  if (form == LawForm::kaplan) return kaplan_terms(c, p);
  const DataTerm data = split_terms(form, c, p, t);
  t.add("data", term(data.amplitude, std::pow(p.tokens, -data.exponent)));
  return t;
}

}  // namespace

double loss(LawForm form, std::span<const double> coefficients, const LawPoint& point) {
  const Terms t = all_terms(form, coefficients.data(), point);
  double sum = 0;
  for (std::size_t i = 0; i < t.count; ++i) sum += t.value[i];
  return t.count > 0 && std::isfinite(sum) ? sum : kInfinity;
}

LawPoint formula_point(const Law& law, const LawPoint& p) {
  LawPoint q = p;
  if (law.convention.size == SizeKind::active && law.form != LawForm::zhao) q.total = p.active;
  return q;
}

double loss(const Law& law, const LawPoint& point) {
  return loss(law.form, law.coefficients, formula_point(law, point));
}

std::vector<LawTerm> loss_terms(const Law& law, const LawPoint& point) {
  const Terms t = all_terms(law.form, law.coefficients.data(), formula_point(law, point));
  std::vector<LawTerm> out;
  for (std::size_t i = 0; i < t.count; ++i) {
    if (!std::isfinite(t.value[i])) return {};
    out.push_back({t.name[i], t.value[i]});
  }
  return out;
}

std::optional<DataTerm> data_term(LawForm form, std::span<const double> coefficients, const LawPoint& point) {
  if (form == LawForm::kaplan || !in_domain(form, point)) return std::nullopt;
  Terms t;
  const DataTerm data = form == LawForm::clark ? DataTerm{clark_loss(coefficients.data(), point), 0, 0}
                                               : split_terms(form, coefficients.data(), point, t);
  if (!std::isfinite(data.floor) || !std::isfinite(data.amplitude) || !std::isfinite(data.exponent)) return std::nullopt;
  return data;
}

double efficiency_leverage(const Law& law, const LawPoint& p, double flops) {
  if (law.form != LawForm::efficiency_leverage || !(flops > 0) || !(p.activation > 0) || !(p.width_ratio > 0))
    return kInfinity;
  const auto& c = law.coefficients;
  const double activation = saturated(p.activation, c[4], c[5]), granularity = std::log2(p.width_ratio);
  const double exponent = c[0] + c[1] * std::log10(flops) + c[2] * granularity * granularity + c[3] * granularity;
  const double value = std::pow(activation, exponent);
  return std::isfinite(value) ? value : kInfinity;
}

}  // namespace tessera
