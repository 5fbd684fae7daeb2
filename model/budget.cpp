// Tokens, their bounds and their worth: batch size and repetition. Goodput is in budget_goodput.cpp, energy,
// money and imbalance in budget_cost.cpp.
#include "tessera/budget.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tessera {
namespace {

std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

BoundedTokens bound_tokens(double tokens, double active, const TokenBounds& bounds) {
  BoundedTokens out;
  out.tokens = tokens;
  if (bounds.high && tokens > *bounds.high * active) {
    out.tokens = *bounds.high * active;
    out.cut = true;
    out.window_used = out.tokens / tokens;
  }
  out.per_active = active > 0 ? out.tokens / active : 0;
  out.refused = bounds.low && tokens < *bounds.low * active;
  return out;
}

double batch_multiplier(const CriticalBatch& law, double tokens, double batch, double scale) {
  if (!(tokens > 0) || !(batch > 0)) return 1;
  const double critical = scale * law.coefficient * std::pow(tokens, law.exponent);
  const double reference = std::min(batch, law.reference_coefficient * std::pow(tokens, law.reference_exponent));
  return (1 + batch / critical) / (1 + reference / critical);
}

std::vector<std::string> batch_notes(const CriticalBatch& law, double tokens, double batch) {
  std::vector<std::string> out;
  if (!(tokens > 0) || !(batch > 0)) return out;
  const double critical = law.coefficient * std::pow(tokens, law.exponent);
  const double twenty = law.twenty_percent_coefficient * std::pow(tokens, law.twenty_percent_exponent);
  const std::string subject = "batch of " + digits(batch) + " tokens ";
  if (batch > critical)
    out.push_back("strong warning: " + subject + "is above the critical batch, " + digits(critical) + " tokens");
  else if (batch > critical / 2)
    out.push_back("warning: " + subject + "is above half the critical batch, " + digits(critical) + " tokens");
  else if (batch > twenty)
    out.push_back("note: " + subject + "is above the batch of 20 % more tokens, " + digits(twenty) + " tokens");
  if (tokens < law.tokens_low || tokens > law.tokens_high)
    out.push_back("the critical batch was fitted at " + digits(law.tokens_low) + " to " + digits(law.tokens_high) +
                  " tokens; at " + digits(tokens) + " it is extrapolated");
  const double worst = batch_multiplier(law, tokens, batch, law.scale_low);
  if (worst > 1)
    out.push_back("if applied, the batch makes tokens worth 1/" + digits(batch_multiplier(law, tokens, batch)) +
                  " (1/" + digits(batch_multiplier(law, tokens, batch, law.scale_high)) + " to 1/" + digits(worst) +
                  " over the uncertainty of the critical batch)");
  return out;
}

double repeated_tokens(const Repetition& law, double tokens, double unique) {
  if (!(unique > 0) || tokens <= unique) return tokens;
  return unique * (1 - law.epochs * std::expm1(-(tokens / unique - 1) / law.epochs));
}

std::vector<std::string> repetition_notes(const Repetition& law, double tokens, double unique) {
  std::vector<std::string> out;
  if (unique > law.text_stock && law.text_stock > 0)
    out.push_back(digits(unique) + " unique tokens exceed the stock of public human text, " + digits(law.text_stock) +
                  " (" + digits(law.text_stock_low) + " to " + digits(law.text_stock_high) + ")");
  if (!(unique > 0) || tokens <= unique) return out;
  const double epochs = tokens / unique;
  if (epochs > law.warn_epochs)
    out.push_back("warning: " + digits(epochs) + " epochs are beyond the runs of the repetition law (" +
                  digits(law.warn_epochs) + "); later work finds repetition harmful there");
  else if (epochs > law.note_epochs)
    out.push_back("note: " + digits(epochs) + " epochs; the repetition law is measured on dense models, above " +
                  digits(law.note_epochs) + " epochs it is extrapolated for sparse ones");
  return out;
}

std::vector<std::string> overtraining_notes(const OvertrainingFlags& flags, double tokens, double active) {
  if (!(active > 0) || !(tokens > 0)) return {};
  const double ratio = tokens / active;
  if (ratio > flags.untested)
    return {"warning: " + digits(ratio) + " tokens per active parameter; above " + digits(flags.untested) +
            " no loss law has been tested, not even a dense one"};
  if (ratio > flags.extrapolated)
    return {"note: " + digits(ratio) + " tokens per active parameter; laws of sparse models were fitted up to " +
            digits(flags.extrapolated)};
  if (ratio < flags.low)
    return {"warning: " + digits(ratio) + " tokens per active parameter; below " + digits(flags.low) +
            " loss laws err by 5 to 15 %"};
  return {};
}

double effective_tokens(const TokenValue& value, double tokens, double batch) {
  double out = tokens;
  if (value.repetition) out = repeated_tokens(*value.repetition, out, value.unique_tokens);
  if (value.critical_batch) out /= batch_multiplier(*value.critical_batch, tokens, batch, value.critical_scale);
  return out;
}

}  // namespace tessera
