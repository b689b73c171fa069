#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/model/tiny_model.h"

namespace tandem {

// A folder of its own under the test's temporary directory, removed with the object.
class TempFolder final {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  // Writes `bytes` to a file of the folder (creating folders on the way) and returns its path.
  std::string Write(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

// Writes a pickle of protocol 2, one opcode at a time.
class PickleWriter final {
 public:
  PickleWriter() : bytes_("\x80\x02") {}
  PickleWriter& Op(char opcode);
  PickleWriter& Raw(const std::string& bytes);
  PickleWriter& Global(const std::string& module, const std::string& name);
  PickleWriter& Text(const std::string& text);
  PickleWriter& Int(int64_t value);
  PickleWriter& Tuple(const std::vector<int64_t>& values);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// One tensor as a pickle describes it.
struct PickledView {
  std::string name;
  std::string storage_class = "FloatStorage";  // of the module torch
  std::string key = "0";
  int64_t count = 0;
  int64_t offset = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;  // empty: contiguous
  std::string dtype;            // not empty: a v3 call with UntypedStorage and this type of torch
};

// Appends name and rebuild call to an open dictionary.
void AppendView(PickleWriter* pickle, const PickledView& view);
// A whole data.pkl, with a dictionary quant_meta unless the scheme is empty.
std::string PickleOf(const std::vector<PickledView>& views, const std::string& quant_scheme = "");

struct ZipEntry {
  std::string name;
  std::string bytes;
  uint16_t method = 0;
  uint16_t flags = 0;
  uint64_t hole = 0;  // bytes of the member after `bytes` that are counted but not written
};

// A zip archive; with `zip64`, sizes and offsets stand in ZIP64 fields only.
std::string ZipOf(const std::vector<ZipEntry>& entries, bool zip64 = false);

// A whole .pth archive with one storage per tensor.
std::string PthOf(const std::vector<TestTensor>& tensors, bool zip64 = false,
                  const std::string& quant_scheme = "");

// A whole .safetensors file; the data follow in the order of `tensors`.
std::string SafetensorsOf(const std::vector<TestTensor>& tensors,
                          const std::string& quant_scheme = "");
// The same with a given JSON header.
std::string SafetensorsWith(const std::string& header, const std::string& data);

}  // namespace tandem
