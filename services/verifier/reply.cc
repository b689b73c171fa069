#include "services/verifier/reply.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem {

Reply::Reply(uint64_t handle, GenerationInput input, std::shared_ptr<TokenSink> sink, Session* kept,
             absl::Time arrival)
    : handle_(handle),
      input_(std::move(input)),
      sink_(std::move(sink)),
      own_(kept == nullptr ? std::make_unique<Session>(SessionOptions{}, arrival) : nullptr),
      session_(kept == nullptr ? own_.get() : kept),
      arrival_(arrival) {}

void Reply::Begin(RecurrentState& state, absl::Time now) {
  admitted_ = now;
  if (session_->kept()) session_->Remember(state);
  usage_.prompt_tokens = static_cast<int64_t>(input_.prompt.size());
  usage_.cached_prompt_tokens = session_->consumed();
  session_->Append(input_.prompt);
  session_->reply_begin = session_->position();
  session_->Append(input_.emitted);
  sink_->Started({.prompt_tokens = usage_.prompt_tokens,
                  .cached_prompt_tokens = usage_.cached_prompt_tokens,
                  .position = session_->reply_begin,
                  .seed = input_.sampling.seed});
}

int Reply::NextCertain(int limit) const {
  int64_t count = std::min<int64_t>(limit, session_->pending());
  const int64_t to_prompt_end = session_->reply_begin - session_->consumed();
  if (session_->kept() && to_prompt_end > 0) count = std::min(count, to_prompt_end);
  return static_cast<int>(count);
}

Reply::Walked Reply::Walk(absl::Span<const int32_t> tokens) const {
  const int64_t room = remaining();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t token = tokens[i];
    const int before = static_cast<int>(i);
    const bool listed =
        std::find(input_.stop_ids.begin(), input_.stop_ids.end(), token) != input_.stop_ids.end();
    if (listed || (token == 0 && !input_.ignore_eos)) {
      return {.kept = input_.include_stop ? before + 1 : before,
              .ending = Ending{.cause = FinishCause::kStopToken, .stop_token = token}};
    }
    if (before + 1 == room)
      return {.kept = before + 1, .ending = Ending{.cause = FinishCause::kMaxTokens}};
  }
  return {.kept = static_cast<int>(tokens.size())};
}

Reply::Taken Reply::Take(int certain, int drafted, LaneChoice choice, absl::Time now) {
  if (choice.tokens.empty()) {
    session_->Advance(certain, 0);
    return {};
  }
  const Walked walked = Walk(choice.tokens);
  const int kept = walked.kept;
  // At an end the last kept token stays unread, so that an empty continuation has something to
  // feed.
  session_->Advance(
      certain, walked.ending ? std::min(choice.accepted, std::max(0, kept - 1)) : choice.accepted);
  session_->Append(absl::MakeConstSpan(choice.tokens).first(kept));
  Count(drafted, choice.accepted, kept);
  if (!first_token_) first_token_ = now;

  Taken taken{.trimmed = static_cast<int>(choice.tokens.size()) - kept, .ending = walked.ending};
  choice.tokens.resize(kept);
  if (!choice.logprobs.empty()) choice.logprobs.resize(kept);
  taken.round = {.tokens = std::move(choice.tokens),
                 .logprobs = std::move(choice.logprobs),
                 .drafted = drafted,
                 .accepted = std::min(choice.accepted, kept)};
  return taken;
}

void Reply::Count(int drafted, int accepted, int kept) {
  const int retained = std::min(accepted, kept);
  usage_.rounds += 1;
  usage_.draft_rounds += drafted > 0;
  usage_.drafted += drafted;
  usage_.accepted += accepted;
  usage_.generated += kept;
  usage_.retained += retained;
  for (int d = 0; d < drafted; ++d) usage_.drafted_by_depth[d] += 1;
  for (int d = 0; d < accepted; ++d) usage_.accepted_by_depth[d] += 1;
  rounds_.emplace_back(kept, retained);
}

ReplyUsage Reply::UsageUpTo(int64_t retain) const {
  ReplyUsage usage = usage_;
  int64_t left = std::max<int64_t>(0, retain - static_cast<int64_t>(input_.emitted.size()));
  usage.generated = std::min(left, usage_.generated);
  usage.retained = 0;
  for (const auto& [kept, drafted] : rounds_) {
    usage.retained += std::min<int64_t>(left, drafted);
    left -= std::min<int64_t>(left, kept);
  }
  return usage;
}

ReplyTimings Reply::Timings(absl::Time now) const {
  const absl::Time admitted = admitted_.value_or(now);
  const absl::Time first = first_token_.value_or(now);
  return {.queue = admitted - arrival_,
          .prefill = first - admitted,
          .decode = now - first,
          .time_to_first_token = first - arrival_};
}

}  // namespace tandem
