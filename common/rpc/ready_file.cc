#include "common/rpc/ready_file.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace tandem {
namespace {

absl::Status WithFlag(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("--ready-file: ", status.message()));
}

}  // namespace

absl::Status PrepareReadyFile(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return WithFlag(ErrnoStatus(errno, absl::StrCat("cannot replace ", path)));
  }
  const std::string trial = path + ".trial";
  const absl::Status written = WriteFileAtomically(trial, "");
  unlink(trial.c_str());
  return WithFlag(written);
}

absl::Status WriteReadyFile(const ReadyFile& file) {
  if (file.path.empty()) return absl::OkStatus();
  google::protobuf::Struct facts;
  auto& fields = *facts.mutable_fields();
  fields["process"].set_string_value(file.process);
  fields["pid"].set_number_value(getpid());
  fields["address"].set_string_value(file.address);
  fields["port"].set_number_value(file.port);
  fields["metrics_address"].set_string_value(file.metrics_address);
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(facts, &json).ok()) {
    return absl::InternalError("the ready file's facts have no JSON form");
  }
  return WithFlag(WriteFileAtomically(file.path, json + "\n"));
}

}  // namespace tandem
