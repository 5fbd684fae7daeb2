// Paired losses of candidates under members and draws, and the decision they lead to.
#include "tessera/uncertainty.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/error.hpp"

namespace tessera {
namespace {

/// What of a candidate does not depend on the member.
struct Prepared {
  LawPoint point;        ///< formula point
  LawPoint flat_point;   ///< the same with the split factor not above flat_from
  double log_tokens = 0, log_cap = std::numeric_limits<double>::infinity();
  double log_mfu_ratio = 0;  ///< log MFU over the anchor
  std::uint64_t key = 0, group = 0;
  std::uint64_t split_key = 0;
  bool grouped = false;
};

/// Predicted MFU that a compressed spread leaves where it is.
double anchor_mfu(const Uncertainty& u, std::span<const Candidate> candidates) {
  if (u.time.anchor > 0 || (u.time.slope == 1 && u.time.slope_sd <= 0)) return u.time.anchor;
  const auto losses = nominal_losses(u, candidates);
  return candidates[static_cast<std::size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin())].mfu;
}

std::vector<Prepared> prepare(const Uncertainty& u, std::span<const Candidate> candidates) {
  const double anchor = anchor_mfu(u, candidates);
  std::vector<Prepared> out;
  out.reserve(candidates.size());
  for (const auto& c : candidates) {
    Prepared p;
    p.point = formula_point(u.law, c.point);
    p.flat_point = p.point;
    p.flat_point.split = std::min(p.point.split, u.form.flat_from);
    p.log_tokens = std::log(c.window_tokens);
    if (u.bounds.high) p.log_cap = std::log(*u.bounds.high * c.active_parameters);
    if (c.mfu > 0 && anchor > 0) p.log_mfu_ratio = std::log(c.mfu / anchor);
    p.key = fnv1a(c.key);
    p.grouped = !c.group.empty();
    p.group = fnv1a(c.group);
    // The key of an offset is the split factor itself where it is a whole number, as in the published test values.
    p.split_key = static_cast<std::uint64_t>(std::llround(c.point.split * 1024)) % 1024 == 0
                      ? static_cast<std::uint64_t>(std::llround(c.point.split))
                      : static_cast<std::uint64_t>(std::llround(c.point.split * 1024)) + (1ull << 32);
    out.push_back(p);
  }
  return out;
}

/// Loss of one candidate under one member after exp(log_tokens) trained tokens.
class MemberLoss {
 public:
  MemberLoss(const Uncertainty& u, const Candidate& c, const Prepared& p, std::span<const double> member, bool flat)
      : u_(u), candidate_(c), member_(member), point_(flat ? p.flat_point : p.point),
        data_(data_term(u.law.form, member, point_)) {}
  double operator()(double log_tokens) const {
    if (u_.value.active())
      log_tokens = std::log(effective_tokens(u_.value, std::exp(log_tokens), candidate_.batch_tokens));
    if (data_)  // the common case: one exponential a draw
      return data_->amplitude == 0 ? data_->floor : data_->floor + data_->amplitude * std::exp(-data_->exponent * log_tokens);
    LawPoint at = point_;
    at.tokens = std::exp(log_tokens);
    return loss(u_.law.form, member_, at);
  }

 private:
  const Uncertainty& u_;
  const Candidate& candidate_;
  std::span<const double> member_;
  const LawPoint& point_;
  std::optional<DataTerm> data_;
};

/// Log of the factor on the predicted speed in one draw.
double log_speed(const Uncertainty& u, const Prepared& p, std::size_t member, std::size_t replicate, double common,
                 double slope) {
  double out = u.time.common * common + (slope - 1) * p.log_mfu_ratio;
  if (u.time.group > 0 && p.grouped) out += u.time.group * normal_draw(u.seed, DrawStream::group, member, replicate, p.group);
  if (u.time.individual > 0) out += u.time.individual * normal_draw(u.seed, DrawStream::individual, member, replicate, p.key);
  return out;
}

std::span<const double> member_of(const Uncertainty& u, std::size_t m) {
  return u.members.empty() ? std::span<const double>(u.law.coefficients) : std::span<const double>(u.members[m]);
}

}  // namespace

