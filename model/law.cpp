// Losses and their terms from the formulas of law_formula.hpp.
#include "tessera/law.hpp"

#include <cmath>
#include <limits>

#include "model/law_formula.hpp"

namespace tessera {

bool formula::in_domain(LawForm form, const LawPoint& p) {
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

namespace {

using formula::LogPoint;
using Terms = formula::Terms<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The terms of any form that predicts a loss; count 0 outside the domain.
Terms all_terms(LawForm form, const double* c, const LawPoint& point) {
  Terms t;
  if (!formula::in_domain(form, point)) return t;
  const LogPoint p(point);
  if (form == LawForm::clark) {
    t.add("routed", std::exp(M_LN10 * formula::clark_log10(c, p)));
    return t;
  }
  if (!(point.tokens > 0)) return t;
  if (form == LawForm::kaplan) {
    const auto [size, data] = formula::kaplan_parts(c, p);
    const double total = std::pow(size + data, c[1]);
    t.add("size", total * (size / (size + data)));
    t.add("data", total * (data / (size + data)));
    return t;
  }
  const auto data = formula::split_terms(form, c, p, t);
  t.add("data", formula::term(data.amplitude, -data.exponent * p.tokens));
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
  if (form == LawForm::kaplan || !formula::in_domain(form, point)) return std::nullopt;
  const LogPoint p(point);
  const double* c = coefficients.data();
  DataTerm data{0, 0, 0};
  if (form == LawForm::clark) {
    data.floor = std::exp(M_LN10 * formula::clark_log10(c, p));
  } else {
    Terms t;
    const auto term = formula::split_terms(form, c, p, t);
    data = {0, term.amplitude, term.exponent};
    for (std::size_t i = 0; i < t.count; ++i) data.floor += t.value[i];
  }
  if (!std::isfinite(data.floor) || !std::isfinite(data.amplitude) || !std::isfinite(data.exponent)) return std::nullopt;
  return data;
}

double efficiency_leverage(const Law& law, const LawPoint& p, double flops) {
  if (law.form != LawForm::efficiency_leverage || !(flops > 0) || !(p.activation > 0) || !(p.width_ratio > 0))
    return kInfinity;
  const auto& c = law.coefficients;
  const double activation = formula::saturated(p.activation, c[4], c[5]), granularity = std::log2(p.width_ratio);
  const double exponent = c[0] + c[1] * std::log10(flops) + c[2] * granularity * granularity + c[3] * granularity;
  const double value = std::pow(activation, exponent);
  return std::isfinite(value) ? value : kInfinity;
}

}  // namespace tessera
