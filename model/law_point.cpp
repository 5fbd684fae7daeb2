// From architectures to points of a law, and where such points leave the law's range.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "tessera/error.hpp"
#include "tessera/law.hpp"

namespace tessera {
namespace {

std::string digits(double value, const char* format = "%.4g") {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

double axis_value(const LawPoint& p, LawAxis axis) {
  switch (axis) {
    case LawAxis::total: return p.total;
    case LawAxis::active: return p.active;
    case LawAxis::sparsity: return p.sparsity;
    case LawAxis::tokens: return p.tokens;
    case LawAxis::split: return p.split;
    case LawAxis::experts: return p.experts;
    case LawAxis::active_experts: return p.active_experts;
    case LawAxis::tokens_per_active: return p.active > 0 ? p.tokens / p.active : 0;
    case LawAxis::experts_per_split: return p.split > 0 ? p.experts / p.split : 0;
    case LawAxis::count_: break;
  }
  return 0;
}

std::string_view axis_words(LawAxis axis) {
  switch (axis) {
    case LawAxis::total: return "total parameters";
    case LawAxis::active: return "active parameters";
    case LawAxis::sparsity: return "sparsity";
    case LawAxis::tokens: return "tokens";
    case LawAxis::split: return "split factor";
    case LawAxis::experts: return "experts";
    case LawAxis::active_experts: return "active experts";
    case LawAxis::tokens_per_active: return "tokens per active parameter";
    case LawAxis::experts_per_split: return "experts per split factor";
    case LawAxis::count_: break;
  }
  return "";
}

/// Sizes and tokens span decades, so a multiple says more than a difference.
bool is_scale(LawAxis axis) {
  return axis == LawAxis::total || axis == LawAxis::active || axis == LawAxis::tokens ||
         axis == LawAxis::tokens_per_active;
}

}  // namespace

double Law::coefficient(std::string_view wanted) const {
  const auto infos = form_info(form).coefficients;
  for (std::size_t i = 0; i < infos.size() && i < coefficients.size(); ++i)
    if (infos[i].name == wanted) return coefficients[i];
  throw InputError("law '" + name + "' has no coefficient '" + std::string(wanted) + "'",
                   "its form is " + std::string(form_info(form).expression), "use a name of that formula.");
}

void check(const Law& law) {
  const auto infos = form_info(law.form).coefficients;
  auto fail = [&](const std::string& problem, const std::string& why, const std::string& remedy) {
    throw InputError("law '" + law.name + "': " + problem, why, remedy);
  };
  if (law.coefficients.size() != infos.size())
    fail("has " + std::to_string(law.coefficients.size()) + " coefficients",
         "its form needs " + std::to_string(infos.size()), "give each coefficient of " + std::string(form_info(law.form).expression) + ".");
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const double value = law.coefficients[i];
    const std::string name(infos[i].name);
    if (!std::isfinite(value)) fail("coefficient " + name + " is not finite", "a loss needs numbers", "correct it.");
    if (infos[i].kind == CoefficientKind::amplitude && value < 0)
      fail("coefficient " + name + " = " + digits(value) + " is negative", "amplitudes are sizes of terms", "correct its sign.");
    if (infos[i].kind == CoefficientKind::exponent && value < 0)
      fail("coefficient " + name + " = " + digits(value) + " is negative", "the formula already divides by the power", "correct its sign.");
  }
  if (law.form == LawForm::kaplan && !(law.coefficients[1] > 0))
    fail("aD is 0", "the formula divides by it", "give a positive exponent.");
  for (const auto& range : law.ranges)
    if (!(range.low <= range.high)) fail("range of " + std::string(to_string(range.axis)) + " is empty", "its low end is above its high end", "swap the ends.");
  if (!law.intervals.empty() && law.intervals.size() != infos.size()) fail("has intervals for some other form", "one per coefficient is needed", "leave them out.");
  for (const auto& member : law.members)
    if (member.size() != infos.size()) fail("has a member of " + std::to_string(member.size()) + " numbers", "one per coefficient is needed", "correct [members].");
  if (law.noise_sd < 0 || law.form_sd < 0 || law.fixed_tokens < 0) fail("has a negative spread or token count", "these are sizes", "correct the sign.");
  if (law.level_slope && law.form != LawForm::mosaic) fail("has [level_slope]", "these coordinates belong to the form mosaic", "use [members].");
}

LawPoint law_point(const Law& law, const Architecture& a, const ParameterCount& count, double tokens) {
  const LawConvention& rule = law.convention;
  LawPoint p;
  p.tokens = tokens;
  if (rule.embedding) {
    p.total = static_cast<double>(count.all_total);
    p.active = static_cast<double>(count.all_active);
  } else {
    const std::int64_t router = rule.router ? a.moe_layer_count() * a.hidden * a.experts : 0;
    p.total = static_cast<double>(count.non_embedding_total + router);
    p.active = static_cast<double>(count.non_embedding_active + router);
  }
  const double shared = a.is_moe() ? static_cast<double>(a.shared_ffn) / a.expert_ffn : 0;
  if (a.is_moe()) {
    p.experts = static_cast<double>(a.experts);
    p.active_experts = static_cast<double>(a.top_k);
    p.split = rule.split_width > 0 ? rule.split_width * a.hidden / a.expert_ffn : a.split;
    p.activation = (a.top_k + shared) / (a.experts + shared);
    p.width_ratio = 2.0 * a.hidden / a.expert_ffn;
  }
  switch (rule.sparsity) {
    case SparsityKind::parameters: p.sparsity = p.total > 0 ? 1.0 - p.active / p.total : 0; break;
    case SparsityKind::experts: p.sparsity = a.is_moe() ? (a.experts - a.top_k) / (a.experts + shared) : 0; break;
    case SparsityKind::shared:
      p.active_experts += shared;
      p.sparsity = shared / p.active_experts;
      break;
    case SparsityKind::weights: p.sparsity = 0; break;
  }
  return p;
}

std::vector<Outside> outside(const Law& law, const LawPoint& point) {
  std::vector<Outside> out;
  for (const auto& range : law.ranges) {
    const double value = axis_value(point, range.axis);
    if (value == 0 && range.axis != LawAxis::sparsity) continue;  // unknown
    const double slack = 1e-9 * std::max(std::abs(range.low), std::abs(range.high));  // counts are exact, ratios are not
    if (value < range.low - slack || value > range.high + slack) out.push_back({range.axis, value, range.low, range.high});
  }
  return out;
}

std::vector<std::string> outside_range(const Law& law, const LawPoint& point) {
  std::vector<std::string> out;
  for (const auto& o : outside(law, point)) {
    std::string text = std::string(axis_words(o.axis)) + " " + digits(o.value);
    if (is_scale(o.axis) && o.value > o.high)
      text += " is " + digits(o.value / o.high, "%.3g") + " times the largest of the law's runs (" + digits(o.high) + ")";
    else if (is_scale(o.axis) && o.value > 0)
      text += " is " + digits(o.low / o.value, "%.3g") + " times below the smallest of the law's runs (" + digits(o.low) + ")";
    else
      text += std::string(" lies ") + (o.value > o.high ? "above" : "below") + " the law's runs (" + digits(o.low) + " to " + digits(o.high) + ")";
    out.push_back(text);
  }
  if (law.dense_only && point.experts > 1)
    out.push_back("the law was fitted on dense models and knows nothing of experts");
  if (law.fixed_tokens > 0 && std::abs(point.tokens / law.fixed_tokens - 1) > 1e-6)
    out.push_back("the law has no token axis: all its runs had " + digits(law.fixed_tokens) + " tokens");
  if (law.convention.sparsity == SparsityKind::weights && point.experts > 1)
    out.push_back("the law's sparsity is that of pruned weights; experts are not counted as such");
  return out;
}

LawPoint optimum_at_flops(const Law& law, const LawPoint& shape, double flops) {
  if (!form_info(law.form).has_data_axis)
    throw InputError("law '" + law.name + "' has no optimum at fixed FLOPs", "its loss does not depend on tokens", "choose another law.");
  if (!(flops > 0) || !std::isfinite(flops))
    throw InputError("FLOPs of " + digits(flops), "a positive number is needed", "give for example 1e22.");
  const double share = shape.active > 0 && shape.total > 0 ? shape.active / shape.total : 1.0 - shape.sparsity;
  auto at = [&](double log_total) {
    LawPoint p = shape;
    p.total = std::exp(log_total);
    p.active = share * p.total;
    p.tokens = flops / (6.0 * p.active);
    return p;
  };
  const double golden = (std::sqrt(5.0) - 1.0) / 2.0;
  double low = std::log(1e3), high = std::log(1e18);
  double left = high - golden * (high - low), right = low + golden * (high - low);
  double left_loss = loss(law, at(left)), right_loss = loss(law, at(right));
  while (high - low > 1e-9) {
    if (left_loss <= right_loss) {
      high = right, right = left, right_loss = left_loss;
      left_loss = loss(law, at(left = high - golden * (high - low)));
    } else {
      low = left, left = right, left_loss = right_loss;
      right_loss = loss(law, at(right = low + golden * (high - low)));
    }
  }
  return at((low + high) / 2);
}

}  // namespace tessera
