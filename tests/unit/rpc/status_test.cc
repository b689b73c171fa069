#include "common/rpc/status.h"

#include <gtest/gtest.h>

#include "google/rpc/details.pb.h"

namespace tandem {
namespace {

absl::Status RoundTrip(const absl::Status& status) { return FromGrpc(ToGrpc(status)); }

TEST(RpcStatus, EveryCanonicalCodeSurvives) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
    EXPECT_EQ(RoundTrip(status).code(), status.code());
    EXPECT_EQ(RoundTrip(status).message(), code == 0 ? "" : "why");
  }
}

TEST(RpcStatus, AnUnknownCodeBecomesUnknown) {
  EXPECT_EQ(FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(20), "x")).code(),
            absl::StatusCode::kUnknown);
}

TEST(RpcStatus, FieldViolationSurvives) {
  const absl::Status status = RoundTrip(FieldError("sampling.top_p", "is 2"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "sampling.top_p: is 2");
  const auto violations = FieldViolations(status);
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].field, "sampling.top_p");
  EXPECT_EQ(violations[0].description, "is 2");
}

TEST(RpcStatus, RetryInfoAndReasonSurviveTogether) {
  const absl::Status status = RoundTrip(RetryLaterError(
      absl::StatusCode::kResourceExhausted, "QUEUE_FULL", "full", absl::Milliseconds(1500)));
  EXPECT_EQ(ErrorReason(status), "QUEUE_FULL");
  ASSERT_TRUE(RetryDelay(status).has_value());
  EXPECT_EQ(*RetryDelay(status), absl::Milliseconds(1500));
  EXPECT_TRUE(FieldViolations(status).empty());
}

TEST(RpcStatus, WithoutDetailsThereAreNone) {
  const absl::Status status = RoundTrip(absl::NotFoundError("gone"));
  EXPECT_EQ(ErrorReason(status), "NOT_FOUND");
  EXPECT_FALSE(RetryDelay(status).has_value());
  EXPECT_TRUE(ToGrpc(absl::NotFoundError("gone")).error_details().empty());
}

// What other languages' helpers read: google.rpc.Status with Any details.
TEST(RpcStatus, TheWireFormIsTheGoogleErrorModel) {
  const grpc::Status wire = ToGrpc(FieldError("seed", "is missing"));
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(wire.error_details()));
  EXPECT_EQ(details.code(), 3);
  EXPECT_EQ(details.message(), "seed: is missing");
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.BadRequest");
  google::rpc::BadRequest request;
  ASSERT_TRUE(details.details(0).UnpackTo(&request));
  EXPECT_EQ(request.field_violations(0).field(), "seed");
}

TEST(RpcStatus, GarbageDetailsAreIgnored) {
  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "x", "\xff\xff not a message"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(FieldViolations(status).empty());
}

TEST(RpcStatus, RetryableCodes) {
  for (int code = 1; code <= 16; ++code) {
    const bool expected = code == 8 || code == 10 || code == 14;  // table of codes
    EXPECT_EQ(IsRetryable(static_cast<absl::StatusCode>(code)), expected) << code;
  }
}

}  // namespace
}  // namespace tandem
