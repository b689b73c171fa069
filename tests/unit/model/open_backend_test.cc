#include "common/model/open_backend.h"

#include <gtest/gtest.h>

#include "kernels/backend_cuda.h"

namespace tandem {
namespace {

TEST(OpenBackendTest, CpuIsAlwaysThere) {
  const auto opened = OpenBackend("cpu", 1);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_STREQ(opened->backend->name(), "cpu");
  EXPECT_EQ(opened->device_uuid, "");
}

TEST(OpenBackendTest, CudaAndAutoFollowTheDevice) {
  const CudaStart start = MakeCudaBackend({});
  const auto forced = OpenBackend("cuda", 1);
  const auto automatic = OpenBackend("auto", 1);
  ASSERT_TRUE(automatic.ok()) << automatic.status();
  if (start.backend != nullptr) {
    ASSERT_TRUE(forced.ok()) << forced.status();
    EXPECT_EQ(forced->device_uuid, start.device.uuid);
    EXPECT_STREQ(automatic->backend->name(), "cuda");
    return;
  }
  EXPECT_EQ(forced.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(forced.status().message(), "--backend=cuda: " + start.refused);
  EXPECT_STREQ(automatic->backend->name(), "cpu");
}

TEST(OpenBackendTest, OtherNamesAreRefused) {
  const auto opened = OpenBackend("gpu", 1);
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(opened.status().message(), "--backend=gpu: must be auto, cpu or cuda");
}

}  // namespace
}  // namespace tandem