Losses make_losses(const Uncertainty& u, std::span<const Candidate> candidates) {
  if (candidates.empty()) throw InputError("no candidates", "nothing can be chosen from none", "widen the search.");
  if (u.replicates == 0) throw InputError("0 replicates", "at least one draw a member is needed", "give a positive number.");
  if (!predicts_loss(u.law))
    throw InputError("law '" + u.law.name + "' predicts no loss", "candidates are ranked by loss", "choose another law.");
  for (const auto& c : candidates)
    if (!(c.window_tokens > 0) || !(c.active_parameters > 0))
      throw InputError("candidate '" + c.key + "' has no tokens or no active parameters", "its loss is infinite", "leave it out.");
  Losses out;
  out.candidates = candidates.size();
  out.draws = std::max<std::size_t>(1, u.members.size()) * u.replicates;
  out.values.assign(out.candidates * out.draws, 0);
  return out;
}

void simulate(const Uncertainty& u, std::span<const Candidate> candidates, std::size_t first, std::size_t last, Losses& out) {
  const auto prepared = prepare(u, candidates);
  const bool slope_draws = u.time.slope_sd > 0;
  for (std::size_t m = first; m < last; ++m) {
    const auto member = member_of(u, m);
    const double slope = slope_draws ? u.time.slope + u.time.slope_sd * normal_draw(u.seed, DrawStream::slope, m, 0, 0) : u.time.slope;
    const bool flat = u.form.flat_probability > 0 && uniform_draw(u.seed, DrawStream::flat_split, m, 0, 0) < u.form.flat_probability;
    std::vector<double> common(u.replicates, 0);
    if (u.time.common > 0)
      for (std::size_t r = 0; r < u.replicates; ++r) common[r] = normal_draw(u.seed, DrawStream::common, m, r, 0);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Prepared& p = prepared[i];
      const MemberLoss nats(u, candidates[i], p, member, flat);
      double* row = out.values.data() + i * out.draws + m * u.replicates;
      for (std::size_t r = 0; r < u.replicates; ++r) {
        const double log_tokens = p.log_tokens + log_speed(u, p, m, r, common[r], slope);
        row[r] = nats(std::min(log_tokens, p.log_cap));
        if (u.form.split_offset > 0) row[r] += u.form.split_offset * normal_draw(u.seed, DrawStream::split_offset, m, r, p.split_key);
      }
    }
  }
}

std::vector<double> nominal_losses(const Uncertainty& u, std::span<const Candidate> candidates) {
  Uncertainty plain = only(u, {.law = false, .time = false, .form = false});
  Losses losses = make_losses(plain, candidates);
  simulate(plain, candidates, 0, 1, losses);
  return losses.values;
}

Uncertainty only(const Uncertainty& u, Sources sources) {
  Uncertainty out = u;
  if (!sources.law) out.members = {u.law.coefficients};
  if (!sources.time) {
    out.time = TimeError{};
    if (!sources.form || u.form.split_offset <= 0) out.replicates = 1;
  }
  if (!sources.form) out.form = FormError{};
  // Without the law's members the draws of time and form must come from somewhere: the same number of counters.
  if (!sources.law && (sources.time || sources.form))
    out.members.assign(std::max<std::size_t>(1, u.members.size()), u.law.coefficients);
  return out;
}

double regret_in_hours(const Uncertainty& u, const Candidate& choice, double regret) {
  const auto data = data_term(u.law.form, u.law.coefficients, formula_point(u.law, choice.point));
  if (!data || data->amplitude == 0) return 0;
  double tokens = choice.window_tokens;
  if (u.bounds.high) tokens = std::min(tokens, *u.bounds.high * choice.active_parameters);
  tokens = effective_tokens(u.value, tokens, choice.batch_tokens);
  const double slope = data->exponent * data->amplitude * std::pow(tokens, -data->exponent);
  return slope > 0 ? regret / slope : 0;
}

double candidate_margin(const Uncertainty& u, const Candidate& best, double law_sd) {
  const double per_log = regret_in_hours(u, best, 1.0);
  const double slope = per_log > 0 ? 1 / per_log : 0, sd = u.time.individual * slope;
  return 4 * std::sqrt(law_sd * law_sd + 2 * sd * sd);
}

}  // namespace tessera
