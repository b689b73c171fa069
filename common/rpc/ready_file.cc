#include "common/rpc/ready_file.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace tandem {

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
  const absl::Status written = WriteFileAtomically(file.path, json + "\n");
  if (written.ok()) return written;
  return absl::Status(written.code(), absl::StrCat("--ready-file: ", written.message()));
}

}  // namespace tandem
