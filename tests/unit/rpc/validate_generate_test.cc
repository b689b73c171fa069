#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/rpc/status.h"
#include "common/rpc/validate.h"

namespace tandem {
namespace {

using v1::GenerateRequest;
using Edit = std::function<void(GenerateRequest&)>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

RequestLimits Limits() {
  return {.model = "demo",
          .vocabulary_size = 100,
          .max_prompt_tokens = 8,
          .max_tokens = 50,
          .max_prompt_bytes = 1000};
}

absl::Status Check(const Edit& edit, const RequestLimits& limits = Limits()) {
  GenerateRequest request;
  request.set_prompt("hello");
  edit(request);
  return ValidateGenerate(request, limits);
}

void Refuses(const std::string& field, const std::vector<Edit>& edits,
             absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  for (size_t i = 0; i < edits.size(); ++i) {
    const absl::Status status = Check(edits[i]);
    EXPECT_EQ(status.code(), code) << field << " case " << i << ": " << status;
    const auto violations = FieldViolations(status);
    ASSERT_EQ(violations.size(), 1U) << field << " case " << i;
    EXPECT_EQ(violations[0].field, field) << "case " << i;
  }
}

void Accepts(const std::vector<Edit>& edits) {
  for (size_t i = 0; i < edits.size(); ++i) {
    EXPECT_TRUE(Check(edits[i]).ok()) << "case " << i << ": " << Check(edits[i]);
  }
}

// One float field of sampling: values to refuse and to accept.
struct FloatField {
  std::string path;
  void (v1::SamplingParameters::*set)(float);
  std::vector<float> bad;
  std::vector<float> good;
};

TEST(ValidateGenerate, FloatRanges) {
  using S = v1::SamplingParameters;
  const std::vector<FloatField> fields = {
      {"sampling.temperature", &S::set_temperature, {-0.01F, 100.1F}, {0, 1, 100}},
      {"sampling.top_p", &S::set_top_p, {0, -0.1F, 1.01F}, {0.001F, 1}},
      {"sampling.min_p", &S::set_min_p, {-0.01F, 1, 1.5F}, {0, 0.99F}},
      {"sampling.presence_penalty", &S::set_presence_penalty, {-100.1F, 100.1F}, {-100, 100}},
      {"sampling.frequency_penalty", &S::set_frequency_penalty, {-100.1F, 100.1F}, {-100, 100}},
      {"sampling.repetition_penalty", &S::set_repetition_penalty, {0, -1, 100.1F}, {0.01F, 100}},
      {"sampling.penalty_decay", &S::set_penalty_decay, {0, -1, 1.01F}, {0.01F, 1}},
  };
  for (const FloatField& field : fields) {
    std::vector<float> bad = field.bad;
    bad.insert(bad.end(), {kNan, kInf, -kInf});
    for (const float value : bad) {
      Refuses(field.path, {[&](GenerateRequest& r) { (r.mutable_sampling()->*field.set)(value); }});
    }
    for (const float value : field.good) {
      Accepts({[&](GenerateRequest& r) { (r.mutable_sampling()->*field.set)(value); }});
    }
  }
}

Edit Bias(uint32_t id, float bias) {
  return [=](GenerateRequest& r) {
    auto& entry = *r.mutable_sampling()->add_logit_bias();
    entry.set_token_id(id);
    entry.set_bias(bias);
  };
}

TEST(ValidateGenerate, LogitBias) {
  Refuses("sampling.logit_bias[0].bias",
          {Bias(1, kNan), Bias(1, kInf), Bias(1, 100.5F), Bias(1, -100.5F)});
  Refuses("sampling.logit_bias[0].token_id", {Bias(100, 0)});
  Refuses("sampling.logit_bias[1].token_id", {[](GenerateRequest& r) {
            Bias(5, 1)(r);
            Bias(5, 2)(r);
          }});
  Refuses("sampling.logit_bias", {[](GenerateRequest& r) {
            for (int i = 0; i < 1025; ++i) Bias(i, 1)(r);
          }});
  Accepts({Bias(99, -kInf), Bias(0, 100), Bias(0, -100)});
}

TEST(ValidateGenerate, SamplingOrder) {
  Refuses("sampling.order", {[](GenerateRequest& r) {
            r.mutable_sampling()->set_order(static_cast<v1::SamplingOrder>(9));
          }});
  Accepts({[](GenerateRequest& r) {
    r.mutable_sampling()->set_order(v1::SAMPLING_ORDER_NUCLEUS_FIRST);
  }});
}

TEST(ValidateGenerate, Stopping) {
  const auto stopping = [](GenerateRequest& r) -> v1::StoppingParameters& {
    return *r.mutable_stopping();
  };
  Refuses("stopping.max_tokens", {[&](auto& r) { stopping(r).set_max_tokens(0); },
                                  [&](auto& r) { stopping(r).set_max_tokens(51); }});
  Refuses("stopping.min_tokens", {[&](auto& r) { stopping(r).set_min_tokens(51); },
                                  [&](auto& r) {
                                    stopping(r).set_max_tokens(5);
                                    stopping(r).set_min_tokens(6);
                                  }});
  Refuses("stopping.stop_texts[0]",
          {[&](auto& r) { stopping(r).add_stop_texts(""); },
           [&](auto& r) { stopping(r).add_stop_texts(std::string(257, 'x')); }});
  Refuses("stopping.stop_texts", {[&](auto& r) {
            for (int i = 0; i < 17; ++i) stopping(r).add_stop_texts("x");
          }});
  Refuses("stopping.stop_token_ids[0]", {[&](auto& r) { stopping(r).add_stop_token_ids(100); }});
  Refuses("stopping.stop_token_ids", {[&](auto& r) {
            for (int i = 0; i < 65; ++i) stopping(r).add_stop_token_ids(1);
          }});
  Accepts({[&](auto& r) { stopping(r).set_max_tokens(50); },
           [&](auto& r) { stopping(r).set_min_tokens(50); },
           [&](auto& r) { stopping(r).add_stop_texts(std::string(256, 'x')); },
           [&](auto& r) { stopping(r).add_stop_token_ids(99); }});
}

TEST(ValidateGenerate, DefaultMaxTokensIsTheSmallerOf256AndTheLimit) {
  EXPECT_EQ(EffectiveMaxTokens({}, {.max_tokens = 50}), 50U);
  EXPECT_EQ(EffectiveMaxTokens({}, {.max_tokens = 4000}), 256U);
}

TEST(ValidateGenerate, OutputSpeculationPriority) {
  Refuses("output.top_logprobs", {[](auto& r) { r.mutable_output()->set_top_logprobs(21); }});
  Refuses("speculation.max_drafts", {[](auto& r) { r.mutable_speculation()->set_max_drafts(9); }});
  Refuses("priority",
          {[](auto& r) { r.set_priority(-101); }, [](auto& r) { r.set_priority(101); }});
  Accepts({[](auto& r) { r.mutable_output()->set_top_logprobs(20); },
           [](auto& r) { r.mutable_speculation()->set_max_drafts(8); },
           [](auto& r) { r.mutable_speculation()->set_max_drafts(0); },
           [](auto& r) { r.set_priority(-100); }, [](auto& r) { r.set_priority(100); }});
}

TEST(ValidateGenerate, RequestIdAndModel) {
  Refuses("request_id",
          {[](auto& r) { r.set_request_id(""); }, [](auto& r) { r.set_request_id("a b"); },
           [](auto& r) { r.set_request_id(std::string(129, 'a')); }});
  Accepts({[](auto& r) { r.set_request_id(std::string(128, 'a')); },
           [](auto& r) { r.set_request_id("Az09_.:-"); }, [](auto& r) { r.set_model("demo"); }});
  Refuses("model", {[](auto& r) { r.set_model("other"); }, [](auto& r) { r.set_model(""); }},
          absl::StatusCode::kNotFound);
}

TEST(ValidateGenerate, Resume) {
  Refuses("sampling.seed", {[](auto& r) { r.mutable_resume()->add_emitted_ids(1); }});
  const auto resume = [](GenerateRequest& r, int count, uint32_t id) {
    r.mutable_sampling()->set_seed(1);
    for (int i = 0; i < count; ++i) r.mutable_resume()->add_emitted_ids(id);
  };
  Refuses("resume.emitted_ids", {[&](auto& r) { resume(r, 50, 1); }});
  Refuses("resume.emitted_ids[0]", {[&](auto& r) { resume(r, 1, 100); }});
  Accepts({[&](auto& r) { resume(r, 49, 99); }});
}

TEST(ValidateGenerate, InputMustBeThereAndInRange) {
  Refuses("input", {[](auto& r) { r.clear_prompt(); }});
  Refuses("prompt", {[](auto& r) { r.set_prompt(""); }});
  Refuses("prompt_utf8", {[](auto& r) { r.set_prompt_utf8(""); }});
  Refuses("tokens.ids", {[](auto& r) { r.mutable_tokens(); }});
  Refuses("tokens.ids[1]", {[](auto& r) {
            r.mutable_tokens()->add_ids(99);
            r.mutable_tokens()->add_ids(100);
          }});
  Refuses("chat.messages", {[](auto& r) { r.mutable_chat(); }});
  Refuses("chat.messages[0].role",
          {[](auto& r) { r.mutable_chat()->add_messages()->set_content("x"); },
           [](auto& r) { r.mutable_chat()->add_messages()->set_role(static_cast<v1::Role>(7)); }});
  Refuses("chat.think", {[](auto& r) {
            r.mutable_chat()->add_messages()->set_role(v1::ROLE_USER);
            r.mutable_chat()->set_think(static_cast<v1::ThinkMode>(9));
          }});
}

TEST(ValidateGenerate, TooLongIsOutOfRange) {
  Refuses("prompt", {[](auto& r) { r.set_prompt(std::string(1001, 'x')); }},
          absl::StatusCode::kOutOfRange);
  Refuses("tokens.ids", {[](auto& r) {
            // An id past the vocabulary does not matter: the size is checked first.
            for (int i = 0; i < 9; ++i) r.mutable_tokens()->add_ids(1000);
          }},
          absl::StatusCode::kOutOfRange);
  Refuses("chat.messages", {[](auto& r) {
            auto& message = *r.mutable_chat()->add_messages();
            message.set_role(v1::ROLE_USER);
            message.set_content(std::string(1001, 'x'));
          }},
          absl::StatusCode::kOutOfRange);
}

TEST(ValidateGenerate, ASessionMayGoOnWithoutInput) {
  const auto on_session = [](GenerateRequest& r) { r.mutable_session()->set_session_id("s"); };
  Accepts({[&](auto& r) {
             on_session(r);
             r.clear_prompt();
           },
           [&](auto& r) {
             on_session(r);
             r.mutable_tokens();
           },
           [&](auto& r) {
             on_session(r);
             r.mutable_chat();
           }});
  Refuses("session.session_id", {[](auto& r) { r.mutable_session(); }});
}

TEST(ValidateGenerate, AVerifierTakesIdsOnly) {
  RequestLimits limits = Limits();
  limits.token_ids_only = true;
  EXPECT_EQ(FieldViolations(Check([](auto&) {}, limits))[0].field, "input");
  EXPECT_TRUE(Check([](auto& r) { r.mutable_tokens()->add_ids(1); }, limits).ok());
  const absl::Status stops = Check(
      [](auto& r) {
        r.mutable_tokens()->add_ids(1);
        r.mutable_stopping()->add_stop_texts("x");
      },
      limits);
  EXPECT_EQ(FieldViolations(stops)[0].field, "stopping.stop_texts");
}

TEST(ValidateGenerate, NumbersAreToldWithAllTheirDigits) {
  v1::GenerateRequest request;
  request.mutable_tokens()->add_ids(1);
  request.mutable_stopping()->set_max_tokens(4'294'967'295U);
  const absl::Status status = ValidateGenerate(
      request, {.vocabulary_size = 10, .max_prompt_tokens = 10, .max_tokens = 12'345'678});
  EXPECT_EQ(status.message(), "stopping.max_tokens: is 4294967295, must be from 1 to 12345678");
}

}  // namespace
}  // namespace tandem
